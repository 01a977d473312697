"""Analyses that execute plans: crops, mismatch, lengths and learning curves. Each returns a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vhdiffuser.analysis.arms import Arm, OnRow, Study, model, outcome, run_arm
from vhdiffuser.diffusion.options import OptionChanges
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.recipes.recipe import Recipe, get_recipe
from vhdiffuser.recipes.train import train_planner
from vhdiffuser.report.analyses import CROPS, CURVE, LENGTHS, MISMATCH
from vhdiffuser.report.comparison import Comparison
from vhdiffuser.training.loop import SNAPSHOTS, Status
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import run_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

SCALES = (0.6, 0.8, 1.0, 1.25, 1.5, 2.0)
"""lambda: plan lengths as multiples of the usual length."""


def crops(study: Study, predictors: Sequence[str] = ("default", "paper"), on_row: OnRow | None = None) -> Comparison:
    """Effect of variable-length training: {random, fixed} crops x {default, paper} Length Predictor."""
    H = _horizons(study)[1]
    table = CROPS.table(study.results)
    for predictor in predictors:
        length = model(study, "length", recipe=predictor)
        for name, method, planner in (
            ("random crops", "vhd", model(study, "planner")),
            (f"crops of {H}", "fh-lp", model(study, "planner", H)),
        ):
            arm = Arm(f"{method}-{predictor}", method, planner, length)
            for protocol, rows in run_arm(study, CROPS, arm, on_row).items():
                key = {"environment": study.environment.name, "arm": name, "predictor": predictor, "protocol": protocol}
                table.put({**key, **outcome(rows)})
    return table


def mismatch(
    study: Study,
    scales: Sequence[float] = SCALES,
    methods: Sequence[str] = ("vhd", "fh-lp", "fh-h1", "fh-h2", "fh-h3"),
    on_row: OnRow | None = None,
    **options: Unpack[OptionChanges],
) -> Comparison:
    """Robustness to length mismatch: SR and SPL of plans with lambda times their usual length.

    `options` change planning and become part of the planners' names.
    """
    table = MISMATCH.table(study.results)
    given = "".join(f", {name} {value}" for name, value in options.items() if value is not None)
    for plain in mismatch_arms(study, scales, methods):
        arm = replace(plain, name=plain.name + given)
        for protocol, rows in run_arm(study, MISMATCH, arm, on_row, **options).items():
            key = {"environment": study.environment.name, "arm": arm.name, "protocol": protocol, "scale": arm.scale}
            table.put({**key, **outcome(rows)})
    return table


def mismatch_arms(study: Study, scales: Sequence[float], methods: Sequence[str]) -> Iterator[Arm]:
    """Each method at each scale."""
    if not all(scale > 0 for scale in scales):
        raise VhdError(f"lambda must be > 0 (1 is the usual length); got {', '.join(map(str, scales))}.")
    horizons = _horizons(study)
    length = model(study, "length")
    known = {
        "vhd": Arm("VHD", "vhd", model(study, "planner"), length),
        "fh-lp": Arm("FH+LP", "fh-lp", model(study, "planner", horizons[1]), length),
        **{
            f"fh-h{number}": Arm(f"FH-{H}", f"fh-h{number}", model(study, "planner", H))
            for number, H in enumerate(horizons, start=1)
        },
    }
    for method in methods:
        for scale in scales:
            yield replace(known[method], scale=scale)


def lengths_recipes(recipe: Recipe, T_max: int) -> dict[str, Recipe]:
    """Recipes by run name: planners trained without some lengths."""
    half, quarter = T_max // 2, T_max // 4
    return {
        "lengths-half": recipe.changed(planner={"longest": half}),
        "lengths-gap": recipe.changed(planner={"gap": (quarter, half)}),
    }


def lengths(study: Study, on_row: OnRow | None = None) -> Comparison:
    """Length generalisation: single-shot success by length band, seen in training or not."""
    environment = study.environment
    spec, H = environment.spec, _horizons(study)[1]
    half, quarter = spec.T_max // 2, spec.T_max // 4
    bands = ((spec.L_min, quarter), (quarter, half), (half, spec.T_max + 1))
    length = model(study, "length")
    trained = {
        "all lengths": ("vhd", model(study, "planner"), (True, True, True)),
        f"up to {half}": ("vhd", run_model(study, "lengths-half"), (True, True, False)),
        f"none of {quarter} to {half - 1}": ("vhd", run_model(study, "lengths-gap"), (True, False, True)),
        f"only {H}": ("fh-lp", model(study, "planner", H), tuple(low <= H < high for low, high in bands)),
    }
    table = LENGTHS.table(study.results)
    once = replace(study, protocols=("ss",))
    for number, (name, (method, planner, seen)) in enumerate(trained.items()):
        # Plans in one piece: pieces would never exceed the lengths seen in training.
        rows = run_arm(once, LENGTHS, Arm(f"{number}-{method}", method, planner, length), on_row, piece=0)["ss"]
        for (low, high), known in zip(bands, seen, strict=True):
            own = [row for row in rows if low <= row.planned_length < high]
            key = {"environment": environment.name, "arm": name, "band": f"{low} to {high - 1}"}
            if own:
                table.put({**key, "seen": "yes" if known else "no", "protocol": "ss", **outcome(own)})
    return table


def curve(study: Study, runs: Sequence[str], on_row: OnRow | None = None) -> Comparison:
    """Learning curves from snapshots of runs (`vhd train planner --snapshot-every`)."""
    table = CURVE.table(study.results)
    environment = study.environment
    for run in runs:
        folder = run_folder(environment.name, run) / SNAPSHOTS
        snapshots = sorted(folder.glob("*.safetensors"))
        if not snapshots:
            raise DataError(
                f"{folder}: no snapshots. Train with `vhd train planner {environment.name} --snapshot-every N` and the "
                "other options of that run."
            )
        recipe = "paper" if run.endswith("-paper") else "default"
        for path in snapshots:
            header = load_model(path, "planner")[1]
            fixed = header.config["horizon"] is not None
            method = _method_of(study, header.config["horizon"]) + ("-paper" if recipe == "paper" else "")
            length = None if fixed else model(study, "length", recipe=recipe)
            arm = Arm(f"{run}-{header.updates}", method, path, length)
            for protocol, rows in run_arm(study, CURVE, arm, on_row).items():
                key = {"environment": environment.name, "arm": run, "protocol": protocol, "updates": header.updates}
                table.put({**key, **outcome(rows), "minutes": header.notes.get("minutes")})
    return table


def run_model(study: Study, run: str) -> Path:
    """The model file of a run of the environment."""
    return run_folder(study.environment.name, run) / "model.safetensors"


def missing_trainings(study: Study, analysis: str) -> dict[str, Recipe]:
    """Planners that an analysis needs but that are not trained yet: recipes by run name."""
    environment = study.environment
    recipe = get_recipe(environment)
    needed: dict[str, Recipe] = {}
    for H in {"crops": _horizons(study)[1:2], "mismatch": _horizons(study), "lengths": _horizons(study)[1:2]}[analysis]:
        if not model(study, "planner", H).is_file():
            needed[f"fh-{H}"] = recipe.fixed_horizon(H)
    if analysis == "lengths":
        others = lengths_recipes(recipe, environment.spec.T_max)
        needed |= {run: changed for run, changed in others.items() if not run_model(study, run).is_file()}
    return needed


def train_missing(
    study: Study, analysis: str, threads: int | None = None, on_status: Callable[[str, Status], None] | None = None
) -> None:
    """Train the planners that an analysis needs and that are not there; `on_status` receives the run and its status."""
    for run, recipe in missing_trainings(study, analysis).items():
        tell = None if on_status is None else partial(on_status, run)
        changed = recipe.changed(planner_loop={"threads": threads})
        train_planner(study.environment.name, changed, name=run, on_status=tell)


def _method_of(study: Study, horizon: int | None) -> str:
    return "vhd" if horizon is None else f"fh-h{_horizons(study).index(horizon) + 1}"


def _horizons(study: Study) -> tuple[int, ...]:
    found = study.environment.horizons
    if len(found) != 3:
        raise VhdError(f"{study.environment.name}: the analyses need three fixed horizons H1, H2, H3, but it has none.")
    return found
