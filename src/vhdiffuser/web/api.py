"""The JSON API: its routes and their handlers.

Work is done by workers (`vhdiffuser.web.jobs`). Streams are lines of JSON, each with an `event`; an invalid
request is refused with a status before the first line.
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
        (400, "the body is no text, or the host name is not this server's"),
        (401, "the token is missing or wrong, where the server wants one"),
        (409, "superseded by a newer request of the same page"),
        (413, "the body is too large"),
        (415, "the body is not JSON"),
        (422, "malformed, out of bounds, or a point in a wall"),
        (429, "this client's share of requests is under way; ask again after Retry-After seconds"),
        (503, "too busy, or took too long; ask again after Retry-After seconds"),
    )
}
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"description": "Lines of JSON, each with an `event`.", "content": {"application/x-ndjson": {}}}
}
Name = Annotated[str, Path(max_length=64)]


def add_api(app: FastAPI, library: Library, jobs: Jobs, limits: Limits) -> None:
    """Add all routes under `/api`."""
    service = Service(library, jobs, limits)
    _add_environments(app, service)
    _add_answers(app, service)
    _add_streams(app, service)


def refusal_reply(error: VhdError) -> replies.RefusalReply:
    """What a refused client is told."""
    _, kind, reason, _ = refusal_of(error)
    return replies.RefusalReply(kind=kind, reason=reason)


@dataclass(frozen=True)
class Service:
    """What requests share: the queue, and the library that lists what there is."""

    library: Library
    jobs: Jobs
    limits: Limits

    def token(self, request: Request, channel: str, body: requests.Numbered | None = None) -> Token:
        """The token of a request."""
        client, sequence = (None, 0) if body is None else (body.client, body.sequence)
        return self.jobs.token(request.client.host if request.client else "", client, channel, sequence)

    async def answer(self, lane: Lane, token: Token, request: Request, work: Work) -> Response:
        """The reply to one piece of work."""
        text = await self.jobs.run(lane, token, request.is_disconnected, work)
        return Response(text, media_type="application/json")


def _add_environments(app: FastAPI, service: Service) -> None:
    """Routes that list and describe environments."""

    @app.get("/api/environments", response_model=list[replies.EnvironmentEntry])
    async def environments() -> list[replies.EnvironmentEntry]:
        """All environments; for those that lack weights or a simulator, the commands that get them."""
        return [
            replies.EnvironmentEntry(name=name, ready=not missing.to_plan, commands=list(missing.to_plan))
            for name, missing in service.library.listing()
        ]

    @app.get("/api/environments/{name}", response_model=replies.SceneReply, responses=_REFUSALS)
    async def environment(name: Name, request: Request) -> Response:
        """Walls, views, limits and defaults of one environment. Loads it."""
        work = Work("scene", name)
        return await service.answer("quick", service.token(request, "scene"), request, work)

    @app.get("/api/environments/{name}/instance", response_model=replies.InstanceReply, responses=_REFUSALS)
    async def instance(name: Name, request: Request, seed: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0) -> Response:
        """A random start and goal, as the benchmark draws them."""
        work = Work("instance", name, argument=seed)
        return await service.answer("quick", service.token(request, "instance"), request, work)


def _add_answers(app: FastAPI, service: Service) -> None:
    """Routes with a single response."""

    @app.post("/api/lengths", response_model=replies.LengthsReply, responses=_REFUSALS)
    async def lengths(body: requests.LengthsRequest, request: Request) -> Response:
        """Predicted plan lengths of up to 256 pairs."""
        work = Work("lengths", body.environment, body)
        return await service.answer("quick", service.token(request, "lengths"), request, work)

    @app.post("/api/plan", response_model=replies.PlannedReply, responses=_REFUSALS)
    async def plan(body: requests.PlanRequest, request: Request) -> Response:
        """Predicted horizon and plan for one pair."""
        work = Work("planned", body.environment, body)
        return await service.answer("quick", service.token(request, "plan", body), request, work)

    @app.post("/api/candidates", response_model=replies.CandidatesReply, responses=_REFUSALS)
    async def candidates(body: requests.CandidatesRequest, request: Request) -> Response:
        """Up to 64 plans for one pair, each with the Length Predictor's score."""
        work = Work("candidates", body.environment, body)
        return await service.answer("slow", service.token(request, "candidates", body), request, work)

    @app.post("/api/execute", response_model=replies.ExecutionReply, responses=_REFUSALS)
    async def execute(body: requests.ExecuteRequest, request: Request) -> Response:
        """Plan and execute for one pair, single-shot or with replanning."""
        work = Work("execute", body.environment, body)
        return await service.answer("slow", service.token(request, "execute", body), request, work)

    @app.post("/api/field", response_model=replies.FieldReply, responses=_REFUSALS)
    async def distance_field(body: requests.FieldRequest, request: Request) -> Response:
        """Predicted steps from everywhere in a view to the goal."""
        lane: Lane = "quick" if body.points <= service.limits.quick_points else "slow"
        work = Work("field", body.environment, body)
        return await service.answer(lane, service.token(request, f"field {body.view}", body), request, work)


def _add_streams(app: FastAPI, service: Service) -> None:
    """Routes that stream results as they become available."""

    @app.post("/api/stream", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def stream(body: requests.StreamRequest, request: Request) -> StreamingResponse:
        """Events `horizon`, `plan` and, with a protocol, `execution`: each as soon as it is available."""
        token, env = service.token(request, "stream", body), body.environment
        run = partial(service.jobs.run, token=token, gone=request.is_disconnected)

        async def events() -> AsyncIterator[tuple[str, str]]:
            plan = asyncio.ensure_future(run("quick", work=Work("plan", env, body)))  # both at once, on two workers
            plan.add_done_callback(forget)
            yield "horizon", await run("quick", work=Work("horizon", env, body))
            yield "plan", await plan
            if body.protocol is not None:
                asked = requests.ExecuteRequest(**body.model_dump())
                yield "execution", await run("slow", work=Work("execute", env, asked))

        return await _stream(events(), token)

    @app.post("/api/compare", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def compare(body: requests.ExecuteRequest, request: Request) -> StreamingResponse:
        """Events `method`: VHD, then FH-H1 to FH-H3, on the same pair; each as soon as it has been executed."""
        token = service.token(request, "compare", body)

        async def events() -> AsyncIterator[tuple[str, str]]:
            for name in COMPARED:
                work = Work("method", body.environment, body, name)
                yield "method", await service.jobs.run("slow", token, request.is_disconnected, work)

        return await _stream(events(), token)

    @app.post("/api/trials", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def trials(body: requests.TrialsRequest, request: Request) -> StreamingResponse:
        """Events `trial`: executions of random pairs by one method, each as soon as it has ended.

        What does not fit into the time of a request is left out: ask again from the first pair that is missing.
        """
        token = service.token(request, f"trials {body.method}", body)

        async def events() -> AsyncIterator[tuple[str, str]]:
            for number in range(body.first, body.first + body.count):
                work = Work("trial", body.environment, body, number)
                yield "trial", await service.jobs.run("slow", token, request.is_disconnected, work)

        return await _stream(events(), token)


async def _stream(events: AsyncIterator[tuple[str, str]], token: Token) -> StreamingResponse:
    """Lines of JSON. The first event decides the status; errors after it are lines too, and work stops when the client
    disconnects."""
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
