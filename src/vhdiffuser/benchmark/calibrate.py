"""Calibration of a planner on its own executions or, without a simulator, on held-out episodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.arguments import as_seed, as_whole, shown
from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import PAPER, BenchConfig
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.recorded import HELD_OUT
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.errors import CalibrationWarning, UnknownNameError, VhdError
from vhdiffuser.files import scratch_folder
from vhdiffuser.length.calibration import FEWEST, Calibration, Elsewhere, fit
from vhdiffuser.length.refinement import refine
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.calibrated import applicable, calibrated_options, pairs_of_places, planner_digests
from vhdiffuser.planner.planner import Planner
from vhdiffuser.results.cells import FIRST_TEST_SEED
from vhdiffuser.results.paths import result_path
from vhdiffuser.results.rows import Row, read_results
from vhdiffuser.streams import STREAMS, stream
from vhdiffuser.types import BoolArray, EnvSpec, Episodes, FloatArray, IntArray
from vhdiffuser.weights.sealed import content_digest

MULTIPLES = (0.6, 0.7, 0.8, 0.86, 0.91, 0.95, 0.99, 1.03, 1.07, 1.12, 1.18, 1.25, 1.4, 1.6, 2.0)
"""Horizons tried, as multiples of the predicted length; times the planner's stretch."""
SEED = 90
"""Seed of the calibration instances. It and the next are used for nothing else (docs/seeds.md)."""
DISTRIBUTIONS = ("reset", "uniform")
"""Instances to calibrate on: as the environment draws them, and anywhere in free space."""
REFINED_AT = (0.2, 0.1, 0.05, 0.01)
"""Risks at which a calibration is compared with executions of the next seed's instances, and corrected."""
PASSES = 2
"""Number of such comparisons. The first may move horizons by much; the second is made at those that remain."""


