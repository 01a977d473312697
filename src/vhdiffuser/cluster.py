"""Many jobs: on a Ray cluster or in processes of this machine, with a graph of what waits for what.

A job is a call of a function that every process can import, and depends on its arguments alone: it does not matter
where and how often it is run. A lost node's jobs are done again elsewhere. Ray needs the extra `ray`.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import TopologicalSorter
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any

from vhdiffuser.errors import VhdError, needs_extra
from vhdiffuser.workers import Worker, available_cores, end_workers, failure, start_worker

_RETRIES = 5
"""Nodes that may be lost while a job is running on them, before it is given up."""
_PASSED_ON = ("VHD_HOME", "VHD_PRECISION", "MUJOCO_GL")
"""Variables that a job sees as they are here."""


def run_on_ray(
    function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], address: str, cpus: float = 1
) -> Iterator[tuple[int, Any]]:
    """Call `function(*job)` for each job on a Ray cluster; yields (number of the job, result) once each, as they end.

    `address` is `auto` (the cluster that runs here or that RAY_ADDRESS names; without one, this machine alone) or that
    of a cluster. `cpus` are what a job needs.
    """
    pool = RayPool(address)
    pending = {pool.submit(function, job, cpus): number for number, job in enumerate(jobs)}
    try:
        while pending:
            for ref in pool.wait(list(pending)):
                yield pending.pop(ref), pool.result(ref)
    finally:
        pool.cancel(list(pending))


class RayPool:
    """A connection to a Ray cluster."""

    def __init__(self, address: str) -> None:
        with needs_extra("ray", "running on a cluster"):
            import ray
        self._ray = ray
        if not ray.is_initialized():
            self._connect(address)
        self._call = ray.remote(max_retries=_RETRIES)(_call)

    def _connect(self, address: str) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's advice about future versions of itself
            try:
                self._ray.init(address=address, **quiet)
            except (ConnectionError, ValueError, RuntimeError) as error:
                if address != "auto" or os.environ.get("RAY_ADDRESS"):
                    reason = str(error).partition("\n")[0]
                    raise VhdError(
                        f"no Ray cluster answers at {address} ({reason}). Start one with `ray start --head`, or use "
                        "--ray auto for this machine alone."
                    ) from error
                self._start_here(quiet)

    def _start_here(self, options: dict[str, Any]) -> None:
        try:
            self._ray.init(address="local", include_dashboard=False, **options)
        except Exception as error:  # Ray raises a bare Exception if its processes do not start in time
            reason = str(error).partition("\n")[0]
            raise VhdError(f"Ray could not be started on this machine ({reason}). Run without --ray.") from error

    def submit(self, function: Callable[..., Any], job: tuple[Any, ...], cpus: float = 1, gpus: float = 0) -> Any:
        """Start a job; a reference to its result."""
        variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return self._call.options(num_cpus=cpus, num_gpus=gpus).remote(variables, function, job)

    def wait(self, refs: list[Any]) -> list[Any]:
        """References of jobs that have ended, at least one."""
        ended: list[Any] = []
        while not ended:  # with a time-out, so that Ctrl-C is noticed
            ended, _ = self._ray.wait(refs, num_returns=1, timeout=1.0)
        return ended

    def result(self, ref: Any) -> Any:
        """What the job returned, or raise what it raised."""
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]  # Ray's text ends with the cause
            raise VhdError(
                f"a job on the cluster was lost {_RETRIES} times or could not be started ({reason}). Finished work is "
                "kept: see that the nodes are up and have this version installed, and run the same command."
            ) from error
        if isinstance(answer, VhdError):
            raise answer
        return answer

    def cancel(self, refs: list[Any]) -> None:
        """Stop jobs that nobody waits for any more."""
        for ref in refs:
            with suppress(Exception):  # the cluster may be gone
                self._ray.cancel(ref, force=True)


def _call(variables: dict[str, str], function: Callable[..., Any], job: tuple[Any, ...]) -> Any:
    """Run one job on a node; our errors are returned, because Ray would wrap them in its own."""
    os.environ.update({"OMP_NUM_THREADS": "1", **variables})  # a job has one core
    try:
        return function(*job)
    except Exception as error:
        return failure(error, "a job on the cluster")


class LocalPool:
    """Worker processes of this machine, with what `RayPool` can do."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._running: dict[Connection, tuple[int, Worker]] = {}
        self._ended: dict[int, Any] = {}
        self._numbers = itertools.count()

    def submit(self, function: Callable[..., Any], job: tuple[Any, ...], cpus: float = 1, gpus: float = 0) -> int:
        """Queue a job; a reference to its result."""
        number = next(self._numbers)
        self._waiting[number] = (function, job)
        self._start()
        return number

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._count:
            number = next(iter(self._waiting))
            worker = start_worker(_call_once)
            with suppress(OSError):  # it has ended; `wait` notices
                worker.pipe.send(self._waiting.pop(number))
            self._running[worker.pipe] = (number, worker)

    def wait(self, refs: list[int]) -> list[int]:
        """References of jobs that have ended, at least one."""
        while not (ended := [ref for ref in refs if ref in self._ended]):
            ready: Any = wait_for(list(self._running))
            for pipe in ready:
                number, worker = self._running.pop(pipe)
                try:
                    self._ended[number] = pipe.recv()
                except (EOFError, OSError):
                    self._ended[number] = VhdError("a worker process ended unexpectedly, perhaps out of memory.")
                end_workers([worker])
            self._start()
        return ended

    def result(self, ref: int) -> Any:
        """What the job returned, or raise what it raised."""
        answer = self._ended.pop(ref)
        if isinstance(answer, VhdError):
            raise answer
        return answer

    def cancel(self, refs: list[int]) -> None:
        """Stop jobs that nobody waits for any more."""
        for ref in refs:
            self._waiting.pop(ref, None)
        ours = {pipe: worker for pipe, (number, worker) in self._running.items() if number in refs}
        end_workers(list(ours.values()))
        for pipe in ours:
            del self._running[pipe]


