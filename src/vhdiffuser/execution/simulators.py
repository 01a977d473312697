"""Many simulators stepped together on all cores, each in a numbered slot.

Simulators with a vectorised version (`PlanningEnv.vector`) run in this process, on threads. Others get one simulator
per slot, in worker processes, or in this process with a single worker. Slots are assigned to workers in turn, so any
subset of them is spread evenly. A slot's results depend only on its instance and actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import numpy as np

from vhdiffuser.envs.base import PlanningEnv, VectorEnv
from vhdiffuser.envs.checked import foreign_code, make_simulator, stacked
from vhdiffuser.errors import VhdError
from vhdiffuser.types import FloatArray, Instance, IntArray
from vhdiffuser.workers import Worker, available_cores, end_workers, failure, start_worker

EnvFactory = Callable[[], PlanningEnv]
"""Creates one simulator. It is sent to workers, so it must be importable (a class, or a `partial` of a function)."""


class _Slots(VectorEnv):
    """One simulator per slot, created on first use and stepped one by one."""

    def __init__(self, make_env: EnvFactory) -> None:
        self._make_env = make_env
        self._envs: dict[int, PlanningEnv] = {}

    def reset(self, slots: Sequence[int], instances: Sequence[Instance]) -> FloatArray:
        """(k, o) first observations."""
        for slot in slots:
            if slot not in self._envs:
                self._envs[slot] = make_simulator(self._make_env)
        return self._ask("reset", slots, instances)

    def step(self, slots: Sequence[int] | IntArray, actions: FloatArray) -> FloatArray:
        """(k, m) actions -> (k, o) observations."""
        return self._ask("step", slots, actions)

    def _ask(self, method: str, slots: Sequence[int] | IntArray, values: Sequence[Any] | FloatArray) -> FloatArray:
        env = self._envs[slots[0]]
        with foreign_code(f"{env.spec.name}: {method} of {type(env).__name__}"):
            answers = [getattr(self._envs[slot], method)(value) for slot, value in zip(slots, values, strict=True)]
        return stacked(env, method, answers)


def _serve(pipe: Connection) -> None:
    """Main loop of a worker: receive the factory, then answer (command, slots, values) until the pipe closes."""
    simulators: _Slots | VhdError
    try:
        with foreign_code("importing the simulator in a worker process"):
            simulators = _Slots(pipe.recv())
    except VhdError as error:
        simulators = error
    while True:
        command, slots, values = pipe.recv()
        try:
            if isinstance(simulators, VhdError):
                raise simulators
            answer: Any = simulators.reset(slots, values) if command == "reset" else simulators.step(slots, values)
        except Exception as error:
            answer = failure(error, "a simulator")
        pipe.send(answer)


class Simulators:
    """`slots` simulators on `workers` threads or processes (0: one per core). Use as a context manager."""

    def __init__(self, make_env: EnvFactory, slots: int, workers: int = 1, first: PlanningEnv | None = None) -> None:
        """`first`, made by `make_env`, determines whether simulators can be stepped together (`vector`)."""
        if slots < 1 or workers < 0:
            raise VhdError(f"at least 1 simulator and 0 or more workers are required; got {slots} and {workers}.")
        self.slots = slots
        self.workers = min(workers or available_cores(), slots)
        self._make_env = make_env
        self._local: VectorEnv | None = None
        if first is not None and slots > 1:
            self._local = first.vector(slots, self.workers)
        if self._local is None and self.workers == 1:
            self._local = _Slots(make_env)
        self._started: list[Worker] = []

    def _start(self) -> None:
        for _ in range(self.workers):
            self._started.append(start_worker(_serve))
            self._send_factory(self._started[-1].pipe)

    def _send_factory(self, pipe: Connection) -> None:
        try:
            pipe.send(self._make_env)
        except OSError:
            return  # the worker has ended; the next request reports it
        except Exception as error:  # a lambda or a nested function
            raise VhdError(
                f"the simulator's factory cannot be sent to worker processes ({error}). Make it a class or a "
                "function at the top level of a module, or use a single process (workers 1, `--workers 1`)."
            ) from error

    def reset(self, slots: Sequence[int], instances: Sequence[Instance]) -> FloatArray:
        """Reset these slots to their instances; returns (k, o) first observations."""
        if self._local is not None:
            return self._local.reset(slots, instances)
        return self._ask("reset", slots, lambda rows: [instances[row] for row in rows])

    def step(self, slots: Sequence[int] | IntArray, actions: FloatArray) -> FloatArray:
        """One control step of these slots: (k, m) actions -> (k, o) observations."""
        if self._local is not None:
            return self._local.step(slots, actions)
        return self._ask("step", slots, lambda rows: actions[rows])

    @property
    def savable(self) -> bool:
        """Whether `save` and `load` are supported."""
        return self._local is not None and self._local.savable

    def save(self, slot: int) -> FloatArray:
        """The complete state of a slot's simulator."""
        assert self._local is not None
        return self._local.save(slot)

    def load(self, slot: int, state: FloatArray) -> None:
        """Restore a saved state, of this slot or another."""
        assert self._local is not None
        self._local.load(slot, state)

    def _ask(self, command: str, slots: Sequence[int] | IntArray, values: Callable[[list[int]], Any]) -> FloatArray:
        if not self._started:
            self._start()
        shares: list[list[int]] = [[] for _ in range(self.workers)]
        for row, slot in enumerate(slots):
            shares[slot % self.workers].append(row)
        asked = [(worker.pipe, rows) for worker, rows in zip(self._started, shares, strict=True) if rows]
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
        """Stop the workers."""
        end_workers(self._started)
        self._started = []

    def __enter__(self) -> Simulators:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
