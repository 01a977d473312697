"""The oracle gap: steps per arrival at the planner's own horizon, against the best length of each pair in hindsight.

    python benchmarks/oracle_gap.py maze2d-umaze
    python benchmarks/oracle_gap.py maze2d-large --pairs 50 --plans 16

Pairs are planned at 0.7 to 1.4 times the predicted length, `--plans` plans (with seeds of their own) at each length,
and executed single-shot. What a length costs is its *steps per arrival*: the steps of all its executions, failed ones
too, over the number that arrived. The oracle of a risk is the length of the least cost among those at which at least
a share of 1 - risk of the plans arrives; it knows the outcomes, so nobody can plan with it. The gap compares the
planner's cost at that risk, totalled over all pairs that have such a length, with the oracle's; other pairs are
counted. The oracle is the least of noisy costs, measured on the plans that choose it, so the true gap is a little
smaller.

Lengths that cannot be the oracle's are not executed in full: those with more failures than allowed, and those that cost
more than `SLACK` times the best or are longer than `REACH` times it. Executions are kept in `--out`: an interrupted run
goes on where it stopped, and one with more plans adds to them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.benchmark.methods import load_method
from vhdiffuser.console import progress_bar
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.protocols import single_shot
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.loop import plan_seed
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.files import atomic_path
from vhdiffuser.planner.calibrated import applicable, calibrated_options, planner_digests
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import FloatArray, Instance, IntArray

MULTIPLES = np.arange(0.7, 1.4001, 0.025).round(3).tolist()
RISKS = (0.05, 0.01)
FIRST = 2
"""Plans at every length; four times as many at those that remain, and so on."""
SLACK = 1.02
"""Lengths that cost more than so many times the best are not executed further."""
REACH = 1.1
"""Lengths longer than so many times the best are not executed at all: they take longer."""
BATCH = 2000
"""Executions between two saves."""

Job = tuple[int, int, int]
"""Pair, length, number of the plan."""


@dataclass
class Outcomes:
    """Executed steps of each pair, length and plan; negative where the execution failed (0: it starts at its goal)."""

    steps: dict[tuple[int, int], list[int]]

    def count(self, pair: int, length: int) -> int:
        """Plans executed so far."""
        return len(self.steps.get((pair, length), ()))

    def cost(self, pair: int, length: int) -> tuple[int, int, int]:
        """Steps of all executions, arrivals, executions."""
        taken = np.array(self.steps.get((pair, length), ()), int)
        return int(np.abs(taken).sum()), int((taken >= 0).sum()), len(taken)

    def oracle(self, pair: int, lengths: Sequence[int], risk: float, plans: int) -> int | None:
        """The length of the fewest steps per arrival among those with at most `risk` x `plans` failures."""
        costs = {length: self.cost(pair, length) for length in lengths}
        safe = [length for length, (_, hits, n) in costs.items() if hits and n - hits <= risk * plans]
        return min(safe, key=lambda length: costs[length][0] / costs[length][1], default=None)

    def rivals(self, pair: int, lengths: Sequence[int], risk: float, plans: int) -> list[int]:
        """The oracle as far as it is known, and safe lengths that cost hardly more; those without all their plans."""
        best = self.oracle(pair, lengths, risk, plans)
        if best is None:
            return []
        steps, arrivals, _ = self.cost(pair, best)
        found = []
        for length in lengths:
            own, hits, n = self.cost(pair, length)
            if n < plans and n - hits <= risk * plans and own * arrivals <= SLACK * steps * hits:
                found.append(length)
        return found

    def save(self, path: Path, meta: dict[str, Any]) -> None:
        """Write all outcomes, and what they are of."""
        keys = sorted(self.steps)
        sizes = [len(self.steps[key]) for key in keys]
        taken = np.concatenate([np.array(self.steps[key], np.int16) for key in keys])
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(
                file, keys=np.array(keys, np.int16), sizes=np.array(sizes, np.int16), taken=taken, meta=json.dumps(meta)
            )

    @classmethod
    def load(cls, path: Path, meta: dict[str, Any]) -> Outcomes:
        """Those of an earlier run on the same pairs with the same planner; none if there was none."""
        if not path.is_file():
            return cls({})
        with np.load(path) as file:
            if _with_defaults(json.loads(str(file["meta"]))) != _with_defaults(meta):
                raise SystemExit(f"{path} is of other weights, options or pairs: choose another --out.")
            parts = np.split(file["taken"], np.cumsum(file["sizes"])[:-1])
            return cls({(int(p), int(L)): part.tolist() for (p, L), part in zip(file["keys"], parts, strict=True)})


def _with_defaults(meta: dict[str, Any]) -> dict[str, Any]:
    """With all planning options: files from before an option existed have its default."""
    return {**meta, "options": {**PlanningOptions().to_json(), **meta.get("options", {})}}


class AtLengths:
    """A planner that plans each execution at a length of its own, known by its seed."""

    def __init__(self, planner: Planner, lengths: dict[int, int]) -> None:
        self.spec, self.normalizer, self._planner, self._lengths = planner.spec, planner.normalizer, planner, lengths

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> None:
        """Lengths are chosen while planning."""

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """The planner's, at these seeds' lengths."""
        own = np.array([self._lengths[seed] for seed in seeds.tolist()])
        return self._planner.plan_batch(starts, goals, own, seeds=seeds)


@dataclass(frozen=True)
class Setting:
    """Pairs of a seed, and the lengths to plan them at."""

    environment: Environment
    planner: Planner
    controller: Controller
    instances: list[Instance]
    starts: FloatArray
    """(pairs, d)"""
    goals: FloatArray
    """(pairs, goal_dim)"""
    grid: list[list[int]]
    """Lengths that each pair is tried at."""
    own: dict[str, list[int]]
    """The planner's own lengths: at each risk, and at the gamma saved with it."""
    meta: dict[str, Any]
    """What executions depend on."""

    @classmethod
    def of(cls, env: str, weights: str, pairs: int, seed: int) -> Setting:
        """With an environment's weights, as `load_method` finds them."""
        environment = get_environment(env)
        planner = load_method("vhd", environment, weights).planner
        assert isinstance(planner, Planner)
        controller = default_controller(environment.spec, weights)
        instances, simulator = draw_instances(environment.make(), pairs, seed), environment.make()
        starts = planner.spec.planning_state(np.stack([simulator.reset(each) for each in instances]))
        goals = np.stack([each.goal for each in instances])
        tried = [planner.with_options(gamma=multiple).predict_lengths(starts, goals) for multiple in MULTIPLES]
        grid = [sorted(set(row)) for row in np.stack(tried, axis=1).tolist()]
        chosen = {f"risk {risk:g}": planner.with_options(risk=risk) for risk in RISKS}
        gamma = (planner.saved_options or planner.options).gamma
        chosen[f"gamma {gamma:g}"] = planner.with_options(gamma=gamma)
        own = {name: each.predict_lengths(starts, goals).tolist() for name, each in chosen.items()}
        meta = {
            "environment": environment.name,
            "seed": seed,
            "pairs": pairs,
            "multiples": MULTIPLES,
            "models": planner_digests(planner),
            "options": calibrated_options(planner),
            "controller": controller.describe(),
        }
        return cls(environment, planner, controller, instances, starts, goals, grid, own, meta)


