"""Arguments that nobody expects, drawn by hypothesis: for the command line, and for every public function."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from campaign.hangs import ended_if_it_hangs

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10),
    st.integers(),
    st.sampled_from([2**31, 2**63, -(2**63), 10**400, 1e38, -1e38, 1e308]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.sampled_from(["", "1", "a", "../x", "[/bold]", "[red]x", "x" * 300, "\x00", "ünï", "maze2d-umaze", "cpu", "ss"]),
    st.binary(max_size=5),
    st.lists(st.one_of(st.integers(-3, 9), st.floats(), st.text(max_size=3), st.none()), max_size=6),
    st.lists(st.lists(st.floats(width=32), max_size=4), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    st.sampled_from(
        [np.float32(1.5), np.int64(3), np.nan, np.zeros((3, 3)), np.array("a"), np.array([1, None]), object]
    ),
)
WORDS = st.one_of(
    st.sampled_from(
        ["0", "-1", "1", "2", "9 9", "0 0", "nan", "inf", "-inf", "1e38", "1e400", "none", "None", "True", ""]
    ),
    st.sampled_from(
        ["x" * 300, "[/bold]", "[red]", "../..", "/dev/null", "/", "ünï", "a b", "--", "-", "99999999999999999999"]
    ),
    st.integers().map(str),
    st.floats().map(str),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12),
)
SECONDS = 5
"""Seconds that one accepted input may work; then it is stopped, which it must obey."""


class Stopped(BaseException):
    """An accepted input was still at work."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Stop what works for long; what does not stop ends this process, which is noticed. An import that is stopped
    half-way would break every later one, so it is let finish."""

    def stop(number: int, frame: FrameType | None) -> None:
        if importing(frame):
            signal.alarm(1)
            return
        obeying.enter_context(ended_if_it_hangs(30))
        raise Stopped

    with contextlib.ExitStack() as obeying:
        signal.signal(signal.SIGALRM, stop)
        signal.alarm(SECONDS)
        try:
            yield
        except Stopped:
            pass
        finally:
            signal.alarm(0)


def importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def collect(
    check: Callable[[Any], str], strategy: Any, count: int, number: int, current: Path | None = None
) -> tuple[int, list[str]]:
    """Run `count` drawn inputs; how many failed, and examples. `current` is the file that holds the one at work."""
    faults: list[str] = []

    @seed(number)
    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def every(value: Any) -> None:
        if current is not None:
            current.write_text(repr(value)[:300], encoding="utf-8", errors="replace")
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if fault := check(value):
                faults.append(fault)

    every()
    return len(faults), list(dict.fromkeys(faults))[:5]


def calls(folder: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Public functions, each with arguments that are right."""
    import vhdiffuser
    from vhdiffuser.control.inverse_dynamics import DynamicsConfig
    from vhdiffuser.control.pd import PDConfig
    from vhdiffuser.data.build import BuildConfig
    from vhdiffuser.diffusion.config import PlannerConfig
    from vhdiffuser.envs.importing import import_dataset
    from vhdiffuser.length.config import LengthConfig, NetworkConfig, PlateauConfig, RelayGraphConfig
    from vhdiffuser.training.config import LoopConfig
    from vhdiffuser.types import EnvSpec

    planner = vhdiffuser.load_planner("maze2d-umaze", steps=1)
    spec, start, goal = planner.spec, [1.0, 1.0, 0.0, 0.0], [3.0, 1.0]
    agent = vhdiffuser.Agent(planner)
    agent.reset(goal)
    np.savez(folder / "own.npz", observations=np.random.default_rng(0).random((40, 4)), episode_ends=[40])
    states = np.linspace(start, [3.0, 1.0, 0, 0], 8)
    plan = vhdiffuser.Plan(states, np.array(goal), spec=spec)
    predictor: Any = planner.length_predictor
    names = ("state_dims", "goal_dims", "velocity_dims", "control_dt", "T_max", "L_min", "epsilon")
    own = dict.fromkeys(names)
    several: list[Any] = [
        PlannerConfig,
        LoopConfig,
        vhdiffuser.PlanningOptions,
        DynamicsConfig,
        PDConfig,
        NetworkConfig,
    ]
    configs = {cls.__name__: (cls, {f.name: getattr(cls(), f.name) for f in fields(cls)}) for cls in several}
    for cls in (PlateauConfig, RelayGraphConfig, LengthConfig, BuildConfig):
        configs[cls.__name__] = (cls, {f.name: getattr(cls(), f.name) for f in fields(cls)})
    return {
        **configs,
        "EnvSpec": (EnvSpec, {f.name: getattr(spec, f.name) for f in fields(spec)}),
        "plan": (planner.plan, {"start": start, "goal": goal, "length": 60, "seed": 0, "via": None, "avoid": None}),
        "plan_batch": (planner.plan_batch, {"starts": [start], "goals": [goal], "lengths": None, "seeds": 0}),
        "with_options": (planner.with_options, dict(configs["PlanningOptions"][1])),
        "predict_steps": (predictor.predict_steps, {"starts": start, "goals": goal}),
        "predict_spread": (predictor.predict_spread, {"starts": start, "goals": goal}),
        "route": (predictor.route, {"start": start, "goal": goal}),
        "load_planner": (
            vhdiffuser.load_planner,
            {"name": "maze2d-umaze", "source": "shipped", "outside": "warn", "device": "cpu", "steps": 1},
        ),
        "load_method": (vhdiffuser.load_method, {"name": "vhd", "environment": "maze2d-umaze", "source": "shipped"}),
        "load_dataset": (vhdiffuser.load_dataset, {"name": "maze2d-umaze"}),
        "get_environment": (vhdiffuser.get_environment, {"name": "maze2d-umaze"}),
        "get_recipe": (vhdiffuser.get_recipe, {"environment": "maze2d-umaze", "name": "default"}),
        "make_maze": (vhdiffuser.make_maze, {"maze": "#####\n#OOO#\n#####", "name": "m", "epsilon": 0.1, "T_max": 64}),
        "Agent": (vhdiffuser.Agent, {"planner": planner, "controller": None, "rule": None, "seed": 0, "length": None}),
        "Agent.reset": (agent.reset, {"goal": goal}),
        "Agent.act": (agent.act, {"observation": start}),
        "execute": (
            vhdiffuser.execute,
            {"planner": planner, "start": start, "goal": goal, "protocol": "ss", "seed": 0, "length": 40},
        ),
        "evaluate": (vhdiffuser.evaluate, {"planner": planner, "n": 1, "seeds": 0, "protocols": "ss", "workers": 1}),
        "replan_every": (vhdiffuser.replan_every, {"steps": 5, "budget": 20}),
        "replan_on_deviation": (
            vhdiffuser.replan_on_deviation,
            {"budget": 20, "threshold": 0.1, "check_every": 5},
        ),
        "single_shot": (vhdiffuser.single_shot, {}),
        "Plan": (vhdiffuser.Plan, {"states": states, "goal": goal, "denoising": None, "spec": spec}),
        "Plan.load": (vhdiffuser.Plan.load, {"path": folder / "plan.json", "spec": spec}),
        "Plan.save": (plan.save, {"path": folder / "plan.json"}),
        "Rollout": (
            vhdiffuser.Rollout,
            {"observations": states, "actions": states[1:, :2], "success": True, "plans": ((0, plan),)},
        ),
        "register": (vhdiffuser.register, {"environment": vhdiffuser.get_environment("maze2d-umaze"), "replace": True}),
        "import_dataset": (import_dataset, {"name": "own", "file": str(folder / "own.npz"), **own}),
    }


