"""Configuration of the Length Predictor: the paper's and ours. Stored with the weights; does not import torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vhdiffuser.arguments import check_fields, from_fields
from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec

MOST_LANDMARKS = 10_000
"""Maximum number of landmarks: a graph stores a number for each pair."""


@dataclass(frozen=True)
class NetworkConfig:
    """Size of the Length Predictor's network."""

    features: int = 64
    """Columns of the Gaussian matrix B; each gives one sine and one cosine."""
    feature_scale: float = 0.3
    """Standard deviation of B: higher values resolve finer detail."""
    width: int = 256
    """Width of the hidden layers."""
    depth: int = 3
    """Number of hidden layers."""
    relative: bool = True
    """Whether z includes the relative channel phi(s) - phi(g)."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name, most in (("features", 10_000), ("width", 2**16), ("depth", 100)):
            if not 1 <= getattr(self, name) <= most:
                raise VhdError(f"{name} must be in 1..{most:,}; got {getattr(self, name)}.")
        if self.feature_scale < 0:
            raise VhdError(f"feature_scale must be >= 0; got {self.feature_scale}.")


@dataclass(frozen=True)
class GoalMixture:
    """Relative weights of the three sources of goals; they need not sum to 1."""

    endpoint: float
    """The last state of the start's own episode."""
    local: float
    """A state of the same episode, at most T_max steps ahead."""
    far: float
    """Any state of the dataset (the paper's global goals)."""

    def __post_init__(self) -> None:
        check_fields(self)
        shares = (self.endpoint, self.local, self.far)
        if min(shares) < 0 or sum(shares) <= 0:
            raise VhdError(f"goal weights must be >= 0 and not all 0; got {shares}.")


@dataclass(frozen=True)
class PhaseConfig:
    """Sampling and loss weights of one phase."""

    goals: GoalMixture
    """Where goals come from."""
    links: tuple[int, ...]
    """Link set K: lengths of DP links for pairs whose episode does not hit the goal."""
    lambda_cons: float
    """Weight of L_cons."""
    lambda_triangle: float
    """Weight of L_triangle."""
    relay_share: float
    """Probability that a pair uses a mined relay instead of its own s_k; relays enter only through L_triangle."""
    relays: int
    """Relay candidates per pair."""
    margin: float
    """Semi-hard mining: a relay may undercut f(s, g) by at most this (normalised by T_max)."""
    graph: bool
    """Whether targets use the relay graph."""
    even: float
    """Fraction of starts, far goals and relays drawn uniformly over landmarks rather than over states."""
    shortest: int
    """Updates before a plateau may end the phase."""
    longest: int
    """Updates after which the phase ends without a plateau; the last phase has no end."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.links or min(self.links) < 1:
            raise VhdError(f"the link set K needs numbers >= 1; got {self.links}.")
        if self.relays > 10_000 or max(self.links) > 10**6:
            raise VhdError(f"at most 10,000 relays and links of 1,000,000 steps; got {self.relays} and {self.links}.")
        for name in ("lambda_cons", "lambda_triangle", "relay_share", "even", "shortest", "longest"):
            if getattr(self, name) < 0:
                raise VhdError(f"{name} must be >= 0; got {getattr(self, name)}.")
        if self.relays < 1 and self.relay_share > 0:
            raise VhdError("relay_share > 0 requires at least one relay candidate.")
        if self.relay_share > 0 and self.lambda_triangle == 0:
            raise VhdError(
                f"relay_share {self.relay_share} has no effect while lambda_triangle is 0, since relays enter "
                "the loss only through L_triangle. Set lambda_triangle > 0, or relay_share to 0."
            )


@dataclass(frozen=True)
class PlateauConfig:
    """Plateau detection for the anchor error."""

    window: int = 100
    """Updates averaged into one reading of the anchor error."""
    patience: int = 5
    """Number of readings without a new best that count as a plateau."""
    improvement: float = 0.02
    """Relative improvement over the best reading that counts as a new best."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.window < 1 or self.patience < 1:
            raise VhdError(f"window and patience must be >= 1; got {self.window} and {self.patience}.")


