"""Settings of a protocol: instances, replanning rule and success criterion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vhdiffuser.arguments import as_seed, as_whole
from vhdiffuser.benchmark.methods import TABLE_METHODS
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.instances import draw_instances, load_instances
from vhdiffuser.envs.protocols import (
    CHECK_EVERY,
    THRESHOLD,
    ExecutionRule,
    HitTest,
    paper_rule,
)
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.files import sha256
from vhdiffuser.results.paths import PAIRS
from vhdiffuser.types import FloatArray, Instance

PAPER = ("ss", "rp")
"""The paper's protocols: single-shot and replan-on-deviation. Environments may add others."""


@dataclass(frozen=True)
class BenchConfig:
    """One benchmark run."""

    environment: Environment
    """Environment to run in."""
    methods: tuple[str, ...] = TABLE_METHODS
    """Methods to run."""
    protocols: tuple[str, ...] = ("ss", "rp")
    """Protocols to run each method under."""
    n: int | None = None
    """Instances per seed; None means 1000, or all pairs of `instances`."""
    seeds: tuple[int, ...] = (0,)
    """Test seeds. Each determines its instances and plans; 0 to 99 are for development, 100 and above for published
    figures."""
    distribution: str = "reset"
    """How instances are drawn: `reset` (the environment's own) or `uniform` over free space."""
    instances: Path | None = None
    """File with your own start-goal pairs, used instead of random ones."""
    threshold: float = THRESHOLD
    """Tracking error (normalised, infinity norm) above which `rp` replans."""
    check_every: int = CHECK_EVERY
    """Control steps between checks of the tracking error."""
    warm_start: bool = False
    """Whether replanning resamples only the pieces ahead and keeps the rest of a composed plan."""
    keep: int = 10
    """Number of rollouts per seed to save in full, for figures and videos."""
    workers: int = 0
    """Threads or processes that step simulators; 0 means one per core."""
    simulators: int = 0
    """Simulators in use at once; 0 means the environment's default."""
    shard: int = 200
    """Instances planned and executed together; the last bits of their rows depend on it."""

    @property
    def size(self) -> int:
        """Number of instances to draw."""
        return 1000 if self.n is None else self.n

    def __post_init__(self) -> None:
        if self.n is not None:
            as_whole("n (instances of each seed)", self.n, least=1)
        as_whole("workers", self.workers)
        as_whole("keep", self.keep)
        as_whole("shard", self.shard, least=1)
        for name in ("methods", "protocols"):
            if not getattr(self, name):
                raise VhdError(f"no {name[:-1]} given; pass one or more {name}.")
        for seed in self.seeds:
            as_seed(seed)
        if not self.seeds:
            raise VhdError("no seed given; pass at least one, e.g. 0.")
        if len(set(self.seeds)) < len(self.seeds):
            raise VhdError(f"seeds {' '.join(map(str, self.seeds))}: one of them is repeated and would count twice.")
        if self.instances is not None and len(self.seeds) > 1:
            raise VhdError("a file of pairs allows one seed only: more seeds would count the same pairs again.")

    @property
    def slots(self) -> int:
        """Number of simulators: at most one per instance."""
        return min(self.simulators or self.environment.simulators, self.size)


@dataclass(frozen=True)
class Setting:
    """What a protocol defines."""

    instances: list[Instance]
    """Test cases."""
    rule: ExecutionRule
    """When to replan and when to stop."""
    hit: HitTest | None = None
    """Success criterion; None: the paper's."""
    score: Callable[[FloatArray, FloatArray], float] | None = None
    """(observations, goal) -> another benchmark's score of an episode."""
    tasks: int | None = None
    """Another benchmark's number of tasks; instance i belongs to task (i modulo this) + 1."""


def make_setting(protocol: str, config: BenchConfig, env: PlanningEnv, seed: int) -> Setting:
    """The setting of one protocol in one environment, with the instances of one seed."""
    environment = config.environment
    if protocol in PAPER:
        rule = paper_rule(protocol, environment.step_budget, config.threshold, config.check_every)
        return Setting(paper_instances(config, env, seed), replace(rule, warm_start=config.warm_start))
    if protocol not in environment.protocols:
        raise UnknownNameError(f"protocol of {environment.name}", protocol, [*PAPER, *environment.protocols])
    if distribution(config) != "reset":
        raise VhdError(
            f"protocol '{protocol}' defines its own instances; leave out the file of pairs and the distribution."
        )
    theirs = environment.protocols[protocol]
    return Setting(
        instances=theirs.instances(env, config.size, seed),
        rule=replace(theirs.rule(config.threshold, config.check_every), warm_start=config.warm_start),
        hit=theirs.hit,
        score=theirs.score,
        tasks=theirs.tasks,
    )


def paper_instances(config: BenchConfig, env: PlanningEnv, seed: int) -> list[Instance]:
    """Instances of the paper's protocols, drawn at random or read from a file."""
    if config.instances is None:
        if config.distribution not in config.environment.distributions:
            known = list(config.environment.distributions)
            raise UnknownNameError(f"distribution of {config.environment.name}", config.distribution, known)
        return draw_instances(env, config.size, seed, config.distribution)
    pairs = load_instances(config.instances, env)
    if config.n is not None and config.n > len(pairs):
        raise VhdError(f"{config.instances}: {config.n} instances requested, but the file has {len(pairs)}.")
    return pairs[: config.n]


def distribution(config: BenchConfig) -> str:
    """Distribution in the name of a results file: `pairs` for user-defined ones."""
    return config.distribution if config.instances is None else PAIRS


def describe_instances(config: BenchConfig) -> dict[str, Any]:
    """What results record about the origin of the instances, except their number, which may grow."""
    if config.instances is None:
        return {"distribution": config.distribution}
    return {"file_sha256": sha256(config.instances)}
