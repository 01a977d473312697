"""The Length Predictor's recipe: the paper's, and ours. Saved with its weights; imports no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec


@dataclass(frozen=True)
class NetworkConfig:
    """Size of the Length Predictor's network."""

    features: int = 64
    """Columns of the Gaussian matrix B: each gives one sine and one cosine."""
    feature_scale: float = 0.3
    """Standard deviation of B: the higher, the finer the detail that the features resolve."""
    width: int = 256
    """Units in a hidden layer."""
    depth: int = 3
    """Hidden layers."""
    relative: bool = True
    """Whether z holds the relative channel phi(s) - phi(g)."""


@dataclass(frozen=True)
class GoalMixture:
    """Shares of the three sources of goals; they need not add up to 1."""

    endpoint: float
    """The last state of the start's own episode."""
    local: float
    """A state of the same episode, at most T_max steps ahead."""
    far: float
    """Any state of the dataset (the paper's global goals)."""

    def __post_init__(self) -> None:
        shares = (self.endpoint, self.local, self.far)
        if min(shares) < 0 or sum(shares) <= 0:
            raise VhdError(f"goal shares must not be negative and must not all be 0, got {shares}.")


@dataclass(frozen=True)
class PhaseConfig:
    """What one phase draws and weighs."""

    goals: GoalMixture
    """Where goals come from."""
    links: tuple[int, ...]
    """Link set K: steps of a DP link when the episode does not hit the goal."""
    lambda_cons: float
    """Weight of L_cons."""
    lambda_triangle: float
    """Weight of L_triangle."""
    relay_share: float
    """Probability that a pair's relay is mined and not its own s_k; relays enter by L_triangle alone."""
    relays: int
    """Candidates that are mined for each pair."""
    margin: float
    """Semi-hard: a mined relay may undercut f(s, g) by at most this (normalised by T_max)."""
    graph: bool
    """Whether targets use the relay graph."""
    even: float
    """Share of starts, far goals and relays drawn evenly over the graph's landmarks, not over the data's states."""
    shortest: int
    """Updates before a plateau can end this phase."""
    longest: int
    """Updates after which this phase ends without a plateau; the last phase has no end."""

    def __post_init__(self) -> None:
        if not self.links or min(self.links) < 1:
            raise VhdError(f"the link set K needs numbers of at least 1, got {self.links}.")
        if self.relays < 1 and self.relay_share > 0:
            raise VhdError("relay_share > 0 needs at least one relay candidate.")
        if self.relay_share > 0 and self.lambda_triangle == 0:
            raise VhdError(
                f"relay_share {self.relay_share} does nothing where lambda_triangle is 0: relays enter the loss by "
                "L_triangle alone. Give lambda_triangle a weight, or set relay_share to 0."
            )


@dataclass(frozen=True)
class PlateauConfig:
    """When the anchor error counts as no longer falling."""

    window: int = 100
    """Updates whose mean anchor error makes one reading."""
    patience: int = 5
    """Readings without a new best that make a plateau."""
    improvement: float = 0.02
    """Share by which a reading must undercut the best to be a new best."""


