"""Jobs: the computation behind a request, run by a worker that holds the models."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from vhdiffuser.cancel import cancellable
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.planner.calibrated import ROUNDS, DeadlineError
from vhdiffuser.web import executing, field, maps, planning, replies, requests, scene
from vhdiffuser.web.library import Library, Loaded
from vhdiffuser.web.limits import Refusal, Stale, TooSlow

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """One operation in one environment."""

    operation: str
    """Key of `OPERATIONS`."""
    environment: str
    body: Any = None
    """Request body, if the operation needs one."""
    argument: Any = None
    """Further argument: a seed, a length or a method."""
    most_evaluations: int | None = None
    """Limit on a plan's network evaluations; None for no limit."""


@dataclass(frozen=True)
class Answer:
    """A worker's result. Exceptions are converted, since not all of them can be pickled."""

    text: str = ""
    """The reply as JSON."""
    refusal: tuple[int, str, str, int | None] | None = None
    """Status, kind, reason and Retry-After in seconds."""
    later: bool = False
    """Not done yet: the environment is still loading."""
    too_costly: bool = False
    """Not done: the plan needs more evaluations than allowed."""
    used: float = 0.0
    """Computing time in seconds."""


class _TooCostlyError(Exception):
    pass


def answer(library: Library, work: Work, cancelled: Callable[[], bool], seconds: float) -> Answer:
    """Run the job unless it is cancelled or takes longer than `seconds`."""
    begun, used = time.monotonic(), time.thread_time()

    def check() -> None:
        if cancelled():
            raise Stale
        if time.monotonic() - begun > seconds:
            raise TooSlow(seconds)

    try:
        check()
        if (loaded := library.if_loaded(work.environment)) is None:
            library.load_in_background(work.environment)
            return Answer(later=True)
        with cancellable(check):
            loaded = maps.with_map(loaded, getattr(work.body, "map", None))
            made = Answer(OPERATIONS[work.operation](library, loaded, work).model_dump_json())
    except _TooCostlyError:
        made = Answer(too_costly=True)
    except VhdError as error:
        made = Answer(refusal=refusal_of(error))
    except Exception:
        _log.exception("%s in %s failed", work.operation, work.environment)
        made = Answer(refusal=(500, "failed", "internal error; see the server's terminal.", None))
    return replace(made, used=time.thread_time() - used)


def refusal_of(error: VhdError) -> tuple[int, str, str, int | None]:
    """Status, kind, reason and Retry-After of an error. Errors about damaged model files name local paths, so they go
    to the log only."""
    if isinstance(error, Refusal):
        return error.status, error.kind, str(error), error.retry_after
    if isinstance(error, UnknownNameError):
        return 404, "unknown", str(error), None
    if isinstance(error, DataError):
        _log.error("%s", error)
        return 500, "failed", "the weights of this environment cannot be read; see the server's terminal.", None
    return 422, "deadline" if isinstance(error, DeadlineError) else "refused", str(error), None


def _scene(library: Library, loaded: Loaded, work: Work) -> replies.SceneReply:
    return scene.describe(loaded, dict(library.listing())[work.environment].to_execute)


def _instance(library: Library, loaded: Loaded, work: Work) -> replies.InstanceReply:
    return scene.random_instance(loaded, work.argument)


def _lengths(library: Library, loaded: Loaded, work: Work) -> replies.LengthsReply:
    return planning.lengths(loaded, work.body)


def _horizon(library: Library, loaded: Loaded, work: Work) -> replies.HorizonReply:
    return planning.horizon(loaded, work.body, _pair(loaded, work))


def _plan(library: Library, loaded: Loaded, work: Work) -> replies.PlanReply:
    _require_cheap(loaded, work)
    return planning.plan(loaded, work.body, _pair(loaded, work))


def _planned(library: Library, loaded: Loaded, work: Work) -> replies.PlannedReply:
    pair = _pair(loaded, work)
    _require_cheap(loaded, work)
    horizon = planning.horizon(loaded, work.body, pair)
    return replies.PlannedReply(horizon=horizon, plan=planning.plan(loaded, work.body, pair))


def _execute(library: Library, loaded: Loaded, work: Work) -> replies.ExecutionReply:
    return executing.execute(loaded, work.body, _pair(loaded, work))


def _method(library: Library, loaded: Loaded, work: Work) -> replies.MethodReply:
    return executing.execute_method(loaded, work.body, _pair(loaded, work), work.argument)


def _trial(library: Library, loaded: Loaded, work: Work) -> replies.TrialReply:
    planning.planner_of(loaded, work.body)
    return executing.trial(loaded, work.body, work.argument)


def _candidates(library: Library, loaded: Loaded, work: Work) -> replies.CandidatesReply:
    return planning.candidates(loaded, work.body, _pair(loaded, work))


def _field(library: Library, loaded: Loaded, work: Work) -> replies.FieldReply:
    return field.distance_field(loaded, work.body, _pair(loaded, work))


def _pair(loaded: Loaded, work: Work) -> Any:
    """The request's pair; raises `VhdError` with the reason if the pair or its options are invalid."""
    if isinstance(work.body, requests.PairRequest):
        planning.planner_of(loaded, work.body)
    pair = scene.checked_instance(loaded, work.body.start, work.body.goal, getattr(work.body, "seed", 0))
    if isinstance(work.body, requests.PairRequest):
        scene.check_outside(loaded, planning.avoided(loaded, work.body), pair)
    return pair


def _require_cheap(loaded: Loaded, work: Work) -> None:
    options = planning.planner_of(loaded, work.body).options
    rounds = ROUNDS if work.body.deadline is not None and work.body.arrive == "at" else 1
    if work.most_evaluations is not None and rounds * options.steps * options.candidates > work.most_evaluations:
        raise _TooCostlyError


OPERATIONS: dict[str, Callable[[Library, Loaded, Work], BaseModel]] = {
    "scene": _scene, "instance": _instance, "lengths": _lengths, "horizon": _horizon, "plan": _plan,
    "planned": _planned, "execute": _execute, "method": _method, "field": _field, "trial": _trial,
    "candidates": _candidates,
}  # fmt: skip
"""Operations that workers can run."""
