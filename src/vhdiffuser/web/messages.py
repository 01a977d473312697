"""Messages between page and server. All input is bounded here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.errors import UnknownNameError

MAX_PAIRS = 256
"""Maximum pairs per request for lengths."""
MAX_GRID = 160
"""Maximum points along the longer side of a distance field."""

Point = Annotated[list[FiniteFloat], Field(min_length=1, max_length=32)]
Protocol = Literal["ss", "rp"]


def _known_sampler(name: str) -> str:
    """Raises ValueError, as pydantic's validators must."""
    try:
        SAMPLERS.require(name)
    except UnknownNameError as error:
        raise ValueError(str(error).removesuffix(".")) from None
    return name


class _Strict(BaseModel):
    """Refuses unknown fields: a misspelt option must not be ignored."""

    model_config = ConfigDict(extra="forbid")


class Numbered(_Strict):
    """A request that a newer one may supersede."""

    client: str | None = Field(None, max_length=40, pattern=r"^[A-Za-z0-9-]+$", description="An id of the page.")
    sequence: int = Field(0, ge=0, le=2**53, description="Increasing; a newer request cancels older ones.")


class PlanRequest(Numbered):
    """One start and one goal, and how to plan between them."""

    environment: str = Field(max_length=64, description="Name of the environment.")
    start: Point = Field(description="Goal dimensions (at rest), or a full planning state.")
    goal: Point = Field(description="Goal dimensions.")
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


class ExecuteRequest(PlanRequest):
    """A plan, and how to execute it."""

    protocol: Protocol = Field("ss", description="ss: single-shot; rp: replan-on-deviation.")


class StreamRequest(PlanRequest):
    """Horizon, plan and, if requested, execution, one line each."""

    protocol: Protocol | None = Field(None, description="How to execute; not executed if omitted.")


class Pair(_Strict):
    """A start and a goal."""

    start: Point
    goal: Point


class LengthsRequest(_Strict):
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
    view: int = Field(0, ge=0, le=7, description="Number of the view.")
    points: int = Field(96, ge=8, le=MAX_GRID, description="Points along the longer side.")


class EnvironmentEntry(_Strict):
    """One environment of the list."""

    name: str
    ready: bool
    commands: list[str] = Field(description="Commands that get what is missing.")


class View(_Strict):
    """One picture of the environment: which goal dimension runs to the right, and which upwards."""

    title: str
    right: int
    up: int
    right_range: list[float]
    up_range: list[float]


class SceneReply(_Strict):
    """What is needed to draw an environment and to plan in it."""

    environment: str
    state_names: list[str]
    goal_names: list[str]
    unit: str = Field(description="What positions are measured in; empty where nothing is said.")
    views: list[View]
    walls: list[list[float]] = Field(description="x_low, x_high, y_low, y_high.")
    radius: float = Field(description="Of the body, in units: a wall must be this far.")
    tolerance: list[float] = Field(description="Half sides of the goal region, in units.")
    control_dt: float
    horizons: list[int]
    trained_horizons: list[int] = Field(description="Fixed horizons with weights of their own.")
    T_max: int
    L_min: int
    step_budget: int
    gamma: float
    calibrated: bool = Field(description="Whether requests may name a risk.")
    sampler: str
    samplers: list[str]
    steps: int
    max_steps: int
    executes: bool
    commands: list[str] = Field(description="Commands that make what executing needs.")
    start: list[float]
    goal: list[float]


class InstanceReply(_Strict):
    """A random pair."""

    start: list[float]
    goal: list[float]


class HorizonReply(_Strict):
    """L_hat and its uncertainty."""

    length: int = Field(description="L_hat: states of the plan, after gamma and clipping.")
    predicted: bool = Field(description="False if the request fixed the length.")
    low: int = Field(description="Smallest L_hat over starts and goals within epsilon.")
    high: int = Field(description="Largest L_hat over starts and goals within epsilon.")
    quantile_spread: float | None = Field(description="Steps between the outer predicted quantiles of lengths.")
    probability: float | None = Field(description="Of arriving within the plan's length, if calibrated.")
    interval: list[int] | None = Field(description="10 and 90 % quantile of the steps to arrival, if calibrated.")
    notes: list[str]


class PlanReply(_Strict):
    """A plan and its denoising. States are in the environment's units."""

    environment: str
    length: int
    state_names: list[str]
    goal: list[float]
    states: list[list[float]]
    frames: list[int] = Field(description="Reverse steps shown in `denoising`.")
    denoising: list[list[list[float]]] = Field(description="Goal dimensions of the knots after those steps.")
    sampler: str
    steps: int
    gamma: float
    seed: int
    seconds: float


class PlannedReply(_Strict):
    """A horizon and its plan."""

    horizon: HorizonReply
    plan: PlanReply


class MadePlan(_Strict):
    """A plan made during an execution."""

    step: int
    length: int
    reason: Literal["start", "deviation", "ended"]
    places: list[list[float]] = Field(description="Its goal dimensions, subsampled.")


class ExecutionReply(_Strict):
    """An execution."""

    protocol: Protocol
    success: bool
    steps: int
    places: list[list[float]] = Field(description="Goal dimensions after every control step.")
    plans: list[MadePlan]
    final_distance: float = Field(description="To the goal, normalised; success is within epsilon.")
    epsilon: float
    budget: int | None
    planning_seconds: float
    control_seconds: float


class MethodReply(_Strict):
    """One method of a comparison."""

    method: str
    title: str
    weights: Literal["own", "forced"] = Field(description="forced: VHD's planner at this length.")
    horizon: int | None
    execution: ExecutionReply


class LengthsReply(_Strict):
    """L_hat of every pair."""

    lengths: list[int]


class FieldReply(_Strict):
    """Steps to the goal, row by row from the lower end of the `up` dimension; -1 where no start can be."""

    rows: int
    columns: int
    right_range: list[float] = Field(description="Of the first and the last column's points.")
    up_range: list[float] = Field(description="Of the first and the last row's points.")
    steps: list[float]


class RefusalReply(_Strict):
    """Why a request was not answered."""

    kind: str
    reason: str
