"""Success rate and executed steps of a planner, in one call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vhdiffuser.arguments import shown
from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.files import scratch_folder
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.planner.planner import Planner
from vhdiffuser.results.summary import Summary
from vhdiffuser.runtime.network import Network


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

    `env` is the planner's own environment unless given, `controller` the environment's own. Rows are written to
    `folder`, and nothing is run twice that is there; without one they are not kept. Seeds 0 to 99 are for
    development, 100 and above for published figures. Rows record the digests of the networks, or of their model files
    where `load_method` loaded the planner; give the method's name with it. `workers` above 1 step simulators in
    processes of their own (a script then needs `if __name__ == "__main__":`).

    >>> summary, = evaluate(load_planner("maze2d-umaze"), n=20, protocols=("rp",))     # doctest: +SKIP
    >>> summary.success_rate, summary.average_executed_steps                           # doctest: +SKIP
    """
    if not isinstance(planner, Planner | PlannerChoice):
        raise VhdError(f"evaluate takes a planner, such as vhdiffuser.load_planner(name) gives; got {shown(planner)}.")
    choice = planner if isinstance(planner, PlannerChoice) else PlannerChoice.of(planner, _digests(planner))
    name = choice.planner.spec.name if env is None else env
    environment = name if isinstance(name, Environment) else get_environment(name)
    environment.require_simulator()
    if not all(isinstance(protocol, str) for protocol in _several(protocols)):
        raise VhdError(f"protocols are names, such as 'ss'; got {shown(protocols)}.")
    config = BenchConfig(
        environment=environment,
        methods=(method,),
        protocols=_several(protocols),
        n=n,
        seeds=_several(seeds),
        distribution=distribution,
        keep=0,
        workers=workers,
    )
    controller = default_controller(environment.spec) if controller is None else controller
    if not isinstance(controller, Controller):
        raise VhdError(f"controller must be a vhdiffuser Controller, or none; got {shown(controller)}.")
    if folder is not None:
        return run_benchmark(config, Path(folder), lambda *_: choice, controller)
    with scratch_folder() as temporary:
        return run_benchmark(config, temporary, lambda *_: choice, controller)


def _several(values: Any) -> tuple[Any, ...]:
    """One value, or those of a list, tuple or array."""
    one = isinstance(values, str) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0
    return (values,) if one else tuple(values)


def _digests(planner: Planner) -> dict[str, str]:
    """SHA-256 of the weights in memory, by kind, so that rows of different planners are never mixed."""
    networks = {"planner": planner.network}
    if isinstance(planner.length_predictor, LengthPredictor):
        networks["length"] = planner.length_predictor.network
    return {kind: _digest(network) for kind, network in networks.items()}


def _digest(network: Network) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(network.tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()
