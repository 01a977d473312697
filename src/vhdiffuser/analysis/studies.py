"""Analyses that execute plans: crops, mismatch, lengths, strides, training seeds and learning curves.

Each returns a table; the networks that they need besides the usual ones are in `needs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vhdiffuser.analysis.arms import Arm, OnRow, Study, horizons, model, outcome, run_arm, run_model
from vhdiffuser.analysis.needs import seed_runs, stride_run
from vhdiffuser.diffusion.options import OptionChanges
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.report.analyses import CROPS, CURVE, LENGTHS, MISMATCH, SEEDS, STRIDES
from vhdiffuser.report.comparison import Comparison
from vhdiffuser.training.loop import SNAPSHOTS
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import run_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

SCALES = (0.6, 0.8, 1.0, 1.25, 1.5, 2.0)
"""lambda: plan lengths as multiples of the usual length."""


def crops(study: Study, predictors: Sequence[str] = ("default", "paper"), on_row: OnRow | None = None) -> Comparison:
    """Effect of variable-length training: {random, fixed} crops x {default, paper} Length Predictor."""
    H = horizons(study)[1]
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
    found = horizons(study)
    length = model(study, "length")
    known = {
        "vhd": Arm("VHD", "vhd", model(study, "planner"), length),
        "fh-lp": Arm("FH+LP", "fh-lp", model(study, "planner", found[1]), length),
        **{
            f"fh-h{number}": Arm(f"FH-{H}", f"fh-h{number}", model(study, "planner", H))
            for number, H in enumerate(found, start=1)
        },
    }
    for method in methods:
        for scale in scales:
            yield replace(known[method], scale=scale)


def lengths(study: Study, on_row: OnRow | None = None) -> Comparison:
    """Length generalisation: single-shot success by length band, seen in training or not."""
    environment = study.environment
    spec, H = environment.spec, horizons(study)[1]
    half, quarter = spec.T_max // 2, spec.T_max // 4
    bands = ((spec.L_min, quarter), (quarter, half), (half, spec.T_max + 1))
    length = model(study, "length")
    trained = {
        "all lengths": ("vhd", model(study, "planner"), ("yes", "yes", "yes")),
        f"up to {half}": ("vhd", run_model(study, "lengths-half"), ("yes", "yes", "no")),
        f"none of {quarter} to {half - 1}": ("vhd", run_model(study, "lengths-gap"), ("yes", "no", "yes")),
        f"only {H}": (
            "fh-lp",
            model(study, "planner", H),
            tuple(f"{H} only" if low <= H < high else "no" for low, high in bands),
        ),
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
                table.put({**key, "seen": known, "protocol": "ss", **outcome(own)})
    return table


def strides(study: Study, values: Sequence[int], on_row: OnRow | None = None) -> Comparison:
    """Whether FH+LP depends on the stride: the network trained at H2, used at predicted lengths and at H2 itself."""
    H, length, table = horizons(study)[1], model(study, "length"), STRIDES.table(study.results)
    for stride in values:
        planner = run_model(study, stride_run(study, stride))
        for name, arm in (
            ("FH+LP", Arm(f"fh-lp-{stride}", "fh-lp", planner, length)),
            (f"FH-{H}", Arm(f"fh-{H}-{stride}", "fh-h2", planner)),
        ):
            done = run_arm(study, STRIDES, arm, on_row)
            header = load_model(planner, "planner")[1]
            facts = {"updates": header.updates, "batch_size": header.config["batch_size"]}
            for protocol, rows in done.items():
                key = {"environment": study.environment.name, "arm": name, "stride": stride, "protocol": protocol}
                table.put({**key, **facts, **outcome(rows)})
    return table


def seeds(study: Study, training_seeds: Sequence[int], on_row: OnRow | None = None) -> Comparison:
    """Variation between trainings: VHD's planner and Length Predictor trained with several seeds."""
    table = SEEDS.table(study.results)
    for seed in training_seeds:
        runs = seed_runs(seed)
        usual = (model(study, "planner"), model(study, "length"))
        planner, length = usual if seed == 0 else (run_model(study, run) for run in runs)
        for protocol, rows in run_arm(study, SEEDS, Arm(runs[0], "vhd", planner, length), on_row).items():
            key = {"environment": study.environment.name, "arm": "VHD", "training_seed": seed, "protocol": protocol}
            table.put({**key, **outcome(rows)})
    return table


def curve(study: Study, runs: Sequence[str], on_row: OnRow | None = None) -> Comparison:
    """Learning curves from snapshots of runs (`vhd train planner --snapshot-every`).

    A run that began with another's weights continues its curve: its updates are counted on from there.
    """
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
            updates = header.updates_in_all
            arm = Arm(f"{run}-{updates}", method, path, length)
            for protocol, rows in run_arm(study, CURVE, arm, on_row).items():
                key = {"environment": environment.name, "arm": run, "protocol": protocol, "updates": updates}
                table.put({**key, **outcome(rows), "minutes": header.notes.get("minutes")})
    return table


def _method_of(study: Study, horizon: int | None) -> str:
    return "vhd" if horizon is None else f"fh-h{horizons(study).index(horizon) + 1}"
