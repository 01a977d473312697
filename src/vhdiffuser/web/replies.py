"""Response bodies of the JSON API (request bodies: `vhdiffuser.web.requests`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vhdiffuser.web.requests import Protocol, Strict

Reason = Literal["start", "deviation", "ended", "goal", "due"]
Ending = Literal["reached", "fell", "stuck", "out-of-steps", "off-plan", "missed"]


class EnvironmentEntry(Strict):
    """One entry in the list of environments."""

    name: str
    ready: bool
    commands: list[str] = Field(description="Commands that install or train what is missing.")


class View(Strict):
    """One view of the environment: which goal dimension points right, and which up."""

    title: str
    right: int
    up: int
    right_range: list[float]
    up_range: list[float]


class MapReply(Strict):
    """A maze's map: `#` wall, `O` free. Rows are x, columns are y."""

    rows: list[str]
    origin: list[float] = Field(description="Centre of the first cell in the first row.")
    cell: float = Field(description="Side of a cell, in the environment's units.")


class SceneReply(Strict):
    """Everything needed to draw an environment and to plan in it."""

    environment: str
    state_names: list[str]
    goal_names: list[str]
    unit: str = Field(description="Unit of positions; empty if unknown.")
    views: list[View]
    walls: list[list[float]] = Field(description="x_low, x_high, y_low, y_high.")
    radius: float = Field(description="Radius of the body, in units.")
    clearance: float = Field(description="Minimum distance of start and goal to a wall, in units.")
    map: MapReply | None = Field(description="Editable map; null if walls cannot be edited.")
    spatial: bool = Field(description="Whether executions can include a skeleton.")
    tolerance: list[float] = Field(description="Half sides of the goal region, in units.")
    control_dt: float
    horizons: list[int]
    trained_horizons: list[int] = Field(description="Fixed horizons with weights of their own (FH baselines).")
    T_max: int
    L_min: int
    step_budget: int
    gamma: float
    risk: float | None = Field(
        description="Accepted probability of not arriving; null if lengths have the margin gamma."
    )
    calibrated: bool = Field(description="Whether requests may set a risk or a deadline.")
    sampler: str
    samplers: list[str]
    steps: int
    max_steps: int
    executes: bool
    commands: list[str] = Field(description="Commands that provide what execution needs.")
    start: list[float]
    goal: list[float]
    opening: str = Field(description="How this start and goal were chosen.")


class InstanceReply(Strict):
    """A random start-goal pair."""

    start: list[float]
    goal: list[float]


class DeadlineReply(Strict):
    """Whether a plan meets the deadline."""

    limit: int = Field(description="Deadline, in control steps.")
    kept: bool = Field(
        description="Whether a plan with the accepted risk meets the deadline; if not, there is no plan."
    )
    steps: int = Field(description="Control steps that such a plan needs.")
    risk: float = Field(description="The accepted risk.")
    probability: float | None = Field(
        description="Probability of arriving by the deadline; null if unknown, as off the data."
    )


class HorizonReply(Strict):
    """L_hat and its uncertainty."""

    length: int = Field(description="L_hat: number of states in the plan, after gamma and clipping.")
    predicted: bool = Field(description="False if the request fixed the length.")
    low: int = Field(description="Smallest L_hat over starts and goals within epsilon.")
    high: int = Field(description="Largest L_hat over starts and goals within epsilon.")
    quantile_spread: float | None = Field(description="Steps between the outer predicted quantiles.")
    probability: float | None = Field(description="Probability of arriving within the plan's length, if calibrated.")
    interval: list[int] | None = Field(description="10 % and 90 % quantiles of the steps to arrival, if calibrated.")
    reachable: bool | None = Field(
        description="Whether the data covers both ends and observed transitions connect them; null if unknown."
    )
    deadline: DeadlineReply | None = Field(description="Set if the request has a deadline.")
    notes: list[str]


