"""Success rate and executed steps of a planner, in one call."""

from __future__ import annotations

import tempfile
from pathlib import Path

from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.planner.planner import Planner
from vhdiffuser.results.summary import Summary


def evaluate(
    planner: Planner | PlannerChoice,
    env: Environment | str | None = None,
    n: int = 100,
    *,
    protocols: str | tuple[str, ...] = ("ss", "rp"),
    seeds: int | tuple[int, ...] = (0,),
    distribution: str = "reset",
    controller: Controller | None = None,
    folder: Path | str | None = None,
    method: str = "vhd",
    workers: int = 1,
) -> list[Summary]:
    """Success rate and executed steps on n random instances per seed: one summary per protocol, with intervals.

    `env` defaults to the planner's environment, `controller` to the environment's. Rows are written to `folder` and
    existing ones are not run again; without a folder they are not kept. Seeds 0 to 99 are for development, 100 and
    above for published figures. Rows of a planner from `load_method` record the digests of its model files; pass the
    method's name with it. With `workers` above 1, simulators run in separate processes (a script then needs
    `if __name__ == "__main__":`).

    >>> summary, = evaluate(load_planner("maze2d-umaze"), n=20, protocols=("rp",))     # doctest: +SKIP
    >>> summary.success_rate, summary.average_executed_steps                           # doctest: +SKIP
    """
    choice = planner if isinstance(planner, PlannerChoice) else PlannerChoice(planner, planner.options, {})
    name = choice.planner.spec.name if env is None else env
    environment = get_environment(name) if isinstance(name, str) else name
    environment.require_simulator()
    config = BenchConfig(
        environment=environment,
        methods=(method,),
        protocols=(protocols,) if isinstance(protocols, str) else tuple(protocols),
        n=n,
        seeds=(seeds,) if isinstance(seeds, int) else tuple(seeds),
        distribution=distribution,
        keep=0,
        workers=workers,
    )
    controller = controller or default_controller(environment.spec)
    if folder is not None:
        return run_benchmark(config, Path(folder), lambda *_: choice, controller)
    with tempfile.TemporaryDirectory() as temporary:
        return run_benchmark(config, Path(temporary), lambda *_: choice, controller)
