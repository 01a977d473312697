"""What each part of the Length Predictor's recipe brings: the default, the paper's, and the default without one part.

    python benchmarks/length_ablation.py maze2d-large                          every variant
    python benchmarks/length_ablation.py maze2d-large cube --only default paper
    python benchmarks/length_ablation.py maze2d-large --evaluate               only those that are trained

All variants make the same number of updates of the same batch size, in runs of their own
(`VHD_HOME/runs/ENV/ablation-VARIANT`) that go on where they stopped. They are judged as `vhd eval-length` does: 2,000
random pairs that training never saw, against the true distance over the data's mean speed. The table and its JSON
are written after each variant; what is in it already and was not trained further is not judged again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sweep import check_names, comparison_parser, run_comparison, train_run

from vhdiffuser.benchmark import length_eval
from vhdiffuser.benchmark.geodesic import make_geodesic
from vhdiffuser.console import err
from vhdiffuser.data.store import Dataset
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.files import sha256
from vhdiffuser.length.config import LengthConfig
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.task import LengthTask
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.report.comparison import Column, Comparison
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.types import EnvSpec, FloatArray
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import run_folder

COLUMNS = (
    Column("environment", "environment"),
    Column("variant", "variant"),
    Column("change", "what differs from the default"),
    Column("seed", "seed"),
    Column("updates", "updates", ","),
    Column("minutes", "minutes", ".1f"),
    Column("spearman", "Spearman, all", ".3f"),
    Column("spearman_far", f"pairs >= {length_eval.FAR_STEPS} steps", ".3f"),
    Column("mean_abs_error_steps", "mean abs. error (steps)", ".1f"),
    Column("mean_error_steps", "mean error", "+.1f"),
    Column("under_predicted", "under-predicted", ".1%"),
    Column("triangle_violations", "triangle violations", ".1%"),
    Column("mean_f_gg_steps", "f(g, g) (steps)", ".2f"),
)


@dataclass(frozen=True)
class Variant:
    """One recipe of the ablation."""

    change: str
    """What differs from the default, in words."""
    config: LengthConfig
    """The recipe."""


def in_phases(config: LengthConfig, **changes: Any) -> LengthConfig:
    """The recipe with these settings in phases II and III, where all that the default adds takes place."""
    later = {name: replace(getattr(config, name), **changes) for name in ("expansion", "strengthening")}
    return replace(config, **later)


def variants(spec: EnvSpec) -> dict[str, Variant]:
    """All that can be told apart in this environment, by name."""
    default = LengthConfig()
    assert default.relay_graph is not None
    found = {
        "default": Variant("", default),
        "paper": Variant("the paper's recipe", LengthConfig.paper()),
        # The landmarks stay, so that even draws do: one part at a time.
        "no-graph": Variant("targets without the relay graph", in_phases(default, graph=False)),
        "median-hops": Variant(
            "a hop's median length, not a low quantile",
            replace(default, relay_graph=replace(default.relay_graph, quantile=0.5)),
        ),
        "median": Variant(
            "f is the median of observed lengths", replace(default, quantiles=(0.5, *default.quantiles[1:]))
        ),
        "one-quantile": Variant(
            "no quantiles beside f's own: no spread", replace(default, quantiles=default.quantiles[:1])
        ),
        "not-even": Variant("starts and goals as the data has them", in_phases(default, even=0.0)),
        "small-links": Variant("link set K = {1, 2, 4, 8}", in_phases(default, links=(1, 2, 4, 8))),
        "no-consistency": Variant("without L_cons", in_phases(default, lambda_cons=0.0)),
        "no-triangle": Variant("without L_triangle", in_phases(default, lambda_triangle=0.0, relay_share=0.0)),
        "fine-features": Variant(
            "Fourier features of scale 1, not 0.3",
            replace(default, network=replace(default.network, feature_scale=1.0)),
        ),
        "not-relative": Variant(
            "without the relative channel", replace(default, network=replace(default.network, relative=False))
        ),
    }
    if spec.state_dim > spec.goal_dim:
        found["full-state"] = Variant("goals are whole states, judged at rest", replace(default, full_state_goals=True))
    return found


class GoalsAtRest:
    """A predictor for whole-state goals, asked about places: to be there, at rest."""

    def __init__(self, predictor: LengthPredictor) -> None:
        self.predictor, self.spec, self.config = predictor, predictor.spec, predictor.config

    def _states(self, goals: FloatArray) -> FloatArray:
        states = np.zeros((*np.shape(goals)[:-1], self.spec.state_dim), np.float32)
        states[..., list(self.spec.goal_dims)] = goals
        return states

    def predict_steps(self, starts: FloatArray, goals: FloatArray) -> FloatArray:
        return self.predictor.predict_steps(starts, self._states(goals))

    def predict_spread(self, starts: FloatArray, goals: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.predictor.predict_spread(starts, self._states(goals))


class Evaluator:
    """Pairs and true steps of one environment: the same for all variants."""

    def __init__(self, dataset: Dataset, pairs: int) -> None:
        spec = dataset.spec
        environment = get_environment(spec.name)
        speed = length_eval.observed_speed(dataset.episodes, spec)
        self.starts, self.goals = length_eval.draw_pairs(environment.make(), pairs)
        self.truth = length_eval.true_steps(spec, make_geodesic(environment), self.starts, self.goals, speed)

    def __call__(self, path: Path) -> dict[str, float | None]:
        """The figures of one model."""
        predictor: Any = LengthPredictor.load(path)
        if predictor.config.full_state_goals:
            predictor = GoalsAtRest(predictor)
        result = length_eval.evaluate_length(predictor, self.starts, self.goals, self.truth)
        return result.figures


def run_path(environment: str, variant: str, seed: int) -> Path:
    """Where a variant is trained; the first seed has the plain name."""
    return run_folder(environment, f"ablation-{variant}" + (f"-seed{seed}" if seed else ""))


def updates_made(path: Path) -> int:
    """Of a finished model; 0 where there is none."""
    return load_model(path, "length")[1].updates if path.is_file() else 0


def train_variant(dataset: Dataset, variant: Variant, loop: LoopConfig, folder: Path) -> None:
    """Train, or go on, or do nothing where it is done."""
    if updates_made(folder / "model.safetensors") >= loop.updates:
        return
    normalizer, fingerprint = dataset.normalizer(), dataset.fingerprint()
    train_run(
        f"{dataset.spec.name} {folder.name}",
        lambda device: LengthTask(dataset.episodes, dataset.spec, variant.config, normalizer, fingerprint, device),
        loop,
        folder,
    )


def evaluate_variant(
    table: Comparison,
    environment: str,
    name: str,
    variant: Variant,
    seed: int,
    evaluator: Callable[[], Evaluator],
    pairs: int,
) -> None:
    """A row for the model that is there, unless the table has it."""
    path = run_path(environment, name, seed) / "model.safetensors"
    if not path.is_file():
        err.print(f"{environment} {name}: not trained yet, left out")
        return
    row = {"environment": environment, "variant": name, "seed": seed, "model": sha256(path)[:12], "pairs": pairs}
    if table.find(**row) is not None:
        return
    header = load_model(path, "length")[1]
    row |= {"change": variant.change, "updates": header.updates, "minutes": header.notes["minutes"]}
    table.put(row | evaluator()(path))


def main() -> None:
    parser = comparison_parser(__doc__, "variants")
    parser.add_argument("environments", nargs="+")
    parser.add_argument("--updates", type=int, default=4000, help="updates of every variant")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds of training, each a run of its own")
    parser.add_argument("--pairs", type=int, default=length_eval.PAIRS)
    parser.add_argument(
        "--out", type=Path, default=Path("results/length-ablation.json"), help="JSON; a .md is beside it"
    )
    run_comparison(compare, parser)


def compare(options: argparse.Namespace) -> None:
    """Train and evaluate what was asked for, and print the table."""
    heading = (
        f"Length Predictors on {options.pairs:,} random pairs: the default, the paper's, and one change at a time."
    )
    table = Comparison(options.out, ("environment", "variant", "seed"), COLUMNS, heading)
    for environment in options.environments:
        dataset = load_dataset(environment)
        known = variants(dataset.spec)
        check_names(options.only, known, "variant")
        made: list[Evaluator] = []

        def evaluator(dataset: Dataset = dataset, made: list[Evaluator] = made) -> Evaluator:
            """Made when first needed, and once: drawing pairs and the fine grid take seconds."""
            if not made:
                made.append(Evaluator(dataset, options.pairs))
            return made[0]

        for seed in options.seeds:
            for name in options.only or known:
                if not options.evaluate:
                    loop = replace(
                        get_recipe(get_environment(environment)).length_loop,
                        updates=options.updates,
                        seed=seed,
                        threads=options.threads,
                    )
                    train_variant(dataset, known[name], loop, run_path(environment, name, seed))
                evaluate_variant(table, environment, name, known[name], seed, evaluator, options.pairs)
    print(table.markdown())


if __name__ == "__main__":
    main()