def python_inputs(folder: Path) -> tuple[Callable[[Any], str], Any]:
    """What checks one call, and the strategy that draws calls."""
    import inspect

    from vhdiffuser.errors import VhdError

    known = {}
    for name, (function, right) in calls(folder).items():
        allowed = inspect.signature(function).parameters
        anything = any(item.kind is item.VAR_KEYWORD for item in allowed.values())
        known[name] = function, {key: value for key, value in right.items() if anything or key in allowed}
    places = [(name, key) for name, (_, right) in known.items() for key in right]

    def check(drawn: tuple[tuple[str, str], Any]) -> str:
        (name, key), value = drawn
        function, right = known[name]
        arguments = {**right, key: value}
        try:
            function(**{key: item for key, item in arguments.items() if item is not None or key in right})
        except VhdError:
            return ""
        except Exception as error:
            return f"{name}({key}={str(value)[:40]!r}): {type(error).__name__}: {str(error)[:80]}"
        return ""

    return check, st.tuples(st.sampled_from(places), VALUES)


ENV = "maze2d-umaze"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("envs", "--json"),
    ("models", "--json"),
    ("recipes", "show", ENV, "--recipe", "default"),
    ("plan", ENV, "--start", "1", "1", "--goal", "3", "1", "--length", "60", "--gamma", "1.2", "--seed", "0"),
    ("plan", ENV, "--start", "1", "1", "--goal", "3", "1", "--candidates", "2", "--piece", "0", "--stretch", "1.0"),
    ("plan", ENV, "--start", "1", "1", "--goal", "3", "1", "--sampler", "ddim", "--steps", "1", "--out", "p.json"),
    ("data", "info", ENV, "--json"),
    ("data", "get", ENV, "--source", "build", "--size", "300", "--seed", "0", "--workers", "1", "--replace", "--quiet"),
    ("data", "import", "mine", "own.npz", "--goal-dims", "0", "1", "--velocity-dims", "2", "3", "--control-dt=1"),
    ("data", "import", "mine", "own.npz", "--state-dims", "0", "1", "--t-max", "20", "--l-min", "4", "--epsilon=.1"),
    ("data", "build", "my", "--maze", "map.txt", "--size", "100", "--epsilon", "0.1", "--t-max", "64", "--seed", "0"),
    ("data", "draw", ENV, "--out", "d.png", "--steps", "100"),
    ("train", "planner", ENV, "--updates", "1", "--dim", "8", "--batch-size", "2", "--threads", "1", "--quiet"),
    ("train", "planner", ENV, "--updates", "1", "--minutes", "1", "--seed", "0", "--learning-rate", "1", "--name", "n"),
    ("train", "planner", ENV, "--updates", "1", "--horizon", "32", "--stride", "4", "--ema", "0.9", "--clip", "1"),
    ("train", "length", ENV, "--updates", "1", "--threads", "1", "--length.batch", "4", "--quiet"),
    ("train", "dynamics", ENV, "--updates", "1", "--hidden", "8", "--layers", "1", "--ahead", "1", "4", "--quiet"),
    ("bench", ENV, "--weights", "shipped", "--methods", "vhd", "--protocols", "ss", "--n", "1", "--workers", "1"),
    ("bench", ENV, "--weights", "shipped", "--n", "1", "--seeds", "0", "--keep", "0", "--workers", "1", "--out", "r"),
    ("bench", ENV, "--weights", "shipped", "--n", "1", "--position-gain", "9", "--threshold", "1", "--json"),
    ("report", "r"),
    ("demo", ENV, "--n", "1", "--workers", "1", "--seed", "0"),
    ("models", "export", ENV, "--out", "e", "--planner", "vhd", "--gamma", "1.2"),
    ("models", "card", "e", "--results", "r"),
    ("models", "archive", ENV, "--out", "a", "--runs", "vhd"),
    ("eval-length", ENV, "--json"),
    ("eval-plans", ENV, "--json"),
    ("failures", "r", "--json"),
    ("import-diffuser", "x.pt", "--env", ENV, "--horizon", "64"),
    ("serve", "--port", "-1", "--no-browser"),
    ("completion", "bash"),
)  # fmt: skip
"""Command lines that are right, or nearly; each input changes a word or adds some."""


