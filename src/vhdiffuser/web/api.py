"""The JSON API: its routes and their handlers.

Work runs off the event loop (`vhdiffuser.web.jobs`). Streams are lines of JSON, each with an `event`; an invalid
request is refused with a status before the first line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.types import Instance
from vhdiffuser.web import executing, field, messages, planning, scene
from vhdiffuser.web.jobs import Jobs, Token
from vhdiffuser.web.library import Library, Loaded
from vhdiffuser.web.limits import Refusal

_log = logging.getLogger(__name__)
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.RefusalReply, "description": text}
    for status, text in (
        (404, "unknown environment, or one that is not ready"),
        (409, "superseded by a newer request of the same page"),
        (413, "the body is too large"),
        (422, "malformed, out of bounds, or a point in a wall"),
        (429, "too many requests at once"),
        (503, "took too long"),
    )
}
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"description": "Lines of JSON, each with an `event`.", "content": {"application/x-ndjson": {}}}
}
Name = Annotated[str, Path(max_length=64)]


def add_api(app: FastAPI, library: Library, jobs: Jobs) -> None:
    """Add all routes under `/api`."""
    requests = Requests(library, jobs)
    _add_environments(app, requests)
    _add_answers(app, requests)
    _add_streams(app, requests)


def refusal_of(error: VhdError) -> tuple[int, messages.RefusalReply]:
    """Status and reason. Errors of damaged model files contain local paths, so they go to the log only."""
    if isinstance(error, Refusal):
        return error.status, messages.RefusalReply(kind=error.kind, reason=str(error))
    if isinstance(error, UnknownNameError):
        return 404, messages.RefusalReply(kind="unknown", reason=str(error))
    if isinstance(error, DataError):
        _log.error("%s", error)
        reason = "the weights of this environment cannot be read; the server's terminal says why."
        return 500, messages.RefusalReply(kind="failed", reason=reason)
    return 422, messages.RefusalReply(kind="refused", reason=str(error))


@dataclass(frozen=True)
class Requests:
    """What requests share: loading an environment, checking a pair, queueing a job."""

    library: Library
    jobs: Jobs

    async def load(self, name: str, request: Request) -> Loaded:
        """The environment. Loading has its own token, so it does not count towards the time limit of the work."""
        if (if_loaded := self.library.if_loaded(name)) is not None:
            return if_loaded
        token = self.jobs.token(None, "load", 0)
        return await self.jobs.run("slow", token, request.is_disconnected, partial(self.library.get, name))

    async def prepare(
        self, body: messages.PlanRequest | messages.FieldRequest, channel: str, request: Request
    ) -> tuple[Loaded, Instance, Token]:
        """Validate the request completely before the response starts."""
        loaded = await self.load(body.environment, request)
        token = self.jobs.token(body.client, channel, body.sequence)
        if isinstance(body, messages.PlanRequest):
            planning.planner_of(loaded, body)
        seed = body.seed if isinstance(body, messages.PlanRequest) else 0
        return loaded, scene.checked_instance(loaded, body.start, body.goal, seed), token


def _add_environments(app: FastAPI, requests: Requests) -> None:
    """Routes that list and describe environments."""

    @app.get("/api/environments", response_model=list[messages.EnvironmentEntry])
    async def environments() -> list[messages.EnvironmentEntry]:
        """All environments; for those that lack weights or a simulator, the commands that get them."""
        return [
            messages.EnvironmentEntry(name=name, ready=not missing.to_plan, commands=list(missing.to_plan))
            for name, missing in requests.library.listing()
        ]

    @app.get("/api/environments/{name}", response_model=messages.SceneReply, responses=_REFUSALS)
    async def environment(name: Name, request: Request) -> messages.SceneReply:
        """Walls, views, limits and defaults of one environment. Loads it."""
        loaded = await requests.load(name, request)
        token = requests.jobs.token(None, "scene", 0)
        commands = dict(requests.library.listing())[name].to_execute
        work = partial(scene.describe, loaded, commands)
        return await requests.jobs.run("quick", token, request.is_disconnected, work)

    @app.get("/api/environments/{name}/instance", response_model=messages.InstanceReply, responses=_REFUSALS)
    async def instance(
        name: Name, request: Request, seed: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0
    ) -> messages.InstanceReply:
        """A random start and goal, as the benchmark draws them."""
        loaded = await requests.load(name, request)
        return scene.random_instance(loaded, seed)


def _add_answers(app: FastAPI, requests: Requests) -> None:
    """Routes with a single response."""

    @app.post("/api/lengths", response_model=messages.LengthsReply, responses=_REFUSALS)
    async def lengths(body: messages.LengthsRequest, request: Request) -> messages.LengthsReply:
        """Predicted plan lengths of up to 256 pairs."""
        loaded = await requests.load(body.environment, request)
        token = requests.jobs.token(None, "lengths", 0)
        return await requests.jobs.run("quick", token, request.is_disconnected, partial(planning.lengths, loaded, body))

    @app.post("/api/plan", response_model=messages.PlannedReply, responses=_REFUSALS)
    async def plan(body: messages.PlanRequest, request: Request) -> messages.PlannedReply:
        """Predicted horizon and plan for one pair."""
        loaded, pair, token = await requests.prepare(body, "plan", request)

        def work() -> messages.PlannedReply:
            horizon = planning.horizon(loaded, body, pair)
            return messages.PlannedReply(horizon=horizon, plan=planning.plan(loaded, body, pair, horizon.length))

        return await requests.jobs.run("quick", token, request.is_disconnected, work)

    @app.post("/api/execute", response_model=messages.ExecutionReply, responses=_REFUSALS)
    async def execute(body: messages.ExecuteRequest, request: Request) -> messages.ExecutionReply:
        """Plan and execute for one pair, single-shot or with replanning."""
        loaded, pair, token = await requests.prepare(body, "execute", request)
        work = partial(executing.execute, loaded, body, pair, token)
        return await requests.jobs.run("slow", token, request.is_disconnected, work)

    @app.post("/api/field", response_model=messages.FieldReply, responses=_REFUSALS)
    async def distance_field(body: messages.FieldRequest, request: Request) -> messages.FieldReply:
        """Predicted steps from everywhere in a view to the goal."""
        loaded, pair, token = await requests.prepare(body, f"field {body.view}", request)
        work = partial(field.distance_field, loaded, body, pair)
        return await requests.jobs.run("quick", token, request.is_disconnected, work)


def _add_streams(app: FastAPI, requests: Requests) -> None:
    """Routes that stream results as they become available."""

    @app.post("/api/stream", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def stream(body: messages.StreamRequest, request: Request) -> StreamingResponse:
        """Events `horizon`, `plan` and, with a protocol, `execution`: each as soon as it is available."""
        loaded, pair, token = await requests.prepare(body, "stream", request)

        async def events() -> AsyncIterator[tuple[str, BaseModel]]:
            gone = request.is_disconnected
            horizon = await requests.jobs.run("quick", token, gone, partial(planning.horizon, loaded, body, pair))
            yield "horizon", horizon
            work = partial(planning.plan, loaded, body, pair, horizon.length)
            yield "plan", await requests.jobs.run("quick", token, gone, work)
            if body.protocol is not None:
                asked = messages.ExecuteRequest(**body.model_dump())
                execute = partial(executing.execute, loaded, asked, pair, token)
                yield "execution", await requests.jobs.run("slow", token, gone, execute)

        return _stream(events(), token)

    @app.post("/api/compare", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def compare(body: messages.ExecuteRequest, request: Request) -> StreamingResponse:
        """Events `method`: VHD, then FH-H1 to FH-H3, on the same pair; each as soon as it has been executed."""
        loaded, pair, token = await requests.prepare(body, "compare", request)

        async def events() -> AsyncIterator[tuple[str, BaseModel]]:
            replies: Iterator[messages.MethodReply] = executing.compare(loaded, body, pair, token)
            following: Callable[[], messages.MethodReply | None] = partial(next, replies, None)  # type: ignore[arg-type]
            while (reply := await requests.jobs.run("slow", token, request.is_disconnected, following)) is not None:
                yield "method", reply

        return _stream(events(), token)


def _stream(events: AsyncIterator[tuple[str, BaseModel]], token: Token) -> StreamingResponse:
    """Lines of JSON. Errors after the first line are lines too; work stops when the client disconnects."""

    async def lines() -> AsyncIterator[str]:
        try:
            async for event, value in events:
                yield f'{{"event":"{event}","value":{value.model_dump_json()}}}\n'
            yield '{"event":"done","value":{}}\n'
        except VhdError as error:
            yield json.dumps({"event": "error", "value": refusal_of(error)[1].model_dump()}) + "\n"
        finally:
            token.end()

    return StreamingResponse(lines(), media_type="application/x-ndjson")
