"""Wrong robot files: each fault of a simulator is said in words, from this process and from workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from toy_point import ENVIRONMENT, SPEC, ToyController, ToyEnv, ToyPlanner, instance

import vhdiffuser
from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.cli import run
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.execute import execute
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import Instance


class Short(ToyEnv):
    def reset(self, case: Instance) -> np.ndarray:
        return super().reset(case)[:1]


class Tuple(ToyEnv):
    def reset(self, case: Instance) -> Any:
        return super().reset(case), {}


class Nothing(ToyEnv):
    def step(self, action: np.ndarray) -> Any:
        super().step(action)


class Words(ToyEnv):
    def step(self, action: np.ndarray) -> np.ndarray:
        return np.array(["left", "right"])


class Diverges(ToyEnv):
    def step(self, action: np.ndarray) -> np.ndarray:
        return super().step(action) * np.nan


class Ragged(ToyEnv):
    def step(self, action: np.ndarray) -> np.ndarray:
        return np.zeros(2 if action[0] > 0 else 3)


class TakesThree(ToyEnv):
    def step(self, action: np.ndarray) -> np.ndarray:
        return super().step(action + np.zeros(3))


class Specless(ToyEnv):
    def __init__(self) -> None:
        super().__init__()
        del self.spec


class Incomplete(PlanningEnv):
    spec = SPEC


class Raises(ToyEnv):
    def __init__(self) -> None:
        raise RuntimeError("no such port")


class NoSimulator:
    spec = SPEC


FAULTS = [
    (Short, r"reset of Short .* 2 numbers; got shape \(1,\)"),
    (Tuple, "Return the observation alone"),
    (Nothing, "step of Nothing .* got NoneType"),
    (Words, "step of Words .* got dtype"),
    (Diverges, "step of Diverges .* NaN"),
    (Ragged, r"step of Ragged .* got shape \(3,\)"),
    (TakesThree, r"step of TakesThree failed with ValueError: .*test_checked\.py, line"),
    (Specless, "without `spec`"),
    (Incomplete, "Incomplete.* failed with TypeError: .*render"),
    (Raises, r"creating the simulator .* no such port \(.*test_checked\.py, line"),
    (NoSimulator, "subclass of vhdiffuser.PlanningEnv"),
]
PAIRS = [instance((0.5, 0.5), (1.0, 1.0)), instance((0.5, 0.5), (0.0, 0.0))]


def run_all(simulators: Simulators) -> None:
    simulators.reset([0, 1], PAIRS)
    simulators.step([0, 1], np.array([[0.1, 0.0], [-0.1, 0.0]], np.float32))


@pytest.mark.parametrize(("simulator", "said"), FAULTS)
def test_a_wrong_simulator_is_refused_in_words(simulator: Callable[[], PlanningEnv], said: str) -> None:
    with pytest.raises(VhdError, match=said), Simulators(simulator, 2, 1) as simulators:
        run_all(simulators)


@pytest.mark.parametrize("simulator", [Short, TakesThree, Raises])
def test_workers_say_it_too(simulator: Callable[[], PlanningEnv]) -> None:
    (said,) = (said for fault, said in FAULTS if fault is simulator)
    with pytest.raises(VhdError, match=said), Simulators(simulator, 2, 2) as simulators:
        run_all(simulators)


def test_a_lambda_cannot_be_sent_to_workers_and_does_in_one_process() -> None:
    with pytest.raises(VhdError, match="cannot be sent .*`--workers 1`"), Simulators(lambda: ToyEnv(), 2, 2) as both:
        run_all(both)
    with Simulators(lambda: ToyEnv(), 2, 1) as one:
        run_all(one)


def step_once(task: gymnasium.Env[Any, Any]) -> None:
    task.reset(seed=0)
    task.step(np.zeros(2))


@pytest.mark.parametrize(
    "simulator", [Short, Diverges, TakesThree, Raises, lambda: NoSimulator()], ids=lambda item: item.__name__
)
def test_one_execution_and_gymnasium_say_it_too(simulator: Callable[[], PlanningEnv]) -> None:
    environment = replace(ENVIRONMENT, simulator=simulator)
    with pytest.raises(VhdError):
        execute(ToyPlanner(), [0, 0], [1, 1], env=environment.make(), controller=ToyController())
    vhdiffuser.register(environment, replace=True)
    with pytest.raises(VhdError):
        step_once(gymnasium.make("vhdiffuser/Toy-v1", disable_env_checker=True))


class DrawsATuple(ToyEnv):
    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Any:
        return np.zeros(2), np.ones(2)


class DrawsShort(ToyEnv):
    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        return Instance(np.zeros(2), np.zeros(1), 0)


class DrawsWithoutDistribution(ToyEnv):
    def sample_instance(self, rng: np.random.Generator) -> Instance:  # type: ignore[override]
        return super().sample_instance(rng)


@pytest.mark.parametrize(
    ("simulator", "said"),
    [
        (DrawsATuple, "must return an Instance"),
        (DrawsShort, "goal needs 2 numbers"),
        (DrawsWithoutDistribution, "sample_instance of DrawsWithoutDistribution failed with TypeError"),
    ],
)
def test_wrong_instances_are_refused(simulator: type[ToyEnv], said: str, tmp_path: Path) -> None:
    with pytest.raises(VhdError, match=said):
        bench(replace(ENVIRONMENT, simulator=simulator), ToyController(), tmp_path)


class Long(ToyController):
    def act(self, observations: np.ndarray, plans: Sequence[Plan], indices: np.ndarray) -> np.ndarray:
        return np.zeros((len(plans), 3), np.float32)


def test_actions_of_the_wrong_size_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VhdError, match=r"an action needs 2 numbers, but Long\.act returned shape \(3,\)"):
        bench(ENVIRONMENT, Long(), tmp_path)


def bench(environment: vhdiffuser.Environment, controller: ToyController, folder: Path) -> None:
    config = BenchConfig(environment, methods=("vhd",), protocols=("ss",), n=2, workers=1)
    choice = PlannerChoice(ToyPlanner(), PlanningOptions(), {})
    run_benchmark(config, folder, lambda *_: choice, controller)


FILES = {
    "raises": (
        "def make():\n    return 1 / 0\n",
        "make() failed with ZeroDivisionError: division by zero (",
        "line 2)",
    ),
    "arguments": ("def make(port):\n    pass\n", "make() failed with TypeError", "'port'"),
    "syntax": ("def make(:\n", "failed with SyntaxError", "line 1"),
    "module": ("import vhdifuser\n", "No module named 'vhdifuser'", "file.py:function"),
    "name": ("spec = nothing\n", "failed with NameError", "line 1)"),
    "number": ("def make():\n    return 5\n", "must be, or return, one or more vhdiffuser.Environment", ""),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_fails_is_named_with_its_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, *said = FILES[kind]
    file = tmp_path / f"robot_{kind}.py"
    file.write_text(text)
    assert run(["bench", f"{file}:make"]) == 1
    printed = capsys.readouterr().err
    assert all(part in printed for part in (str(file), *said))