@st.composite
def command_lines(draw: Any) -> list[str]:
    """A command line with one or two words replaced, removed or added."""
    line = list(draw(st.sampled_from(COMMANDS)))
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(1, len(line)))
        way = draw(st.integers(0, 5))
        words = draw(WORDS).split(" ") if way < 5 else []
        if way == 4:
            line[at:at] = words
        elif line[0] != "serve" or way == 5:  # a server that starts would serve for ever
            line[at : at + 1] = words
    return line


def command_inputs(folder: Path) -> tuple[Callable[[Any], str], Any]:
    """What checks one command line, and the strategy that draws them."""
    from vhdiffuser.cli import run

    work = folder / "work"
    home = Path(os.environ["VHD_HOME"])

    def check(line: list[str]) -> str:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        os.chdir(work)
        shutil.copy(folder / "own.npz", work / "own.npz")
        (work / "map.txt").write_text("#####\n#OOO#\n#####\n")
        out, err = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(line)
        except Stopped:
            raise
        except BaseException as error:
            return f"vhd {' '.join(line)[:120]}: {type(error).__name__}: {str(error)[:80]}"
        finally:
            if not (home / "data" / ENV / "data.safetensors").exists():
                shutil.copytree(folder / "home", home, dirs_exist_ok=True)
        if code not in (0, 1, 2):
            return f"vhd {' '.join(line)[:120]}: exit code {code}"
        return ""

    return check, command_lines()


@cache
def prepared(root: str) -> Path:
    """This process's folder, with data and small models in its cache; made once for all its batches."""
    import torch

    from vhdiffuser.cli import run

    torch.set_num_threads(1)
    folder = Path(root) / f"arguments-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ["VHD_HOME"] = str(folder / "home")
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        run(["data", "get", ENV, "--source", "build", "--size", "3000", "--quiet", "--workers", "1"])
        run(["train", "length", ENV, "--updates", "1", "--threads", "1", "--quiet"])
        run(["train", "planner", ENV, "--updates", "1", "--dim", "8", "--threads", "1", "--quiet"])
    np.savez(folder / "own.npz", observations=np.random.default_rng(0).random((40, 4)), episode_ends=[40])
    return folder


def batch(kind: str, begin: int, count: int, number: int, root: str) -> tuple[int, list[str]]:
    """One batch of inputs: how many failed, and examples. Runs in a worker process."""
    folder = prepared(root)
    os.environ["VHD_HOME"] = str(folder / "cache")
    shutil.rmtree(folder / "cache", ignore_errors=True)
    shutil.copytree(folder / "home", folder / "cache")
    here = os.getcwd()
    check, strategy = (python_inputs if kind == "Python" else command_inputs)(folder)
    try:
        own = random.Random(f"{number} {begin}").randrange(2**32)
        return collect(check, strategy, count, own, folder / "current")
    finally:
        os.chdir(here)
