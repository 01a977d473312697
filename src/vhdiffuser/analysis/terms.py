"""Ablation of the Length Predictor's recipes: the default and the paper's, without one part at a time.

All variants make the same number of updates with the same batch size and phases scaled to fit, in separate runs
(`runs/ENV/terms-VARIANT`) that can be resumed. They are evaluated as by `vhd eval-length`: on random pairs unseen in
training, against the true distance divided by the data's mean speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vhdiffuser.benchmark import length_eval
from vhdiffuser.benchmark.geodesic import make_geodesic
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import UnknownNameError
from vhdiffuser.files import sha256
from vhdiffuser.length.config import LengthConfig, PhaseConfig
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.recipes.train import OnStatus, train_length
from vhdiffuser.report.analyses import TERMS
from vhdiffuser.report.comparison import Comparison
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import run_folder


@dataclass(frozen=True)
class Variant:
    """One recipe of the ablation."""

    change: str
    """How it differs from the default or the paper's recipe."""
    config: LengthConfig
    """The recipe."""


def in_phases(
    config: LengthConfig, names: Sequence[str] = ("expansion", "strengthening"), **changes: Any
) -> LengthConfig:
    """The recipe with these settings changed in some phases."""
    return replace(config, **{name: replace(getattr(config, name), **changes) for name in names})


def variants(spec: EnvSpec, updates: int) -> dict[str, Variant]:
    """All distinct variants for this environment by name, for a training of that many updates."""
    default, paper = LengthConfig().scheduled(updates), LengthConfig.paper(updates)
    assert default.relay_graph is not None
    every = ("warm_start", "expansion", "strengthening")

    def like_last(phase: PhaseConfig) -> PhaseConfig:
        return replace(paper.strengthening, shortest=phase.shortest, longest=phase.longest)

    found = {
        "paper": Variant("the paper's recipe", paper),
        "paper-no-consistency": Variant("without L_cons", in_phases(paper, lambda_cons=0.0)),
        "paper-no-triangle": Variant(
            "without L_triangle", in_phases(paper, every, lambda_triangle=0.0, relay_share=0.0)
        ),
        "paper-no-mining": Variant("L_triangle with s_k as the only relay", in_phases(paper, every, relay_share=0.0)),
        "paper-no-boundary": Variant("without L_bdry", replace(paper, lambda_bdry=0.0)),
        "paper-no-clip": Variant("without L_clip", replace(paper, lambda_clip=0.0)),
        "paper-no-links": Variant("DP targets of one step only", in_phases(paper, every, links=(1,))),
        "paper-no-curriculum": Variant(
            "phase III's settings from the first update",
            replace(paper, warm_start=like_last(paper.warm_start), expansion=like_last(paper.expansion)),
        ),
        "default": Variant("the default recipe", default),
        # Keep the landmarks, and thus uniform draws: change one part at a time.
        "no-graph": Variant("targets without the relay graph", in_phases(default, graph=False)),
        "median-hops": Variant(
            "median length of a hop instead of a low quantile",
            replace(default, relay_graph=replace(default.relay_graph, quantile=0.5)),
        ),
        "median": Variant(
            "f is the median of observed lengths", replace(default, quantiles=(0.5, *default.quantiles[1:]))
        ),
        "one-quantile": Variant(
            "no quantiles besides f's own (no spread)", replace(default, quantiles=default.quantiles[:1])
        ),
        "not-even": Variant("starts and goals distributed as in the data", in_phases(default, even=0.0)),
        "small-links": Variant("link set K = {1, 2, 4, 8}", in_phases(default, links=(1, 2, 4, 8))),
        "no-consistency": Variant("without L_cons", in_phases(default, lambda_cons=0.0)),
        "no-triangle": Variant("without L_triangle", in_phases(default, lambda_triangle=0.0, relay_share=0.0)),
        "fine-features": Variant(
            "Fourier features of scale 1 instead of 0.3",
            replace(default, network=replace(default.network, feature_scale=1.0)),
        ),
        "not-relative": Variant(
            "without the relative channel", replace(default, network=replace(default.network, relative=False))
        ),
    }
    if spec.state_dim > spec.goal_dim:
        found["full-state"] = Variant(
            "goals are full states, evaluated at rest", replace(default, full_state_goals=True)
        )
    return found


class Evaluator:
    """Pairs and true steps of one environment, drawn on first use and shared by all variants."""

    def __init__(self, environment: Environment, pairs: int) -> None:
        self.environment, self.pairs = environment, pairs
        self._drawn: tuple[Any, ...] | None = None

    def __call__(self, path: Path) -> dict[str, float | None]:
        """Evaluate one model."""
        spec = self.environment.spec
        if self._drawn is None:
            speed = length_eval.observed_speed(load_dataset(spec.name).episodes, spec)
            starts, goals = length_eval.draw_pairs(self.environment.make(), self.pairs)
            truth = length_eval.true_steps(spec, make_geodesic(self.environment), starts, goals, speed)
            self._drawn = starts, goals, truth
        return length_eval.evaluate_length(LengthPredictor.load(path), *self._drawn).figures


def terms(
    environment: Environment,
    results: Path,
    only: Sequence[str] = (),
    updates: int = 4000,
    training_seeds: Sequence[int] = (0,),
    pairs: int = length_eval.PAIRS,
    threads: int | None = None,
    train: bool = True,
    on_status: Callable[[str], OnStatus] | None = None,
) -> Comparison:
    """Train and evaluate variants (all, or `only` those); without `train`, evaluate existing ones."""
    known = variants(environment.spec, updates)
    for name in only:
        if name not in known:
            raise UnknownNameError("variant", name, list(known))
    table, evaluate = TERMS.table(results), Evaluator(environment, pairs)
    for seed in training_seeds:
        for name in only or known:
            run = f"terms-{name}" + (f"-seed{seed}" if seed else "")  # the first seed keeps the plain name
            path = run_folder(environment.name, run) / "model.safetensors"
            made = load_model(path, "length")[1].updates if path.is_file() else 0
            if train and made < updates:
                recipe = replace(get_recipe(environment), length=known[name].config).changed(
                    length_loop={"updates": updates, "seed": seed, "threads": threads}
                )
                train_length(
                    environment.name, recipe, name=run, on_status=None if on_status is None else on_status(run)
                )
            if not path.is_file():
                continue
            row = {"environment": environment.name, "arm": name, "seed": seed, "model": sha256(path)[:12]}
            row |= {"pairs": pairs}
            if table.find(**row) is None:
                header = load_model(path, "length")[1]
                row |= {"change": known[name].change, "updates": header.updates, "minutes": header.notes["minutes"]}
                began = header.notes["phases_began"]
                row["phase_3_from"] = began[2] if len(began) == 3 else None
                table.put(row | evaluate(path))
    return table
