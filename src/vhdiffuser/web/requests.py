"""Request bodies of the JSON API (response bodies: `vhdiffuser.web.replies`). All input is validated and bounded
here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.errors import UnknownNameError
from vhdiffuser.planner.calibrated import Arrive

MAX_PAIRS = 256
"""Pairs per request for lengths."""
MAX_GRID = 160
"""Grid points along the longer side of a distance field."""

MAX_CANDIDATES = 64
"""Candidates per request."""
MAX_TRIALS = 100
"""Random pairs per request for statistics."""
MAX_SIDE = 100
"""Rows and columns of a map."""

Point = Annotated[list[FiniteFloat], Field(min_length=1, max_length=32)]
Box = Annotated[list[Point], Field(min_length=2, max_length=2)]
Row = Annotated[str, Field(max_length=MAX_SIDE, pattern="^[#OG]+$")]
Rows = Annotated[list[Row], Field(min_length=3, max_length=MAX_SIDE)]
Protocol = Literal["ss", "rp", "live"]
MethodName = Literal["vhd", "fh-h1", "fh-h2", "fh-h3"]


def _known_sampler(name: str) -> str:
    """Raises ValueError, as pydantic validators must."""
    try:
        SAMPLERS.require(name)
    except UnknownNameError as error:
        raise ValueError(str(error).removesuffix(".")) from None
    return name


class Strict(BaseModel):
    """Rejects unknown fields, so that a misspelt option is not ignored."""

    model_config = ConfigDict(extra="forbid")


class Numbered(Strict):
    """A request that newer ones supersede."""

    client: str | None = Field(None, max_length=40, pattern=r"^[A-Za-z0-9-]+$", description="Id of the page.")
    sequence: int = Field(0, ge=0, le=2**53, description="Increasing number; a newer request cancels older ones.")


class PlanningRequest(Numbered):
    """Planning options and changes to the environment."""

    environment: str = Field(max_length=64, description="Name of the environment.")
    length: int | None = Field(None, ge=2, le=4096, description="Number of states in the plan; predicted if omitted.")
    gamma: FiniteFloat | None = Field(
        None, gt=0, le=10, description="Factor on the predicted length, instead of the scene's `risk`."
    )
    risk: FiniteFloat | None = Field(
        None,
        gt=0,
        lt=1,
        description="Accepted probability of not arriving, instead of gamma. Only if the scene is `calibrated`.",
    )
    sampler: Annotated[str, Field(max_length=64), AfterValidator(_known_sampler)] | None = Field(
        None, description="One of the scene's `samplers`."
    )
    steps: int | None = Field(None, ge=1, le=1000, description="Number of reverse steps.")
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed of the noise.")
    avoid: list[Box] = Field(
        default_factory=list, max_length=16, description="Boxes to avoid, each as [lower corner, upper corner]."
    )
    map: Rows | None = Field(
        None,
        description="The scene's map with walls (#) added or removed. Plans cannot use an opening "
        "where a wall was removed.",
    )
    walls_known: bool = Field(True, description="Whether plans avoid added walls as they avoid boxes.")


class PairRequest(PlanningRequest):
    """One start-goal pair and its planning options."""

    start: Point = Field(description="Goal dimensions (the robot is at rest), or a full planning state.")
    goal: Point = Field(description="Goal dimensions.")


class PlanRequest(PairRequest):
    """One plan, optionally with a deadline."""

    deadline: int | None = Field(
        None,
        ge=2,
        le=100_000,
        description="Control step by which to arrive with the accepted risk (default: the scene's, or 0.05), at most "
        "the scene's `step_budget`. Replaces length, boxes and added walls. Only if the scene is `calibrated`.",
    )
    arrive: Arrive = Field("by", description="Arrive by the deadline, or exactly at it.")


class GoalMove(Strict):
    """A new goal during an execution."""

    step: int = Field(ge=1, le=100_000, description="Control step at which the goal moves.")
    goal: Point


class Executed(PlanRequest):
    """Options of an execution besides its protocol."""

    moves: list[GoalMove] = Field(default_factory=list, max_length=16, description="Moves of the goal, sorted by step.")
    skeleton: bool = Field(False, description="Whether to include the robot's poses; only if the scene is `spatial`.")


class ExecuteRequest(Executed):
    """A plan and the protocol to execute it with."""

    protocol: Protocol = Field(
        "ss", description="ss: single-shot; rp: replan-on-deviation; live: replan at every step."
    )


class StreamRequest(Executed):
    """Horizon, plan and, if requested, execution; one line each."""

    protocol: Protocol | None = Field(None, description="Protocol; nothing is executed if omitted.")


class CandidatesRequest(PairRequest):
    """Several plans for one pair."""

    count: int = Field(MAX_CANDIDATES, ge=2, le=MAX_CANDIDATES, description="Number of plans.")


class TrialsRequest(PlanningRequest):
    """Executions of random pairs by one method."""

    method: MethodName = "vhd"
    protocol: Protocol = "rp"
    first: int = Field(0, ge=0, le=2**20, description="Number of the first pair: its seed in `instance`.")
    count: int = Field(10, ge=1, le=MAX_TRIALS, description="Number of pairs.")


class Pair(Strict):
    """One start-goal pair."""

    start: Point
    goal: Point


class LengthsRequest(Strict):
    """Predicted lengths of many pairs."""

    environment: str = Field(max_length=64)
    pairs: list[Pair] = Field(min_length=1, max_length=MAX_PAIRS)
    gamma: FiniteFloat | None = Field(None, gt=0, le=10)
    risk: FiniteFloat | None = Field(None, gt=0, lt=1)


class FieldRequest(Numbered):
    """Distance field to one goal over one view."""

    environment: str = Field(max_length=64)
    start: Point = Field(description="Fixes the plane of the field in three dimensions.")
    goal: Point
    map: Rows | None = Field(None, description="As in a plan request.")
    view: int = Field(0, ge=0, le=7, description="Index of the view.")
    points: int = Field(96, ge=8, le=MAX_GRID, description="Grid points along the longer side.")