@dataclass
class Trials:
    """Executions of pairs at chosen lengths."""

    environment: Environment
    planner: Planner
    controller: Controller
    pairs: list[Instance]
    seed: int

    def run(self, jobs: Sequence[Job], outcomes: Outcomes) -> None:
        """Execute jobs (sorted by plan) and add what came of them."""
        numbers = [(pair * 10_000 + length) * 1_000 + plan for pair, length, plan in jobs]
        lengths = {plan_seed(self.seed, number, 0): job[1] for number, job in zip(numbers, jobs, strict=True)}
        planner = AtLengths(self.planner, lengths)
        with Simulators(self.environment.make, len(jobs), 1, self.environment.make()) as simulators:
            executor = Executor(planner, self.controller, simulators, single_shot(), seed=self.seed)
            found = {}
            for outcome in executor.run([self.pairs[pair] for pair, *_ in jobs], numbers):
                found[outcome.number] = outcome.rollout.steps if outcome.rollout.success else -outcome.rollout.steps
        for number, (pair, length, _) in zip(numbers, jobs, strict=True):
            outcomes.steps.setdefault((pair, length), []).append(found[number])


def due(outcomes: Outcomes, grid: Sequence[Sequence[int]], own: Sequence[set[int]], plans: int) -> list[Job]:
    """What to execute next: a first few plans of every length, then more of those that may be the oracle's; all of the
    planner's own."""
    jobs = []
    for pair, lengths in enumerate(grid):
        wanted = dict.fromkeys(own[pair], plans)
        for risk in RISKS:
            for length in outcomes.rivals(pair, lengths, risk, plans):
                wanted.setdefault(length, min(4 * outcomes.count(pair, length), plans))
        for length in started(outcomes, pair, lengths, plans):
            wanted.setdefault(length, min(FIRST, plans))
        for length, until in wanted.items():
            jobs += [(pair, length, plan) for plan in range(outcomes.count(pair, length), until)]
    return jobs


