"""Arms of an analysis: planners that differ in one aspect, run on the same instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vhdiffuser.benchmark.methods import controller_for, load_choice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.control.base import default_controller
from vhdiffuser.diffusion.options import OptionChanges, PlanningOptions
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.planner.planner import Planner
from vhdiffuser.recipes.recipe import PAPER_GAMMA
from vhdiffuser.report.analyses import FOLDER, Analysis
from vhdiffuser.results.cells import Cell
from vhdiffuser.results.paths import result_path
from vhdiffuser.results.rows import Row, read_results
from vhdiffuser.results.summary import success_by_path_length, wilson_interval
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import Source, find_model, find_run

if TYPE_CHECKING:
    from typing_extensions import Unpack

OnRow = Callable[[str, int, int], None]
"""Called after each execution with the arm, the number of runs done and the total."""


@dataclass(frozen=True)
class Study:
    """Settings shared by all arms of an analysis."""

    environment: Environment
    """Environment."""
    results: Path
    """Results folder; rows go to its subfolder `analysis/NAME`."""
    n: int = 500
    """Instances per seed."""
    seeds: tuple[int, ...] = (100,)
    """Test seeds."""
    protocols: tuple[str, ...] = ("ss", "rp")
    """Protocols."""
    source: Source = "auto"
    """Where to look for models."""
    gamma: float | None = None
    """Margin on predicted lengths (default: as saved with a planner; for those saved without one, VHD's or the
    paper's). Analyses use the paper's rule for lengths: their planners are not all calibrated."""
    workers: int = 1
    """Number of simulator processes."""


@dataclass(frozen=True)
class Arm:
    """A planner and the length of its plans."""

    name: str
    """Name in tables and folders."""
    method: str
    """The method it is, or resembles."""
    planner: Path
    """Model file of the planner."""
    length: Path | None = None
    """Model file of the Length Predictor, if lengths are predicted."""
    scale: float = 1.0
    """lambda: factor on the usual plan length."""

    def models(self) -> dict[str, Path]:
        """Model files by kind; raises `DataError` if one is missing."""
        found = {"planner": self.planner} | ({} if self.length is None else {"length": self.length})
        for kind, path in found.items():
            if not path.is_file():
                raise DataError(f"'{self.name}' needs the {kind} model {path}, which does not exist: train it first.")
        return found


def model(study: Study, kind: str, horizon: int | None = None, recipe: str = "default") -> Path:
    """The model file of this kind that the benchmark would use."""
    return find_model(study.environment.name, kind, study.source, horizon, recipe)


def run_model(study: Study, run: str) -> Path:
    """The model file of a run of the environment."""
    return find_run(study.environment.name, run, study.source)


def horizons(study: Study) -> tuple[int, ...]:
    """The fixed horizons H1, H2, H3; raises `VhdError` if the environment has none."""
    found = study.environment.horizons
    if len(found) != 3:
        raise VhdError(f"{study.environment.name}: the analyses need three fixed horizons H1, H2, H3, but it has none.")
    return found


def run_arm(
    study: Study, analysis: Analysis, arm: Arm, on_row: OnRow | None = None, **options: Unpack[OptionChanges]
) -> dict[str, list[Row]]:
    """Rows of an arm by protocol, over all seeds; rows on disk are reused. `options` change its planning options."""
    environment = study.environment
    models = arm.models()
    if arm.length is not None:
        options["gamma"] = arm.scale * _margin(study, arm)
    choice = load_choice(models, environment, study.source, **options)
    planner = choice.planner
    assert isinstance(planner, Planner)
    if arm.length is None:
        assert planner.config.horizon is not None
        length = max(round(arm.scale * planner.config.horizon), 2)
        planner.lengths = (2, max(planner.lengths[1], length))
        choice = replace(choice, horizon=length)
    config = BenchConfig(
        environment=environment,
        methods=(arm.method,),
        protocols=study.protocols,
        n=study.n,
        seeds=study.seeds,
        keep=0,
        workers=study.workers,
    )
    folder = study.results / FOLDER / analysis.name / f"{arm.name.replace(', ', '-').replace(' ', '-')}-{arm.scale:g}"
    total = len(study.protocols) * len(study.seeds) * study.n
    done = 0

    def count(row: Row) -> None:
        nonlocal done
        done += 1
        if on_row is not None:
            on_row(arm.name, done, total)

    name = controller_for((arm.method,), environment)
    controller = default_controller(environment.spec, study.source, name)
    run_benchmark(config, folder, lambda *_: choice, controller, count)
    paths = {
        protocol: [result_path(folder, environment.name, arm.method, protocol, seed) for seed in study.seeds]
        for protocol in study.protocols
    }
    return {protocol: Cell(tuple(map(read_results, files))).rows for protocol, files in paths.items()}


def _margin(study: Study, arm: Arm) -> float:
    """The margin on an arm's predicted lengths."""
    if study.gamma is not None:
        return study.gamma
    for path in (arm.planner, model(study, "planner")):
        if path.is_file() and (gamma := PlanningOptions.from_json(load_model(path, "planner")[1].planning).gamma) != 1:
            return gamma
    return PAPER_GAMMA


def outcome(rows: Sequence[Row]) -> dict[str, Any]:
    """Table entries for rows: SR with its interval, AES, SPL and mean length of the first plans."""
    hits = sum(row.success for row in rows)
    low, high = wilson_interval(hits, len(rows))
    return {
        "n": len(rows),
        "success_rate": hits / len(rows),
        "low": low,
        "high": high,
        "average_executed_steps": float(np.mean([row.steps for row in rows])),
        "spl": success_by_path_length(rows),
        "mean_length": float(np.mean([row.planned_length for row in rows])),
    }
