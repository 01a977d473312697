"""Run many jobs on a Ray cluster or in local processes, optionally with dependencies between them.

A job is a call of an importable function and depends on its arguments only, so it can run anywhere and can be repeated.
If a node is lost, its jobs run again elsewhere. Ray needs the extra `ray`.
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
"""Number of node failures after which a job is given up."""
_PASSED_ON = ("VHD_HOME", "VHD_PRECISION", "MUJOCO_GL")
"""Environment variables passed on to jobs."""


def run_on_ray(
    function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], address: str, cpus: float = 1
) -> Iterator[tuple[int, Any]]:
    """Call `function(*job)` for each job on a Ray cluster; yields (index of the job, result) as jobs finish.

    `address` is a cluster's address, or `auto`: the cluster running here or named by RAY_ADDRESS, otherwise this
    machine alone. `cpus` is the number of CPUs per job.
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
        with needs_extra("ray", "running on a Ray cluster"):
            import ray
        self._ray = ray
        if not ray.is_initialized():
            self._connect(address)
        self._call = ray.remote(max_retries=_RETRIES)(_call)

    def _connect(self, address: str) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's notices about its own future versions
            try:
                self._ray.init(address=address, **quiet)
            except (ConnectionError, ValueError, RuntimeError) as error:
                if address != "auto" or os.environ.get("RAY_ADDRESS"):
                    reason = str(error).partition("\n")[0]
                    raise VhdError(
                        f"no Ray cluster at {address} ({reason}). Start one with `ray start --head`, or use "
                        "--ray auto to run on this machine. If it needs a token, set RAY_AUTH_MODE=token."
                    ) from error
                self._start_here(quiet)
            except self._ray.exceptions.RayError as error:  # Ray's AuthenticationError, from 2.52 on
                reason = str(error).partition(". ")[0]
                raise VhdError(
                    f"the Ray cluster at {address} was not joined ({reason}). Copy ~/.ray/auth_token from its head, "
                    "where `ray get-auth-token` prints the token, or set RAY_AUTH_TOKEN."
                ) from error

    def _start_here(self, options: dict[str, Any]) -> None:
        try:
            self._ray.init(address="local", include_dashboard=False, **options)
        except Exception as error:  # Ray raises a bare Exception if its processes time out at startup
            reason = str(error).partition("\n")[0]
            raise VhdError(f"Ray did not start on this machine ({reason}). Run without --ray.") from error

    def submit(self, function: Callable[..., Any], job: tuple[Any, ...], cpus: float = 1, gpus: float = 0) -> Any:
        """Start a job and return a reference to its result."""
        variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return self._call.options(num_cpus=cpus, num_gpus=gpus).remote(variables, function, job)

    def wait(self, refs: list[Any]) -> list[Any]:
        """Wait until at least one job has finished; returns the references of all finished jobs."""
        ended: list[Any] = []
        while not ended:  # with a timeout, so that Ctrl-C gets through
            ended, _ = self._ray.wait(refs, num_returns=1, timeout=1.0)
        return ended

    def result(self, ref: Any) -> Any:
        """Return the job's result, or raise its error."""
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]  # Ray's message ends with the cause
            raise VhdError(
                f"a job on the cluster failed {_RETRIES} times or could not start ({reason}). Finished work is "
                "kept. Check that all nodes are up and have this version installed, then run the same command "
                "again."
            ) from error
        if isinstance(answer, VhdError):
            raise answer
        return answer

    def cancel(self, refs: list[Any]) -> None:
        """Cancel jobs."""
        for ref in refs:
            with suppress(Exception):  # the cluster may be gone already
                self._ray.cancel(ref, force=True)


def _call(variables: dict[str, str], function: Callable[..., Any], job: tuple[Any, ...]) -> Any:
    """Run one job on a node. Our own errors are returned, because Ray would wrap them."""
    os.environ.update({"OMP_NUM_THREADS": "1", **variables})  # one core per job
    try:
        return function(*job)
    except Exception as error:
        return failure(error, "a job on the cluster")


class LocalPool:
    """Local worker processes with the interface of `RayPool`."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._running: dict[Connection, tuple[int, Worker]] = {}
        self._ended: dict[int, Any] = {}
        self._numbers = itertools.count()

    def submit(self, function: Callable[..., Any], job: tuple[Any, ...], cpus: float = 1, gpus: float = 0) -> int:
        """Queue a job and return a reference to its result."""
        number = next(self._numbers)
        self._waiting[number] = (function, job)
        self._start()
        return number

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._count:
            number = next(iter(self._waiting))
            worker = start_worker(_call_once)
            with suppress(OSError):  # the worker has ended; `wait` notices
                worker.pipe.send(self._waiting.pop(number))
            self._running[worker.pipe] = (number, worker)

    def wait(self, refs: list[int]) -> list[int]:
        """Wait until at least one job has finished; returns the references of all finished jobs."""
        while not (ended := [ref for ref in refs if ref in self._ended]):
            ready: Any = wait_for(list(self._running))
            for pipe in ready:
                number, worker = self._running.pop(pipe)
                try:
                    self._ended[number] = pipe.recv()
                except (EOFError, OSError):
                    self._ended[number] = VhdError(
                        "a worker process ended unexpectedly; it may have run out of memory."
                    )
                end_workers([worker])
            self._start()
        return ended

    def result(self, ref: int) -> Any:
        """Return the job's result, or raise its error."""
        answer = self._ended.pop(ref)
        if isinstance(answer, VhdError):
            raise answer
        return answer

    def cancel(self, refs: list[int]) -> None:
        """Cancel jobs."""
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
    """A call that may depend on others."""

    function: Callable[..., Any]
    """An importable function."""
    arguments: tuple[Any, ...]
    needs: tuple[str, ...] = ()
    """Names of the tasks that must succeed first."""
    gpus: float = 0
    """Number of GPUs it needs on a cluster."""


def run_graph(tasks: Mapping[str, GraphTask], pool: RayPool | LocalPool) -> Iterator[tuple[str, Any]]:
    """Run each task as soon as its dependencies are done; yields (name, result) as tasks finish.

    A failed task stops only the tasks that depend on it. Raises `VhdError` with all failures at the end.
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
        raise VhdError(
            f"{len(failed)} of {len(tasks)} tasks failed. Finished tasks are kept; run the same command to "
            f"continue. {reasons}"
        )


def make_pool(ray: str | None, workers: int) -> RayPool | LocalPool:
    """Connect to the Ray cluster at that address, or start `workers` local processes (0: one per core)."""
    return RayPool(ray) if ray is not None else LocalPool(workers or available_cores())
