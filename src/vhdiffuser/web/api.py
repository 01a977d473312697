"""Routes and handlers of the JSON API.

Workers do the computing (`vhdiffuser.web.jobs`). Streaming routes send one JSON object per line, each with an `event`;
an invalid request gets an HTTP error status before the first line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from vhdiffuser.errors import VhdError
from vhdiffuser.web import replies, requests
from vhdiffuser.web.clients import Lane
from vhdiffuser.web.executing import COMPARED
from vhdiffuser.web.jobs import Jobs, Token, forget
from vhdiffuser.web.library import Library
from vhdiffuser.web.limits import Limits
from vhdiffuser.web.work import Work, refusal_of

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": replies.RefusalReply, "description": text}
    for status, text in (
        (404, "unknown environment, or one that is not ready"),
        (400, "body is not valid text, or the host name is not accepted"),
        (401, "token missing or wrong (if the server requires one)"),
        (409, "superseded by a newer request from the same page"),
        (413, "body too large"),
        (415, "body is not JSON"),
        (422, "malformed, out of bounds, or a point inside a wall"),
        (429, "this client has too many requests in progress; retry after Retry-After seconds"),
        (503, "server busy or request timed out; retry after Retry-After seconds"),
    )
}
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"description": "One JSON object per line, each with an `event`.", "content": {"application/x-ndjson": {}}}
}
Name = Annotated[str, Path(max_length=64)]


def add_api(app: FastAPI, library: Library, jobs: Jobs, limits: Limits) -> None:
    """Add all routes under `/api`."""
    service = Service(library, jobs, limits)
    _add_environments(app, service)
    _add_answers(app, service)
    _add_streams(app, service)


def refusal_reply(error: VhdError) -> replies.RefusalReply:
    """Body of the response to a refused request."""
    _, kind, reason, _ = refusal_of(error)
    return replies.RefusalReply(kind=kind, reason=reason)


@dataclass(frozen=True)
class Service:
    """State shared by all requests: job queue, environments and limits."""

    library: Library
    jobs: Jobs
    limits: Limits

    def token(self, request: Request, channel: str, body: requests.Numbered | None = None) -> Token:
        """Create the cancellation token of a request."""
        client, sequence = (None, 0) if body is None else (body.client, body.sequence)
        return self.jobs.token(request.client.host if request.client else "", client, channel, sequence)

    async def answer(self, lane: Lane, token: Token, request: Request, work: Work) -> Response:
        """Run one job and return its reply."""
        text = await self.jobs.run(lane, token, request.is_disconnected, work)
        return Response(text, media_type="application/json")


def _add_environments(app: FastAPI, service: Service) -> None:
    """Routes that list and describe environments."""

    @app.get("/api/environments", response_model=list[replies.EnvironmentEntry])
    async def environments() -> list[replies.EnvironmentEntry]:
        """List all environments, with the commands that install or train what is missing."""
        return [
            replies.EnvironmentEntry(name=name, ready=not missing.to_plan, commands=list(missing.to_plan))
            for name, missing in service.library.listing()
        ]

    @app.get("/api/environments/{name}", response_model=replies.SceneReply, responses=_REFUSALS)
    async def environment(name: Name, request: Request) -> Response:
        """Walls, views, limits and defaults of one environment. Loads the environment."""
        work = Work("scene", name)
        return await service.answer("quick", service.token(request, "scene"), request, work)

    @app.get("/api/environments/{name}/instance", response_model=replies.InstanceReply, responses=_REFUSALS)
    async def instance(name: Name, request: Request, seed: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0) -> Response:
        """A random start-goal pair from the benchmark's distribution."""
        work = Work("instance", name, argument=seed)
        return await service.answer("quick", service.token(request, "instance"), request, work)


