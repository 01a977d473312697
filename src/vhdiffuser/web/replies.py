"""What the server answers (`requests` has the questions)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vhdiffuser.web.requests import Protocol, Strict

Reason = Literal["start", "deviation", "ended", "goal"]
Ending = Literal["reached", "fell", "stuck", "out-of-steps", "off-plan", "missed"]


class EnvironmentEntry(Strict):
    """One environment of the list."""

    name: str
    ready: bool
    commands: list[str] = Field(description="Commands that get what is missing.")


class View(Strict):
    """One picture of the environment: which goal dimension runs to the right, and which upwards."""

    title: str
    right: int
    up: int
    right_range: list[float]
    up_range: list[float]


class MapReply(Strict):
    """A maze's map: `#` wall, `O` free. Rows are x, columns are y."""

    rows: list[str]
    origin: list[float] = Field(description="Centre of the first cell of the first row.")
    cell: float = Field(description="Side of a cell, in units.")


class SceneReply(Strict):
    """What is needed to draw an environment and to plan in it."""

    environment: str
    state_names: list[str]
    goal_names: list[str]
    unit: str = Field(description="What positions are measured in; empty where nothing is said.")
    views: list[View]
    walls: list[list[float]] = Field(description="x_low, x_high, y_low, y_high.")
    radius: float = Field(description="Of the body, in units: a wall must be this far.")
    clearance: float = Field(description="Points nearer to a wall, in units, are refused.")
    map: MapReply | None = Field(description="Where walls can be added and removed.")
    spatial: bool = Field(description="Whether executions can have a skeleton.")
    tolerance: list[float] = Field(description="Half sides of the goal region, in units.")
    control_dt: float
    horizons: list[int]
    trained_horizons: list[int] = Field(description="Fixed horizons with weights of their own.")
    T_max: int
    L_min: int
    step_budget: int
    gamma: float
    calibrated: bool = Field(description="Whether requests may name a risk or a deadline.")
    sampler: str
    samplers: list[str]
    steps: int
    max_steps: int
    executes: bool
    commands: list[str] = Field(description="Commands that make what executing needs.")
    start: list[float]
    goal: list[float]
    opening: str = Field(description="How this start and goal were chosen.")


class InstanceReply(Strict):
    """A random pair."""

    start: list[float]
    goal: list[float]


class DeadlineReply(Strict):
    """Whether a deadline suffices."""

    limit: int = Field(description="The deadline.")
    kept: bool = Field(description="Whether the goal is reached by it with the accepted risk; else there is no plan.")
    steps: int = Field(description="Control steps that would do.")
    risk: float = Field(description="The accepted risk.")
    probability: float = Field(description="Of arriving by the deadline.")


class HorizonReply(Strict):
    """L_hat and its uncertainty."""

    length: int = Field(description="L_hat: states of the plan, after gamma and clipping.")
    predicted: bool = Field(description="False if the request fixed the length.")
    low: int = Field(description="Smallest L_hat over starts and goals within epsilon.")
    high: int = Field(description="Largest L_hat over starts and goals within epsilon.")
    quantile_spread: float | None = Field(description="Steps between the outer predicted quantiles of lengths.")
    probability: float | None = Field(description="Of arriving within the plan's length, if calibrated.")
    interval: list[int] | None = Field(description="10 and 90 % quantile of the steps to arrival, if calibrated.")
    reachable: bool | None = Field(
        description="Whether both ends lie where the data is and observed moves connect them; null if nobody can tell."
    )
    deadline: DeadlineReply | None = Field(description="If the request has one.")
    notes: list[str]


class PlanReply(Strict):
    """A plan and its denoising. States are in the environment's units."""

    environment: str
    length: int
    state_names: list[str]
    goal: list[float]
    states: list[list[float]]
    route: list[list[float]] = Field(description="Goal dimensions of the route of a composed plan; else empty.")
    pieces: list[list[int]] = Field(description="First and last state of each piece of a composed plan.")
    frames: list[int] = Field(description="Reverse steps shown in `denoising`.")
    denoising: list[list[list[float]]] = Field(description="Goal dimensions of the knots after those steps.")
    sampler: str
    steps: int
    gamma: float
    seed: int
    seconds: float


class PlannedReply(Strict):
    """A horizon and its plan."""

    horizon: HorizonReply
    plan: PlanReply


class MadePlan(Strict):
    """A plan made during an execution."""

    step: int
    length: int
    reason: Reason
    places: list[list[float]] = Field(description="Its goal dimensions, subsampled.")
    route: list[list[float]] = Field(description="Of a composed plan; else empty.")
    seconds: float = Field(description="Time that planning took.")


class SkeletonReply(Strict):
    """A robot as lines between points, in units; z is up."""

    bones: list[list[float]] = Field(description="Two points each, and the radius.")
    steps: list[int] = Field(description="The control steps of `poses`.")
    poses: list[list[list[float]]] = Field(description="x, y, z of every point.")


class ExecutionReply(Strict):
    """An execution."""

    protocol: Protocol
    success: bool
    steps: int
    ending: Ending
    explanation: str = Field(description="Why it ended, in a sentence.")
    missed_by: float = Field(description="Distance to the goal at the end, in units.")
    places: list[list[float]] = Field(description="Goal dimensions after every control step.")
    states: list[list[float]] = Field(description="Planning states, if there is more to them than places; else empty.")
    plans: list[MadePlan]
    intrusions: int = Field(description="Control steps inside boxes to avoid.")
    skeleton: SkeletonReply | None
    final_distance: float = Field(description="To the goal, normalised; success is within epsilon.")
    epsilon: float
    budget: int | None
    planning_seconds: float
    control_seconds: float


class MethodReply(Strict):
    """One method of a comparison."""

    method: str
    title: str
    weights: Literal["own", "forced"] = Field(description="forced: VHD's planner at this length.")
    horizon: int | None
    execution: ExecutionReply


class CandidateReply(Strict):
    """One of several plans for a pair."""

    places: list[list[float]] = Field(description="Its goal dimensions, subsampled.")
    score: float = Field(description="Steps by which its worst part is shorter than predicted: lower is better.")


class CandidatesReply(Strict):
    """Several plans for a pair, with the Length Predictor's score."""

    length: int
    best: int = Field(description="Number of the one that `candidates` would return, from 0.")
    candidates: list[CandidateReply]
    seconds: float


class TrialReply(Strict):
    """One execution of a random pair."""

    number: int
    start: list[float]
    goal: list[float]
    success: bool
    ending: Ending
    explanation: str
    length: int = Field(description="States of the first plan.")
    steps: int
    replans: int
    planning_seconds: float


class LengthsReply(Strict):
    """L_hat of every pair."""

    lengths: list[int]


class FieldReply(Strict):
    """Steps to the goal, row by row from the lower end of the `up` dimension; -1 where no start can be."""

    rows: int
    columns: int
    right_range: list[float] = Field(description="Of the first and the last column's points.")
    up_range: list[float] = Field(description="Of the first and the last row's points.")
    steps: list[float]


class RefusalReply(Strict):
    """Why a request was not answered."""

    kind: str
    reason: str