def started(outcomes: Outcomes, pair: int, lengths: Sequence[int], plans: int) -> list[int]:
    """The lengths to begin with: the lower half, then all up to a little beyond the safest oracle known."""
    lower = [length for length in lengths if length <= REACH * np.mean(lengths)]
    if not all(outcomes.count(pair, length) for length in lower):
        return lower
    best = outcomes.oracle(pair, lengths, min(RISKS), plans)
    return [length for length in lengths if best is None or length <= REACH * best]


def gap(
    outcomes: Outcomes, grid: Sequence[Sequence[int]], own: Sequence[int], risk: float, plans: int
) -> dict[str, Any]:
    """The planner's steps per arrival at (pairs,) own lengths, against the oracle's of a risk."""
    best = [outcomes.oracle(pair, lengths, risk, plans) for pair, lengths in enumerate(grid)]
    known = [pair for pair, length in enumerate(best) if length is not None]
    ours = np.array([outcomes.cost(pair, own[pair]) for pair in range(len(grid))])
    theirs = np.array([outcomes.cost(pair, best[pair]) for pair in known])  # type: ignore[arg-type]
    steps, arrivals, n = ours[known].sum(axis=0).tolist()
    least = theirs[:, 0].sum() / theirs[:, 1].sum()
    return {
        "pairs": len(grid),
        "without_oracle": len(grid) - len(known),
        "oracle_steps_per_arrival": least,
        "oracle_success_rate": theirs[:, 1].sum() / theirs[:, 2].sum(),
        "own_steps_per_arrival": steps / arrivals,
        "gap": steps / arrivals / least - 1,
        "gap_of_mean_steps": steps / n / (theirs[:, 0].sum() / theirs[:, 2].sum()) - 1,
        "own_success_rate": ours[:, 1].sum() / ours[:, 2].sum(),
        "mean_length_ratio": float(np.mean([own[pair] / best[pair] for pair in known])),  # type: ignore[operator]
    }


def main() -> None:
    """Execute what is missing, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--plans", type=int, default=128, help="plans of each pair at each length")
    parser.add_argument("--seed", type=int, default=209, help="seed of the pairs")
    parser.add_argument("--weights", default="shipped")
    parser.add_argument("--out", type=Path, default=Path("results/analysis/oracle-gap"))
    options = parser.parse_args()
    setting = Setting.of(options.env, options.weights, options.pairs, options.seed)
    environment, grid, own, meta = setting.environment, setting.grid, setting.own, setting.meta
    path = options.out / f"{environment.name}.npz"
    outcomes = Outcomes.load(path, meta)
    trials = Trials(environment, setting.planner, setting.controller, setting.instances, options.seed)
    ours = [set(lengths) for lengths in zip(*own.values(), strict=True)]
    with progress_bar(f"oracle gap {environment.name}", "executions") as progress:
        done = sum(map(len, outcomes.steps.values()))
        while jobs := due(outcomes, grid, ours, options.plans):
            jobs.sort(key=lambda job: job[2])
            for begin in range(0, len(jobs), BATCH):
                trials.run(jobs[begin : begin + BATCH], outcomes)
                outcomes.save(path, meta)
                progress(done + min(begin + BATCH, len(jobs)), done + len(jobs))
            done += len(jobs)
    asked = dict(zip(own, (*RISKS, min(RISKS)), strict=True))
    answer = {
        **{name: meta[name] for name in ("environment", "seed", "pairs")},
        "plans": options.plans,
        "executions": done,
        "calibration": applicable(setting.planner).lengths_digest,
        **{name: gap(outcomes, grid, own[name], risk, options.plans) for name, risk in asked.items()},
    }
    with atomic_path(path.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    drawn = {name: own[name] for name in list(own)[-2:]}  # the least risk and gamma
    draw(environment.name, outcomes, grid, drawn, options.plans, path.with_suffix(".png"))
    print(json.dumps(answer, indent=2))


def draw(
    name: str, outcomes: Outcomes, grid: Sequence[Sequence[int]], own: dict[str, list[int]], plans: int, path: Path
) -> None:
    """Mean executed steps of each pair at the planner's horizons, against those at the oracle's length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    axes = figure.subplots()
    best = {
        pair: length
        for pair, lengths in enumerate(grid)
        if (length := outcomes.oracle(pair, lengths, min(RISKS), plans)) is not None
    }
    across = [steps / n for steps, _, n in (outcomes.cost(*item) for item in best.items())]
    axes.plot([0, max(across)], [0, max(across)], color="0.6", linewidth=1)
    for label, lengths in reversed(own.items()):
        up = [steps / n for steps, _, n in (outcomes.cost(pair, lengths[pair]) for pair in best)]
        axes.plot(across, up, ".", markersize=4, label=label)
    axes.set(title=name, xlabel="executed steps at the best length", ylabel="executed steps")
    axes.legend(frameon=False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


if __name__ == "__main__":
    main()