@dataclass(frozen=True)
class RelayGraphConfig:
    """Landmarks and hops of the route graph."""

    landmarks: int = 1000
    """Number of landmarks that cover the goal space."""
    neighbours: int = 8
    """Number of nearest landmarks onto which an observed move is shifted."""
    moves: int = 3_000_000
    """Number of shifted moves to evaluate."""
    quantile: float = 0.15
    """Quantile of a hop's observed lengths used as its length."""
    least: int = 3
    """Minimum number of observations of a hop."""
    sparse_cost: float = 0.5
    """Penalty on hops into sparse regions: they cost up to 1 + this times their steps."""
    centring: float = 0.0
    """Routes keep about this far (in the environment's units) from the edge of the data in wide corridors:
    each point of a route is the mean of the landmarks within that distance. 0 uses the landmarks themselves."""
    floor: float = 0.05
    """Fraction of T_max below which distances come from anchors only."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name, most in (("landmarks", MOST_LANDMARKS), ("neighbours", 1000), ("moves", 10**9), ("least", 10**9)):
            if not 1 <= getattr(self, name) <= most:
                raise VhdError(f"{name} must be in 1..{most:,}; got {getattr(self, name)}.")
        if not 0 <= self.quantile <= 1 or min(self.sparse_cost, self.centring, self.floor) < 0:
            raise VhdError("quantile must be in 0..1; sparse_cost, centring and floor must be >= 0.")


_WARM_START = PhaseConfig(
    goals=GoalMixture(endpoint=0.05, local=0.85, far=0.1),
    links=(1, 2, 4, 8),
    lambda_cons=0.0,
    lambda_triangle=0.0,
    relay_share=0.0,
    relays=1,
    margin=0.05,
    graph=False,
    even=0.0,
    shortest=300,
    longest=600,
)

_EXPANSION = PhaseConfig(
    goals=GoalMixture(endpoint=0.05, local=0.5, far=0.45),
    links=(4, 8, 16, 32),
    lambda_cons=0.5,
    lambda_triangle=0.0,
    relay_share=0.0,
    relays=1,
    margin=0.05,
    graph=True,
    even=0.5,
    shortest=1000,
    longest=4000,
)

_STRENGTHENING = PhaseConfig(
    goals=GoalMixture(endpoint=0.05, local=0.4, far=0.55),
    links=(4, 8, 16, 32),
    lambda_cons=0.5,
    lambda_triangle=0.1,
    relay_share=0.5,
    relays=2,
    margin=0.02,
    graph=True,
    even=0.5,
    shortest=0,
    longest=0,
)


@dataclass(frozen=True)
class LengthConfig:
    """Network and training of the Length Predictor. The defaults are ours; `paper()` gives the paper's recipe."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Encoder and MLP."""
    quasimetric: int = 0
    """Components of a quasimetric head: f(g, g) = 0 and f(s, g) <= f(s, h) + f(h, g) hold by construction, for relays h
    at rest. 0 uses an MLP over s and g, as in the paper, which learns both from its losses."""
    latent: int = 32
    """Latent dimensions of each component of a quasimetric head."""
    batch: int = 512
    """Pairs per mini-batch."""
    full_state_goals: bool = False
    """Use full planning states as goals, as in the paper's f over S x S, with one encoder for s and g; otherwise goals
    are goal dimensions only."""
    quantiles: tuple[float, ...] = (0.3, 0.1, 0.9)
    """Quantiles of the observed lengths predicted by the network. The first is f; all together give the spread."""
    kappa: float = 0.05
    """Huber threshold, normalised by T_max."""
    bootstrap_at_hit: bool = False
    """Use the network's f_bar(s_k, g) in the bounds of pairs whose episode hits g as well, as in the paper; otherwise
    it is 0 there, because s_k is in the goal region."""
    lambda_bdry: float = 1.0
    """Weight of L_bdry."""
    lambda_clip: float = 1.0
    """Weight of L_clip."""
    pool_share: float = 0.5
    """Fraction of relay candidates from the global pool; the rest come from the mini-batch."""
    relay_graph: RelayGraphConfig | None = field(default_factory=RelayGraphConfig)
    """Graph of multi-hop relays; None in the paper's recipe."""
    warm_start: PhaseConfig = _WARM_START
    """Phase I: local pairs whose episode reaches the goal."""
    expansion: PhaseConfig = _EXPANSION
    """Phase II: far goals, longer links, consistency."""
    strengthening: PhaseConfig = _STRENGTHENING
    """Phase III: mined relays and the triangle term."""
    plateau: PlateauConfig = field(default_factory=PlateauConfig)
    """Ends phases I and II."""
    ramp: int = 1000
    """Updates over which a phase's loss weights are ramped up."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= len(self.quantiles) <= 100 or not all(0 < tau < 1 for tau in self.quantiles):
            raise VhdError(f"quantiles must be between 0 and 1, and at least one is required; got {self.quantiles}.")
        if not 0 <= self.quasimetric <= 1000 or not 1 <= self.latent <= 1000:
            raise VhdError(
                f"quasimetric must be in 0..1000 and latent in 1..1000; got {self.quasimetric} and {self.latent}."
            )
        if not 2 <= self.batch <= 10**6:
            raise VhdError(f"a mini-batch needs 2 to 1,000,000 pairs; got {self.batch}.")

    @classmethod
    def paper(cls, updates: int = 10_000) -> LengthConfig:
        """The paper's predictor (Sec. V-B) for a training of `updates` updates, without our changes.

        f is over full states, with one encoder; Huber regression on anchors and on DP targets of the EMA network; all
        bounds as written; three phases. The paper gives no numbers: weights, fractions and phase lengths are ours.
        """
        rare: dict[str, Any] = {"lambda_triangle": 0.05, "relay_share": 0.05, "graph": False, "even": 0.0}
        recipe = cls(
            full_state_goals=True,
            quantiles=(0.5,),
            bootstrap_at_hit=True,
            relay_graph=None,
            warm_start=replace(_WARM_START, goals=GoalMixture(0.1, 0.8, 0.1), links=(1, 2), **rare),
            expansion=replace(_EXPANSION, goals=GoalMixture(0.15, 0.6, 0.25), links=(1, 2, 4, 8), **rare),
            strengthening=replace(
                _STRENGTHENING,
                goals=GoalMixture(0.1, 0.45, 0.45),
                links=(1, 2, 4, 8),
                lambda_triangle=4.0,
                relay_share=0.75,
                relays=4,
                margin=0.1,
                graph=False,
                even=0.0,
            ),
        )
        return recipe.scheduled(updates)

    def scheduled(self, updates: int) -> LengthConfig:
        """The same recipe with all three phases scaled to a training of `updates` updates.

        Phases I and II end when the anchor error has plateaued: I after 10 to 20 % of the updates, II after another 15
        to 30 %. So phase III has at least half of them. Weights ramp over 5 %.
        """
        shares = {"warm_start": (0.10, 0.20), "expansion": (0.15, 0.30)}
        timed = {
            name: replace(getattr(self, name), shortest=int(low * updates), longest=int(high * updates))
            for name, (low, high) in shares.items()
        }
        window = max(1, min(self.plateau.window, updates // 100))
        return replace(self, plateau=replace(self.plateau, window=window), ramp=max(1, updates // 20), **timed)

    @property
    def strengthening_from(self) -> int:
        """First update at which phase III can start."""
        return self.warm_start.shortest + self.expansion.shortest

    @property
    def phases(self) -> tuple[PhaseConfig, PhaseConfig, PhaseConfig]:
        """Phases I, II, III."""
        return self.warm_start, self.expansion, self.strengthening

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LengthConfig:
        """Inverse of `to_json`."""
        return from_fields(cls, _current(value), "config")


def _current(value: dict[str, Any]) -> dict[str, Any]:
    """Upgrade files of version 0.1, which may have a relay share without a triangle weight (no effect)."""
    phases = {name: value.get(name) for name in ("warm_start", "expansion", "strengthening")}
    idle = {
        name: {**phase, "relay_share": 0.0}
        for name, phase in phases.items()
        if isinstance(phase, dict) and phase.get("lambda_triangle") == 0
    }
    return {**value, **idle}


def goal_dims(spec: EnvSpec, config: LengthConfig) -> tuple[int, ...]:
    """Planning-state dimensions of the network's goal input."""
    return tuple(range(spec.state_dim)) if config.full_state_goals else spec.goal_dims
