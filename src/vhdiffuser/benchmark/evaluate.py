"""Success rate and executed steps of a planner, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from vhdiffuser.arguments import shown
from vhdiffuser.benchmark.methods import AnyChoice, ForeignChoice, PlannerChoice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.files import scratch_folder
from vhdiffuser.planner.calibrated import planner_digests
from vhdiffuser.planner.foreign import AnyPlanner, ForeignPlanner, foreign_planner, is_planner
from vhdiffuser.planner.planner import Planner
from vhdiffuser.results.rows import Row
from vhdiffuser.results.summary import Summary


def evaluate(
    planner: Planner | PlannerChoice | ForeignPlanner | AnyPlanner,
    env: Environment | str | None = None,
    n: int = 100,
    *,
    protocols: str | tuple[str, ...] = ("ss", "rp"),
    seeds: int | tuple[int, ...] = (0,),
    distribution: str = "reset",
    controller: Controller | None = None,
    folder: Path | str | None = None,
    method: str | None = None,
    workers: int = 1,
    keep: int = 0,
    on_row: Callable[[Row], None] | None = None,
) -> list[Summary]:
    """Success rate and executed steps on n random instances per seed: one summary per protocol, with intervals.

    `env` defaults to the planner's environment, `controller` to the environment's. Rows are written to `folder`, and
    instances already there are skipped; without a folder, rows are discarded. Seeds 0 to 99 are for development, 100
    and above for published figures. Rows record the digests of the networks, or of the model files if `load_method`
    loaded the planner; pass that method's name as `method` (default: `vhd`). With `workers` above 1, simulators run in
    separate processes (a script then needs `if __name__ == "__main__":`). The first `keep` rollouts per seed are saved
    next to the rows, for figures; `on_row` is called with each new row.

    Third-party planners (`vhdiffuser.foreign_planner`) can be evaluated as well: an object with `plan_batch(starts,
    goals, seeds)` or `plan(start, goal)`, or a function of start and goal. They need `env`, and rows carry their own
    name.

    >>> summary, = evaluate(load_planner("maze2d-umaze"), n=20, protocols=("rp",))     # doctest: +SKIP
    >>> summary.success_rate, summary.average_executed_steps                           # doctest: +SKIP
    """
    choice = _choice(planner, env)
    if isinstance(choice, ForeignChoice):
        if method is not None:
            raise VhdError(f"planner '{choice.planner.name}' is recorded under its own name: leave out `method`.")
        environment, method = choice.planner.environment, choice.planner.name
    else:
        name = choice.planner.spec.name if env is None else env
        environment = name if isinstance(name, Environment) else get_environment(name)
    environment.require_simulator()
    if not all(isinstance(protocol, str) for protocol in _several(protocols)):
        raise VhdError(f"protocols must be names, such as 'ss'; got {shown(protocols)}.")
    config = BenchConfig(
        environment=environment,
        methods=(method or "vhd",),
        protocols=_several(protocols),
        n=n,
        seeds=_several(seeds),
        distribution=distribution,
        keep=keep,
        workers=workers,
    )
    controller = default_controller(environment.spec) if controller is None else controller
    if not isinstance(controller, Controller):
        raise VhdError(f"controller must be a vhdiffuser Controller or None; got {shown(controller)}.")
    if folder is not None:
        return run_benchmark(config, Path(folder), lambda *_: choice, controller, on_row)
    with scratch_folder() as temporary:
        return run_benchmark(config, temporary, lambda *_: choice, controller, on_row)


def _choice(planner: Planner | PlannerChoice | ForeignPlanner | AnyPlanner, env: Environment | str | None) -> AnyChoice:
    """The planner with what rows record about it."""
    if isinstance(planner, PlannerChoice):
        return planner
    if isinstance(planner, Planner):
        return PlannerChoice.of(planner, planner_digests(planner))
    if isinstance(planner, ForeignPlanner):
        if env is not None and planner.spec.name != (env if isinstance(env, str) else env.name):
            raise VhdError(
                f"planner '{planner.name}' was made for {planner.spec.name}: leave out `env`, or make another planner."
            )
        return ForeignChoice(planner)
    if not is_planner(planner):
        raise VhdError(
            "evaluate needs a planner, as returned by vhdiffuser.load_planner(name), or your own with "
            f"plan_batch(starts, goals, seeds) or plan(start, goal); got {shown(planner)}."
        )
    if env is None:
        raise VhdError("pass `env`, the environment in which to evaluate your planner.")
    return ForeignChoice(foreign_planner(planner, env))


def _several(values: Any) -> tuple[Any, ...]:
    """A single value, or those of a list, tuple or array."""
    one = isinstance(values, str) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0
    return (values,) if one else tuple(values)