def _add_answers(app: FastAPI, service: Service) -> None:
    """Routes with a single response."""

    @app.post("/api/lengths", response_model=replies.LengthsReply, responses=_REFUSALS)
    async def lengths(body: requests.LengthsRequest, request: Request) -> Response:
        """Predicted plan lengths for up to 256 start-goal pairs."""
        work = Work("lengths", body.environment, body)
        return await service.answer("quick", service.token(request, "lengths"), request, work)

    @app.post("/api/plan", response_model=replies.PlannedReply, responses=_REFUSALS)
    async def plan(body: requests.PlanRequest, request: Request) -> Response:
        """Predicted horizon and plan for one start-goal pair."""
        work = Work("planned", body.environment, body)
        return await service.answer("quick", service.token(request, "plan", body), request, work)

    @app.post("/api/candidates", response_model=replies.CandidatesReply, responses=_REFUSALS)
    async def candidates(body: requests.CandidatesRequest, request: Request) -> Response:
        """Up to 64 plans for one pair, each scored by the Length Predictor."""
        work = Work("candidates", body.environment, body)
        return await service.answer("slow", service.token(request, "candidates", body), request, work)

    @app.post("/api/execute", response_model=replies.ExecutionReply, responses=_REFUSALS)
    async def execute(body: requests.ExecuteRequest, request: Request) -> Response:
        """Plan and execute one pair, single-shot or with replanning."""
        work = Work("execute", body.environment, body)
        return await service.answer("slow", service.token(request, "execute", body), request, work)

    @app.post("/api/field", response_model=replies.FieldReply, responses=_REFUSALS)
    async def distance_field(body: requests.FieldRequest, request: Request) -> Response:
        """Predicted steps to the goal, on a grid over one view."""
        lane: Lane = "quick" if body.points <= service.limits.quick_points else "slow"
        work = Work("field", body.environment, body)
        return await service.answer(lane, service.token(request, f"field {body.view}", body), request, work)


def _add_streams(app: FastAPI, service: Service) -> None:
    """Routes that stream results as they arrive."""

    @app.post("/api/stream", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def stream(body: requests.StreamRequest, request: Request) -> StreamingResponse:
        """Stream the events `horizon`, `plan` and, if a protocol is given, `execution`, each as soon as it is ready."""
        token, env = service.token(request, "stream", body), body.environment
        run = partial(service.jobs.run, token=token, gone=request.is_disconnected)

        async def events() -> AsyncIterator[tuple[str, str]]:
            plan = asyncio.ensure_future(run("quick", work=Work("plan", env, body)))  # run both at once, on two workers
            plan.add_done_callback(forget)
            yield "horizon", await run("quick", work=Work("horizon", env, body))
            yield "plan", await plan
            if body.protocol is not None:
                asked = requests.ExecuteRequest(**body.model_dump())
                yield "execution", await run("slow", work=Work("execute", env, asked))

        return await _stream(events(), token)

    @app.post("/api/compare", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def compare(body: requests.ExecuteRequest, request: Request) -> StreamingResponse:
        """Stream one `method` event per method (VHD, then FH-H1 to FH-H3) on the same pair, each after its
        execution."""
        token = service.token(request, "compare", body)

        async def events() -> AsyncIterator[tuple[str, str]]:
            for name in COMPARED:
                work = Work("method", body.environment, body, name)
                yield "method", await service.jobs.run("slow", token, request.is_disconnected, work)

        return await _stream(events(), token)

    @app.post("/api/trials", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def trials(body: requests.TrialsRequest, request: Request) -> StreamingResponse:
        """Stream one `trial` event per executed random pair, all with the same method.

        Pairs that do not fit into the request's time limit are left out; request them again, starting at the first
        missing pair.
        """
        token = service.token(request, f"trials {body.method}", body)

        async def events() -> AsyncIterator[tuple[str, str]]:
            for number in range(body.first, body.first + body.count):
                work = Work("trial", body.environment, body, number)
                yield "trial", await service.jobs.run("slow", token, request.is_disconnected, work)

        return await _stream(events(), token)


async def _stream(events: AsyncIterator[tuple[str, str]], token: Token) -> StreamingResponse:
    """Stream events as JSON lines. A failure of the first event sets the HTTP status; a later failure becomes an
    `error` line. Work stops when the client disconnects."""
    first = await anext(events)

    async def lines() -> AsyncIterator[str]:
        try:
            yield _line(*first)
            async for event, value in events:
                yield _line(event, value)
            yield _line("done", "{}")
        except VhdError as error:
            yield _line("error", refusal_reply(error).model_dump_json())
        finally:
            token.end()

    return StreamingResponse(lines(), media_type="application/x-ndjson")


def _line(event: str, value: str) -> str:
    return f'{{"event":"{event}","value":{value}}}\n'
