"""What the page and other programs may ask (`replies` has the answers). All input is bounded here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.errors import UnknownNameError
from vhdiffuser.planner.calibrated import Arrive

MAX_PAIRS = 256
"""Maximum pairs per request for lengths."""
MAX_GRID = 160
"""Maximum points along the longer side of a distance field."""

MAX_CANDIDATES = 64
"""Maximum candidates per request."""
MAX_TRIALS = 100
"""Maximum random pairs per request for statistics."""
MAX_SIDE = 100
"""Maximum rows and columns of a map."""

Point = Annotated[list[FiniteFloat], Field(min_length=1, max_length=32)]
Box = Annotated[list[Point], Field(min_length=2, max_length=2)]
Row = Annotated[str, Field(max_length=MAX_SIDE, pattern="^[#OG]+$")]
Rows = Annotated[list[Row], Field(min_length=3, max_length=MAX_SIDE)]
Protocol = Literal["ss", "rp"]
MethodName = Literal["vhd", "fh-h1", "fh-h2", "fh-h3"]


def _known_sampler(name: str) -> str:
    """Raises ValueError, as pydantic's validators must."""
    try:
        SAMPLERS.require(name)
    except UnknownNameError as error:
        raise ValueError(str(error).removesuffix(".")) from None
    return name


class Strict(BaseModel):
    """Refuses unknown fields: a misspelt option must not be ignored."""

    model_config = ConfigDict(extra="forbid")


class Numbered(Strict):
    """A request that a newer one may supersede."""

    client: str | None = Field(None, max_length=40, pattern=r"^[A-Za-z0-9-]+$", description="An id of the page.")
    sequence: int = Field(0, ge=0, le=2**53, description="Increasing; a newer request cancels older ones.")


class PlanningRequest(Numbered):
    """How to plan, and what was changed in the environment."""

    environment: str = Field(max_length=64, description="Name of the environment.")
    length: int | None = Field(None, ge=2, le=4096, description="States of the plan; predicted if omitted.")
    gamma: FiniteFloat | None = Field(None, gt=0, le=10, description="Margin on the predicted length.")
    risk: FiniteFloat | None = Field(
        None, gt=0, lt=1, description="Accepted probability of not arriving, in place of gamma; the scene says whether."
    )
    sampler: Annotated[str, Field(max_length=64), AfterValidator(_known_sampler)] | None = Field(
        None, description="One of the scene's `samplers`."
    )
    steps: int | None = Field(None, ge=1, le=1000, description="Reverse steps.")
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed of the noise.")
    avoid: list[Box] = Field(
        default_factory=list, max_length=16, description="Boxes (lower, upper corner) that plans keep out of."
    )
    map: Rows | None = Field(
        None, description="The scene's map with walls (#) added or removed. Plans never use a wall that is gone."
    )
    walls_known: bool = Field(True, description="Whether plans avoid added walls, as they avoid boxes.")


class PairRequest(PlanningRequest):
    """One start and one goal, and how to plan between them."""

    start: Point = Field(description="Goal dimensions (at rest), or a full planning state.")
    goal: Point = Field(description="Goal dimensions.")


class PlanRequest(PairRequest):
    """One plan, with or without a deadline."""

    deadline: int | None = Field(
        None,
        ge=2,
        le=100_000,
        description="Control step by which to arrive with the risk (default 0.05), up to the scene's `step_budget`; "
        "in place of length, boxes and known walls. The scene says whether.",
    )
    arrive: Arrive = Field("by", description="Before the deadline, or at it.")


class GoalMove(Strict):
    """A new goal in the midst of an execution."""

    step: int = Field(ge=1, le=100_000, description="Control step at which the goal moves.")
    goal: Point


class Executed(PlanRequest):
    """What an execution may have besides its protocol."""

    moves: list[GoalMove] = Field(default_factory=list, max_length=16, description="In the order of their steps.")
    skeleton: bool = Field(False, description="Whether to send the robot's pose, where the scene is `spatial`.")


class ExecuteRequest(Executed):
    """A plan, and how to execute it."""

    protocol: Protocol = Field("ss", description="ss: single-shot; rp: replan-on-deviation.")


class StreamRequest(Executed):
    """Horizon, plan and, if requested, execution, one line each."""

    protocol: Protocol | None = Field(None, description="How to execute; not executed if omitted.")


class CandidatesRequest(PairRequest):
    """Several plans for one pair."""

    count: int = Field(MAX_CANDIDATES, ge=2, le=MAX_CANDIDATES, description="Number of plans.")


class TrialsRequest(PlanningRequest):
    """Executions of random pairs, by one method."""

    method: MethodName = "vhd"
    protocol: Protocol = "rp"
    first: int = Field(0, ge=0, le=2**20, description="Number of the first pair: the seed of `instance`.")
    count: int = Field(10, ge=1, le=MAX_TRIALS, description="Number of pairs.")


class Pair(Strict):
    """A start and a goal."""

    start: Point
    goal: Point


class LengthsRequest(Strict):
    """A request for the horizons of many pairs."""

    environment: str = Field(max_length=64)
    pairs: list[Pair] = Field(min_length=1, max_length=MAX_PAIRS)
    gamma: FiniteFloat | None = Field(None, gt=0, le=10)
    risk: FiniteFloat | None = Field(None, gt=0, lt=1)


class FieldRequest(Numbered):
    """The distance field to a goal, over one view."""

    environment: str = Field(max_length=64)
    start: Point = Field(description="Fixes the plane of the field in a view of three dimensions.")
    goal: Point
    map: Rows | None = Field(None, description="As in a request for a plan.")
    view: int = Field(0, ge=0, le=7, description="Number of the view.")
    points: int = Field(96, ge=8, le=MAX_GRID, description="Points along the longer side.")