def _call_once(pipe: Connection) -> None:
    function, job = pipe.recv()
    pipe.send(_call({}, function, job))


@dataclass(frozen=True)
class GraphTask:
    """A call that waits for others."""

    function: Callable[..., Any]
    """Importable."""
    arguments: tuple[Any, ...]
    needs: tuple[str, ...] = ()
    """Names of the tasks that must have ended well."""
    gpus: float = 0
    """GPUs that it needs on a cluster."""


def run_graph(tasks: Mapping[str, GraphTask], pool: RayPool | LocalPool) -> Iterator[tuple[str, Any]]:
    """Run tasks as soon as what they need is done; yields (name, result) once each, as they end.

    A task that fails stops those that need it and no others. In the end `VhdError` names the failed ones.
    """
    order = TopologicalSorter({name: task.needs for name, task in tasks.items()})
    order.prepare()
    pending: dict[Any, str] = {}
    failed: dict[str, VhdError] = {}
    try:
        while True:
            for name in order.get_ready():
                pending[pool.submit(tasks[name].function, tasks[name].arguments, gpus=tasks[name].gpus)] = name
            if not pending:
                break
            for ref in pool.wait(list(pending)):
                name = pending.pop(ref)
                try:
                    result = pool.result(ref)
                except VhdError as error:
                    failed[name] = error
                    continue
                order.done(name)
                yield name, result
    finally:
        pool.cancel(list(pending))
    if failed:
        reasons = " ".join(f"{name}: {error}" for name, error in failed.items())
        raise VhdError(f"{len(failed)} of {len(tasks)} tasks failed; the others are kept, run this again. {reasons}")


def make_pool(ray: str | None, workers: int) -> RayPool | LocalPool:
    """The cluster at that address, or `workers` processes here (0: one per core)."""
    return RayPool(ray) if ray is not None else LocalPool(workers or available_cores())