def calibrate(
    planner: Planner,
    env: Environment | str | None = None,
    n: int = 400,
    *,
    multiples: Sequence[float] | None = None,
    protocol: str = "ss",
    seed: int = SEED,
    distributions: Sequence[str] = DISTRIBUTIONS,
    controller: Controller | None = None,
    folder: Path | str | None = None,
    workers: int = 1,
    on_done: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Learn the probability that this planner, with its options and controller, arrives within a horizon.

    It executes n random instances under the protocol at each of the `multiples` of the predicted length, then n others
    (of the next seed) at the horizons that some risks choose, to correct what it promises: first instances as the
    environment draws them, then `uniform` ones, if it has them, for pairs unlike the first. Of the `distributions`,
    "uniform" alone adds to the calibration that the planner has. Rows are kept in `folder`, if given, so that an
    interrupted calibration goes on where it stopped. Without a simulator, the steps that held-out
    episodes took between two of their states stand for the executions. `on_done` receives the executions done, and
    their total.

    >>> planner.calibration = calibrate(planner)                     # doctest: +SKIP
    >>> plan = planner.plan(start, goal, risk=0.05)                  # doctest: +SKIP
    """
    if not isinstance(planner, Planner):
        raise VhdError(
            f"calibrate needs a planner, as returned by vhdiffuser.load_planner(name); got {shown(planner)}."
        )
    name = planner.spec.name if env is None else env
    environment = name if isinstance(name, Environment) else get_environment(name)
    tried = _checked(planner, n, multiples, protocol, seed, distributions)
    made: dict[str, Any] = {
        "environment": environment.name,
        "models": planner_digests(planner),
        "options": calibrated_options(planner),
        "n": n,
        "seed": seed,
        "streams": STREAMS,
    }
    if environment.simulator is None:
        recorded = fit(*_recorded(planner, environment, n, seed, tried))
        return replace(recorded, made={**made, "source": "held-out episodes"})
    controller = default_controller(environment.spec) if controller is None else controller
    made |= {"source": "executions", "protocol": protocol, "controller": controller.describe()}
    drawn = [each for each in DISTRIBUTIONS if each in distributions and each in environment.distributions]
    for each in drawn:  # before anything is executed
        draw_instances(environment.make(), 1, seed, each)
    found = None if "reset" in drawn else _beside(planner, environment, drawn, made)
    config = BenchConfig(environment, ("vhd",), (protocol,), n, (seed,), keep=0, workers=workers)
    ticks = Ticks(len(drawn) * n * (len(tried) + PASSES * len(REFINED_AT)), on_done)
    with scratch_folder() as temporary:
        rows = temporary if folder is None else Path(folder) / environment.name
        found = found or _executed(planner, config, tried, made, rows, controller, ticks)
        if "uniform" not in drawn:
            return found
        config, made = replace(config, distribution="uniform"), {**made, "distribution": "uniform"}
        anywhere = _executed(planner, config, tried, made, rows, controller, ticks)
        _, pairs = predicted_pairs(planner, environment, int(found.made["n"]), int(found.made["seed"]))
        return replace(found, elsewhere=Elsewhere.of(anywhere, pairs, environment.spec.epsilon))


def _beside(planner: Planner, environment: Environment, drawn: Sequence[str], made: dict[str, Any]) -> Calibration:
    """The planner's calibration, to which one on `uniform` instances is added; raises `VhdError` if they differ."""
    if not drawn:
        raise VhdError(f"{environment.name}: it draws no uniform instances: calibrate on reset ones.")
    own = applicable(planner)
    for name in ("protocol", "controller"):
        if _key({name: own.made.get(name)}) != _key({name: made[name]}):
            raise VhdError(
                f"{environment.name}: its calibration was made with another {name}: calibrate on both distributions."
            )
    return replace(own, elsewhere=None)


def _checked(
    planner: Planner,
    n: int,
    multiples: Sequence[float] | None,
    protocol: str,
    seed: int,
    distributions: Sequence[str],
) -> FloatArray:
    """The multiples to try, increasing; raises `VhdError` for wrong arguments."""
    as_whole("n (calibration instances)", n, least=FEWEST)
    if as_seed(seed) + 1 >= FIRST_TEST_SEED:
        raise VhdError(
            f"seed {seed} or the next is for published figures: calibrate on seeds 0 to {FIRST_TEST_SEED - 2}."
        )
    if protocol not in PAPER:
        raise UnknownNameError("protocol", protocol, list(PAPER))
    tried = np.array(sorted(multiples or [m * planner.options.stretch for m in MULTIPLES]), np.float64)
    if not len(tried) or tried[0] <= 0 or (np.diff(tried) <= 0).any():
        raise VhdError(f"multiples must be distinct numbers > 0; got {shown(multiples)}.")
    if not distributions:
        raise VhdError(f"no distribution given; pass one or more of {', '.join(DISTRIBUTIONS)}.")
    if unknown := [each for each in distributions if each not in DISTRIBUTIONS]:
        raise UnknownNameError("distribution to calibrate on", unknown[0], list(DISTRIBUTIONS))
    return tried


def _executed(
    planner: Planner,
    config: BenchConfig,
    tried: FloatArray,
    made: dict[str, Any],
    folder: Path,
    controller: Controller,
    ticks: Ticks,
) -> Calibration:
    """A calibration on instances of one distribution."""
    rows = folder / _key({**made, "n": None})
    calibration = replace(_fitted(planner, config, tried, rows, controller, ticks), made=made)
    for _ in range(PASSES):
        calibration = _refined(planner, calibration, config, rows, controller, ticks)
    return calibration


def _fitted(
    planner: Planner, config: BenchConfig, tried: FloatArray, rows: Path, controller: Controller, ticks: Ticks
) -> Calibration:
    """A calibration from executions at multiples of the predicted length."""
    tables = []
    for multiple in tried.tolist():
        choice = PlannerChoice.of(planner.with_options(gamma=multiple), planner_digests(planner))
        tables.append(executed_rows(choice, config, rows / f"{multiple:g}", controller, ticks))
    lengths = np.array([[row.planned_length for row in table] for table in tables]).T  # (n, K)
    taken = np.array([[row.steps for row in table] for table in tables]).T
    hits = np.array([[row.success for row in table] for table in tables]).T
    steps, places = predicted_pairs(planner, config.environment, config.size, config.seeds[0], config.distribution)
    return fit(steps, places, lengths, np.minimum(taken, lengths), hits & (taken <= lengths))


def _refined(
    planner: Planner, fitted: Calibration, config: BenchConfig, rows: Path, controller: Controller, ticks: Ticks
) -> Calibration:
    """The calibration, corrected by executions of the next seed's instances at the horizons that it chooses."""
    own = copy(planner)
    own.calibration = fitted
    config = replace(config, seeds=(config.seeds[0] + 1,))
    steps, places = predicted_pairs(planner, config.environment, config.size, config.seeds[0], config.distribution)
    models = {**planner_digests(planner), "calibration": fitted.lengths_digest}
    done: list[list[Row]] = []
    for risk in REFINED_AT:
        choice = PlannerChoice.of(own.with_options(risk=risk), models)
        with warnings.catch_warnings():  # that a risk cannot be kept is what this finds out
            warnings.simplefilter("ignore", CalibrationWarning)
            where = rows / f"{models['calibration'][:12]}-risk-{risk:g}"
            done.append(executed_rows(choice, config, where, controller, ticks))
    lengths = np.array([[row.planned_length for row in table] for table in done])  # (R, n)
    taken = np.array([[row.steps for row in table] for table in done])
    arrived = np.array([[row.success for row in table] for table in done]) & (taken <= lengths)
    return refine(fitted, fitted.expected(steps, places), lengths, taken, arrived)


@dataclass
class Ticks:
    """Counts executions, including those of an earlier run."""

    total: int
    """Total number."""
    on_done: Callable[[int, int], None] | None
    """Called with the number done and the total."""
    done: int = 0
    """Number done so far."""

    def add(self, count: int = 1) -> None:
        """Add to the count."""
        self.done += count
        if self.on_done is not None:
            self.on_done(self.done, self.total)


def executed_rows(
    choice: PlannerChoice, config: BenchConfig, folder: Path, controller: Controller, ticks: Ticks
) -> list[Row]:
    """Run the missing instances of a config with one seed and protocol; returns all rows, by instance."""
    run_benchmark(
        config,
        folder,
        lambda *_: choice,
        controller,
        on_row=lambda _: ticks.add(),
        on_start=lambda missing: ticks.add(config.size - missing),
    )
    (protocol,), (seed,) = config.protocols, config.seeds
    path = result_path(folder, config.environment.name, "vhd", protocol, seed, config.distribution)
    rows = read_results(path).rows
    return sorted((row for row in rows if row.instance < config.size), key=lambda row: row.instance)


def predicted_pairs(
    planner: Planner, environment: Environment, n: int, seed: int, distribution: str = "reset"
) -> tuple[FloatArray, FloatArray]:
    """(n,) predicted steps of a seed's instances, from the states in which their executions start, and their places."""
    simulator = environment.make()
    instances = draw_instances(simulator, n, seed, distribution)
    starts = np.stack([planner.spec.planning_state(simulator.reset(each)) for each in instances])
    goals = np.stack([each.goal for each in instances])
    return planner.predict_steps(starts, goals).astype(np.float64), pairs_of_places(planner, starts, goals)


def _key(made: dict[str, Any]) -> str:
    """Folder name for a calibration's rows: distinct for other weights, options or controllers."""
    return content_digest(made)[:12]


def _recorded(
    planner: Planner, environment: Environment, n: int, seed: int, multiples: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray, IntArray, BoolArray]:
    """Predicted steps (n,), places, and horizons, steps and arrivals (n, K) of pairs of states in held-out episodes."""
    spec = planner.spec
    episodes = load_dataset(environment.name).episodes
    held_out = episodes.split(environment.held_out or HELD_OUT)[1]
    starts, goals, observed = recorded_arrivals(held_out, spec, planner.normalizer, n, seed)
    steps = planner.predict_steps(starts, goals).astype(np.float64)
    lengths = np.ceil(multiples * (steps[:, None] + 1)).astype(np.int64)
    taken = np.broadcast_to(observed[:, None], lengths.shape)
    return steps, pairs_of_places(planner, starts, goals), lengths, np.minimum(taken, lengths), taken <= lengths


def recorded_arrivals(
    episodes: Episodes, spec: EnvSpec, normalizer: Normalizer, n: int, seed: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """n states (n, d) of episodes, later positions (n, goal_dim), and the steps (n,) until first within epsilon of
    them."""
    rng = np.random.default_rng(stream("recorded arrivals", seed))
    lengths = np.diff(episodes.ends, prepend=0)
    states = spec.planning_state(episodes.observations)
    chosen = rng.choice(len(episodes), size=n, p=(lengths - 1) / (lengths - 1).sum())
    apart = rng.integers(1, np.minimum(lengths[chosen] - 1, spec.T_max - 1) + 1)
    begins = episodes.starts[chosen] + rng.integers(0, lengths[chosen] - apart)
    goals = spec.goal_of(states[begins + apart])
    first = [
        int((goal_distance(spec, normalizer.scale, states[begin : begin + k + 1], goal) <= spec.epsilon).argmax())
        for begin, k, goal in zip(begins, apart, goals, strict=True)
    ]
    return states[begins], goals, np.array(first)