class PlanReply(Strict):
    """A plan and its denoising, in the environment's units."""

    environment: str
    length: int
    state_names: list[str]
    goal: list[float]
    states: list[list[float]]
    route: list[list[float]] = Field(description="Route of a composed plan (goal dimensions); empty otherwise.")
    pieces: list[list[int]] = Field(description="First and last state of each piece of a composed plan.")
    frames: list[int] = Field(description="Reverse steps included in `denoising`.")
    denoising: list[list[list[float]]] = Field(description="Goal dimensions of the knots after each of these steps.")
    sampler: str
    steps: int
    gamma: float
    risk: float | None = Field(
        description="Accepted probability of not arriving, which set the length instead of gamma."
    )
    seed: int
    seconds: float


class PlannedReply(Strict):
    """A horizon and its plan."""

    horizon: HorizonReply
    plan: PlanReply


class MadePlan(Strict):
    """One plan made during an execution."""

    step: int
    length: int
    reason: Reason
    places: list[list[float]] = Field(description="Goal dimensions of the plan, subsampled.")
    route: list[list[float]] = Field(description="Route of a composed plan; empty otherwise.")
    seconds: float = Field(description="Planning time in seconds.")


class SkeletonReply(Strict):
    """A robot as line segments between points, in units; z points up."""

    bones: list[list[float]] = Field(description="Indices of two points, and a radius.")
    steps: list[int] = Field(description="Control steps at which `poses` are given.")
    poses: list[list[list[float]]] = Field(description="x, y, z of each point.")


class ExecutionReply(Strict):
    """Result of an execution."""

    protocol: Protocol
    success: bool
    steps: int
    ending: Ending
    explanation: str = Field(description="Why it ended, in one sentence.")
    missed_by: float = Field(description="Distance to the goal at the end, in units.")
    places: list[list[float]] = Field(description="Goal dimensions after every control step.")
    states: list[list[float]] = Field(description="Planning states, if they hold more than positions; empty otherwise.")
    plans: list[MadePlan]
    intrusions: int = Field(description="Number of control steps inside boxes to avoid.")
    skeleton: SkeletonReply | None
    final_distance: float = Field(description="Normalised distance to the goal; success means at most epsilon.")
    epsilon: float
    budget: int | None
    planning_seconds: float
    control_seconds: float


class MethodReply(Strict):
    """Result of one method in a comparison."""

    method: str
    title: str
    weights: Literal["own", "forced"] = Field(
        description="own: weights trained at this horizon; forced: VHD's planner at this length."
    )
    horizon: int | None
    execution: ExecutionReply


class CandidateReply(Strict):
    """One of several plans for a pair."""

    places: list[list[float]] = Field(description="Goal dimensions of the plan, subsampled.")
    score: float = Field(
        description="Largest number of steps by which a part of the plan is shorter than predicted; lower is better."
    )


class CandidatesReply(Strict):
    """Several plans for a pair, scored by the Length Predictor."""

    length: int
    best: int = Field(description="Index of the plan that the option `candidates` would return.")
    candidates: list[CandidateReply]
    seconds: float


class TrialReply(Strict):
    """Execution of one random pair."""

    number: int
    start: list[float]
    goal: list[float]
    success: bool
    ending: Ending
    explanation: str
    length: int = Field(description="Number of states in the first plan.")
    steps: int
    replans: int
    planning_seconds: float


class LengthsReply(Strict):
    """L_hat of each pair."""

    lengths: list[int]


class FieldReply(Strict):
    """Predicted steps to the goal, row by row from the lower end of the `up` dimension; -1 where no start is
    possible."""

    rows: int
    columns: int
    right_range: list[float] = Field(description="Positions of the first and last column.")
    up_range: list[float] = Field(description="Positions of the first and last row.")
    steps: list[float]


class RefusalReply(Strict):
    """Why a request was refused."""

    kind: str
    reason: str
