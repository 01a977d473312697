"""Many simulators stepped together: on all cores by worker processes, or in this process when there is one.

A simulator lives in a numbered slot. Slots are dealt out to workers in turn, so any part of them
is spread evenly. What a slot does depends on its instance and actions only, never on its worker.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import numpy as np

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.checked import foreign_code, make_simulator, stacked
from vhdiffuser.errors import VhdError
from vhdiffuser.types import FloatArray, Instance

EnvFactory = Callable[[], PlanningEnv]
"""Makes one simulator; it is sent to the workers, so it must be importable (a class, a `partial` of a function)."""


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Slots:
    """The simulators of one process, made when first used."""

    def __init__(self, make_env: EnvFactory) -> None:
        self._make_env = make_env
        self._envs: dict[int, PlanningEnv] = {}

    def reset(self, slots: Sequence[int], instances: Sequence[Instance]) -> FloatArray:
        """(k, o) first observations."""
        for slot in slots:
            if slot not in self._envs:
                self._envs[slot] = make_simulator(self._make_env)
        return self._ask("reset", slots, instances)

    def step(self, slots: Sequence[int], actions: FloatArray) -> FloatArray:
        """(k, m) actions -> (k, o) observations."""
        return self._ask("step", slots, actions)

    def _ask(self, method: str, slots: Sequence[int], values: Sequence[Any] | FloatArray) -> FloatArray:
        env = self._envs[slots[0]]
        with foreign_code(f"{env.spec.name}: {method} of {type(env).__name__}"):
            answers = [getattr(self._envs[slot], method)(value) for slot, value in zip(slots, values, strict=True)]
        return stacked(env, method, answers)


def _serve(pipe: Connection) -> None:
    """A worker's life: take what makes simulators, then answer each (command, slots, values) until the pipe closes."""
    # Ctrl-C reaches the whole group; the main process ends the workers by closing their pipes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    simulators: _Slots | VhdError
    try:
        with foreign_code("importing what makes the simulators, in a worker process,"):
            simulators = _Slots(pipe.recv())
    except VhdError as error:
        simulators = error
    while True:
        try:
            command, slots, values = pipe.recv()
        except EOFError:
            return
        try:
            if isinstance(simulators, VhdError):
                raise simulators
            answer: Any = simulators.reset(slots, values) if command == "reset" else simulators.step(slots, values)
        except Exception as error:
            # Sent to the main process, which raises it: a worker must not die silently.
            answer = VhdError(str(error)) if isinstance(error, VhdError) else VhdError(f"a simulator failed: {error!r}")
        pipe.send(answer)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Children read these when they start: many workers with many threads each slow each other down."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Simulators:
    """`slots` simulators in `workers` processes (0: one per core). Use as a context manager."""

    def __init__(self, make_env: EnvFactory, slots: int, workers: int = 1) -> None:
        if slots < 1 or workers < 0:
            raise VhdError(f"needs at least one simulator and no negative workers, got {slots} and {workers}.")
        self.slots = slots
        self.workers = min(workers or available_cores(), slots)
        self._make_env = make_env
        self._local = _Slots(make_env) if self.workers == 1 else None
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []

    def _start(self) -> None:
        # "spawn": a forked child would inherit torch's thread pools in an undefined state.
        context = get_context("spawn")
        with _one_thread_each():
            for _ in range(self.workers):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs,), daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)
                self._send_factory(ours)

    def _send_factory(self, pipe: Connection) -> None:
        try:
            pipe.send(self._make_env)
        except OSError:
            return  # the worker is gone already; that is said when it is asked
        except Exception as error:  # a lambda, or a function within a function
            raise VhdError(
                f"what makes the simulator cannot be sent to worker processes ({error}). Make it a class or a function "
                "at the top level of a file, or let one process step all simulators (workers 1, `--workers 1`)."
            ) from error

    def reset(self, slots: Sequence[int], instances: Sequence[Instance]) -> FloatArray:
        """Put these slots at their instances' starts; (k, o) first observations."""
        if self._local is not None:
            return self._local.reset(slots, instances)
        return self._ask("reset", slots, lambda rows: [instances[row] for row in rows])

    def step(self, slots: Sequence[int], actions: FloatArray) -> FloatArray:
        """One control step of these slots: (k, m) actions -> (k, o) observations."""
        if self._local is not None:
            return self._local.step(slots, actions)
        return self._ask("step", slots, lambda rows: actions[rows])

    def _ask(self, command: str, slots: Sequence[int], values: Callable[[list[int]], Any]) -> FloatArray:
        if not self._pipes:
            self._start()
        shares: list[list[int]] = [[] for _ in range(self.workers)]
        for row, slot in enumerate(slots):
            shares[slot % self.workers].append(row)
        asked = [(pipe, rows) for pipe, rows in zip(self._pipes, shares, strict=True) if rows]
        try:
            for pipe, rows in asked:
                pipe.send((command, [slots[row] for row in rows], values(rows)))
            answers = [pipe.recv() for pipe, _ in asked]
        except (EOFError, OSError) as error:
            raise VhdError(
                "a simulator process ended unexpectedly: out of memory, or a script that starts processes without "
                '`if __name__ == "__main__":`. Rows already written are kept; run again with fewer workers, or with 1.'
            ) from error
        for answer in answers:
            if isinstance(answer, VhdError):
                raise answer
        observations = np.empty((len(slots), answers[0].shape[1]), answers[0].dtype)
        for (_, rows), answer in zip(asked, answers, strict=True):
            observations[rows] = answer
        return observations

    def close(self) -> None:
        """End the workers."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
        self._pipes, self._processes = [], []

    def __enter__(self) -> Simulators:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