@dataclass(frozen=True)
class RelayGraphConfig:
    """The landmarks and the hops between them."""

    landmarks: int = 1000
    """Landmarks that cover the goal space."""
    neighbours: int = 8
    """Landmarks around a state that its moves are shifted onto."""
    moves: int = 3_000_000
    """Shifted moves that are looked at."""
    quantile: float = 0.15
    """Which quantile of a hop's observed lengths counts as its length."""
    least: int = 3
    """Observations without which there is no hop."""
    sparse_cost: float = 0.5
    """How much dearer a hop into a region is where the data is thin: up to 1 + this times its steps."""
    floor: float = 0.05
    """Share of T_max below which distances are left to the anchors."""


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
    """How the Length Predictor is built and trained. The defaults are ours; `paper()` is the paper's recipe."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Encoder and MLP."""
    batch: int = 512
    """Pairs in a mini-batch."""
    full_state_goals: bool = False
    """Goals are whole planning states, as the paper writes f(s, g), and not their goal dimensions."""
    quantiles: tuple[float, ...] = (0.3, 0.1, 0.9)
    """Which quantiles of the observed lengths the network outputs. The first is f; all give the spread."""
    kappa: float = 0.05
    """Huber threshold, normalised by T_max."""
    lambda_bdry: float = 1.0
    """Weight of L_bdry."""
    lambda_clip: float = 1.0
    """Weight of L_clip."""
    pool_share: float = 0.5
    """Share of relay candidates from the global pool; the rest come from the mini-batch."""
    relay_graph: RelayGraphConfig | None = field(default_factory=RelayGraphConfig)
    """Relays many hops long; none in the paper's recipe."""
    warm_start: PhaseConfig = _WARM_START
    """Phase I: local pairs whose episode reaches the goal."""
    expansion: PhaseConfig = _EXPANSION
    """Phase II: far goals, longer links, consistency."""
    strengthening: PhaseConfig = _STRENGTHENING
    """Phase III: mined relays and the triangle term."""
    plateau: PlateauConfig = field(default_factory=PlateauConfig)
    """What ends phases I and II."""
    ramp: int = 1000
    """Updates over which a phase's loss weights are ramped up."""

    def __post_init__(self) -> None:
        if not self.quantiles or not all(0 < tau < 1 for tau in self.quantiles):
            raise VhdError(f"quantiles must lie between 0 and 1, and there must be at least one; got {self.quantiles}.")
        if self.batch < 2:
            raise VhdError(f"a mini-batch needs at least 2 pairs, got {self.batch}.")

    @classmethod
    def paper(cls) -> LengthConfig:
        """The paper's recipe: Huber around the mean of what was observed, small K, s_k and mined relays.

        Phases I and II use mined relays rarely, with a triangle weight that leaves the regression in charge; phase III
        raises both. The paper gives no numbers.
        """
        rare: dict[str, Any] = {"lambda_triangle": 0.05, "relay_share": 0.05}
        small_K = (1, 2, 4, 8)
        return cls(
            quantiles=(0.5,),
            relay_graph=None,
            warm_start=replace(
                _WARM_START,
                goals=GoalMixture(0.1, 0.8, 0.1),
                links=(1, 2),
                shortest=1000,
                longest=4000,
                **rare,
            ),
            expansion=replace(
                _EXPANSION, goals=GoalMixture(0.2, 0.5, 0.3), links=small_K, graph=False, even=0.0, **rare
            ),
            strengthening=replace(
                _STRENGTHENING,
                goals=GoalMixture(0.2, 0.4, 0.4),
                links=small_K,
                lambda_triangle=0.5,
                relays=4,
                margin=0.1,
                graph=False,
                even=0.0,
            ),
        )

    @property
    def phases(self) -> tuple[PhaseConfig, PhaseConfig, PhaseConfig]:
        """Phases I, II, III."""
        return self.warm_start, self.expansion, self.strengthening

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LengthConfig:
        """The inverse of `to_json`."""
        phases = {key: _phase(value[key]) for key in ("warm_start", "expansion", "strengthening")}
        graph = value["relay_graph"]
        nested = {
            "network": NetworkConfig(**value["network"]),
            "plateau": PlateauConfig(**value["plateau"]),
            "relay_graph": None if graph is None else RelayGraphConfig(**graph),
        }
        return cls(**{**value, "quantiles": tuple(value["quantiles"]), **phases, **nested})


def _phase(value: dict[str, Any]) -> PhaseConfig:
    # Files of version 0.1 may hold a share of relays without a triangle weight, which did nothing.
    share = value["relay_share"] if value["lambda_triangle"] > 0 else 0.0
    nested = {"goals": GoalMixture(**value["goals"]), "links": tuple(value["links"]), "relay_share": share}
    return PhaseConfig(**{**value, **nested})


def goal_dims(spec: EnvSpec, config: LengthConfig) -> tuple[int, ...]:
    """Planning-state dimensions through which the goal enters."""
    return tuple(range(spec.state_dim)) if config.full_state_goals else spec.goal_dims
