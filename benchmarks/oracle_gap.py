"""The oracle gap: executed steps at the planner's own horizon, against the best length found by trying many.

    python benchmarks/oracle_gap.py maze2d-umaze
    python benchmarks/oracle_gap.py maze2d-large --pairs 50 --plans 4

Each pair is planned at lengths of 0.7 to 1.4 times the predicted one in steps of 0.05, `--plans` plans (with seeds of
their own) at each, and executed single-shot. The oracle's length is the one of the fewest executed steps among those
at which every plan arrives; it knows the outcomes, so nobody can plan with it. Beside it, the same pairs at the
planner's gamma and at calibrated risks. Pairs for which no length is safe are left out of the gap and counted. Rows are
kept in `--out`: an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.benchmark.methods import PlannerChoice, load_method
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.console import progress_bar
from vhdiffuser.control.base import default_controller
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.files import atomic_path
from vhdiffuser.planner.calibrated import planner_digests
from vhdiffuser.planner.planner import Planner
from vhdiffuser.results.paths import PAIRS, result_path
from vhdiffuser.results.rows import Row, read_results

MULTIPLES = np.arange(0.7, 1.4001, 0.05).round(2).tolist()
RISKS = (0.05, 0.01)


def gap(steps: np.ndarray, arrived: np.ndarray, own: np.ndarray, own_arrived: np.ndarray) -> dict[str, Any]:
    """(pairs, lengths) mean steps and whether all plans arrive, (pairs,) own steps and arrivals -> the gap."""
    safe = arrived.any(axis=1)
    best = np.where(arrived, steps, np.inf).min(axis=1)
    return {
        "pairs": len(steps),
        "without_safe_length": int((~safe).sum()),
        "oracle_steps": float(best[safe].mean()),
        "own_steps": float(own[safe].mean()),
        "gap": float(own[safe].mean() / best[safe].mean() - 1),
        "own_success_rate": float(own_arrived.mean()),
    }


def main() -> None:
    """Run what is missing, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--plans", type=int, default=8, help="plans of each pair at each length")
    parser.add_argument("--seed", type=int, default=201, help="seed of the pairs")
    parser.add_argument("--weights", default="shipped")
    parser.add_argument("--out", type=Path, default=Path("results/analysis/oracle-gap"))
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    environment = get_environment(options.env)
    planner = load_method("vhd", environment, options.weights).planner
    assert isinstance(planner, Planner)
    controller, folder = default_controller(environment.spec, options.weights), options.out
    drawn = draw_instances(environment.make(), options.pairs, options.seed)
    pairs = folder / f"{environment.name}-pairs.npz"
    with atomic_path(pairs) as temporary, open(temporary, "wb") as file:  # each pair as often as it is planned
        repeated = {"start_state": [each.start for each in drawn], "goal_pos": [each.goal for each in drawn]}
        np.savez(file, **{name: np.repeat(values, options.plans, axis=0) for name, values in repeated.items()})
    config = BenchConfig(
        environment, ("vhd",), ("ss",), seeds=(options.seed,), instances=pairs, keep=0, workers=options.workers
    )
    choices = {f"gamma-{m:g}": planner.with_options(gamma=m) for m in MULTIPLES}
    own = {f"gamma-{planner.options.gamma:g}": planner.with_options(gamma=planner.options.gamma)}
    own |= {f"risk-{risk:g}": planner.with_options(risk=risk) for risk in RISKS if planner.calibration is not None}
    choices |= own
    tables: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    with progress_bar(f"oracle gap {environment.name}", "executions") as progress:
        size, done = options.pairs * options.plans, 0

        def on_row(_: Row) -> None:
            nonlocal done
            done += 1
            progress(done, size * len(choices))

        for name, choice in choices.items():
            made = PlannerChoice.of(choice, planner_digests(choice))
            run_benchmark(config, folder / name, lambda *_, own=made: own, controller, on_row)
            rows = read_results(result_path(folder / name, environment.name, "vhd", "ss", options.seed, PAIRS)).rows
            ordered = sorted(rows, key=lambda row: row.instance)
            shape = (options.pairs, options.plans)
            steps = np.array([row.steps for row in ordered]).reshape(shape).mean(axis=1)
            tables[name] = steps, np.array([row.success for row in ordered]).reshape(shape).mean(axis=1)
    names = [f"gamma-{m:g}" for m in MULTIPLES]
    steps = np.stack([tables[name][0] for name in names], axis=1)
    arrived = np.stack([tables[name][1] == 1 for name in names], axis=1)
    results = {name: gap(steps, arrived, *tables[name]) for name in own}
    answer = {"environment": environment.name, "plans_per_length": options.plans, "seed": options.seed, **results}
    with atomic_path(folder / f"{environment.name}.json") as temporary:
        temporary.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    draw(environment.name, steps, arrived, {name: tables[name][0] for name in own}, folder / f"{environment.name}.png")
    print(json.dumps(answer, indent=2))


def draw(name: str, steps: np.ndarray, arrived: np.ndarray, own: dict[str, np.ndarray], path: Path) -> None:
    """Own executed steps of each pair against the oracle's."""
    from matplotlib.figure import Figure

    safe = arrived.any(axis=1)
    best = np.where(arrived, steps, np.inf).min(axis=1)[safe]
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, best.max()], [0, best.max()], color="0.6", linewidth=1)
    for label, taken in own.items():
        axes.plot(best, taken[safe], ".", markersize=4, label=f"{label.replace('-', ' ')}")
    axes.set(title=name, xlabel="executed steps at the best length", ylabel="executed steps")
    axes.legend(frameon=False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


if __name__ == "__main__":
    main()
