"""The server: a small JSON API around a planner, and the page that uses it.

Every answer that takes work is worked at off the event loop (`vhdiffuser.web.jobs`). Streams are lines of JSON,
each with an `event`; a request that is wrong is refused with a status before the first line.
"""

from __future__ import annotations

import json
import logging
import mimetypes
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.types import Instance
from vhdiffuser.web import executing, field, messages, planning, scene
from vhdiffuser.web.jobs import Jobs, Token
from vhdiffuser.web.library import Library, Loaded
from vhdiffuser.web.limits import Limits, Refusal
from vhdiffuser.web.middleware import RequestLimits

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names under which the page may be asked for: a foreign name that points here is another site's trick."""

_log = logging.getLogger(__name__)
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.RefusalReply, "description": text}
    for status, text in (
        (404, "unknown environment, or one that is not ready"),
        (409, "replaced by a newer request of the same page"),
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


def create_app(library: Library, limits: Limits | None = None, hosts: tuple[str, ...] = LOOPBACK) -> FastAPI:
    """The application. `hosts` are the names it answers to; `*` for all."""
    limits = limits or Limits()
    jobs = Jobs(limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        jobs.close()

    app = FastAPI(
        title="VH-Diffuser",
        summary="Plans whose horizon is learned.",
        version="1",
        docs_url=None,  # FastAPI's own pages load scripts from another host
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_middleware(RequestLimits, limits=limits)
    _add_refusals(app)
    _add_api(app, library, jobs)
    _add_page(app)
    return app


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(VhdError)
    async def refuse(_: Request, error: VhdError) -> JSONResponse:
        status, reply = refusal_of(error)
        return JSONResponse(reply.model_dump(), status)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
        return JSONResponse({"kind": "malformed", "reason": f"{where}: {first['msg']}."}, 422)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"kind": "http", "reason": str(error.detail)}, error.status_code)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"kind": "failed", "reason": "the server failed; its terminal says why."}, 500)


def refusal_of(error: VhdError) -> tuple[int, messages.RefusalReply]:
    """Status and reason. What a damaged model file says names paths of this machine, so it goes to the log only."""
    if isinstance(error, Refusal):
        return error.status, messages.RefusalReply(kind=error.kind, reason=str(error))
    if isinstance(error, UnknownNameError):
        return 404, messages.RefusalReply(kind="unknown", reason=str(error))
    if isinstance(error, DataError):
        _log.error("%s", error)
        reason = "the weights of this environment cannot be read; the server's terminal says why."
        return 500, messages.RefusalReply(kind="failed", reason=reason)
    return 422, messages.RefusalReply(kind="refused", reason=str(error))


def _add_api(app: FastAPI, library: Library, jobs: Jobs) -> None:
    async def load(name: str, request: Request) -> Loaded:
        """The environment. Loading has a token of its own: its time is not taken from the work that follows."""
        if (at_hand := library.at_hand(name)) is not None:
            return at_hand
        token = jobs.token(None, "load", 0)
        return await jobs.run("slow", token, request.is_disconnected, partial(library.get, name))

    async def prepare(
        body: messages.PlanRequest | messages.FieldRequest, channel: str, request: Request
    ) -> tuple[Loaded, Instance, Token]:
        """Everything that can be wrong with a request is found here, before the answer begins."""
        loaded = await load(body.environment, request)
        token = jobs.token(body.client, channel, body.sequence)
        if isinstance(body, messages.PlanRequest):
            planning.planner_of(loaded, body)
        seed = body.seed if isinstance(body, messages.PlanRequest) else 0
        return loaded, scene.checked_instance(loaded, body.start, body.goal, seed), token

    @app.get("/api/environments", response_model=list[messages.EnvironmentEntry])
    async def environments() -> list[messages.EnvironmentEntry]:
        """All environments; those that lack weights or simulator come with the commands that get them."""
        return [
            messages.EnvironmentEntry(name=name, ready=not missing.to_plan, commands=list(missing.to_plan))
            for name, missing in library.listing()
        ]

    @app.get("/api/environments/{name}", response_model=messages.SceneReply, responses=_REFUSALS)
    async def environment(name: Name, request: Request) -> messages.SceneReply:
        """Walls, views, limits and defaults of one environment. Loads it."""
        loaded = await load(name, request)
        token = jobs.token(None, "scene", 0)
        commands = dict(library.listing())[name].to_execute
        return await jobs.run("quick", token, request.is_disconnected, partial(scene.describe, loaded, commands))

    @app.get("/api/environments/{name}/instance", response_model=messages.InstanceReply, responses=_REFUSALS)
    async def instance(
        name: Name, request: Request, seed: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0
    ) -> messages.InstanceReply:
        """A random start and goal, as the benchmark draws them."""
        loaded = await load(name, request)
        return scene.random_instance(loaded, seed)

    @app.post("/api/lengths", response_model=messages.LengthsReply, responses=_REFUSALS)
    async def lengths(body: messages.LengthsRequest, request: Request) -> messages.LengthsReply:
        """Predicted plan lengths of up to 256 pairs."""
        loaded = await load(body.environment, request)
        token = jobs.token(None, "lengths", 0)
        return await jobs.run("quick", token, request.is_disconnected, partial(planning.lengths, loaded, body))

    @app.post("/api/plan", response_model=messages.PlannedReply, responses=_REFUSALS)
    async def plan(body: messages.PlanRequest, request: Request) -> messages.PlannedReply:
        """Predicted horizon and plan of one pair."""
        loaded, pair, token = await prepare(body, "plan", request)

        def work() -> messages.PlannedReply:
            horizon = planning.horizon(loaded, body, pair)
            return messages.PlannedReply(horizon=horizon, plan=planning.plan(loaded, body, pair, horizon.length))

        return await jobs.run("quick", token, request.is_disconnected, work)

    @app.post("/api/execute", response_model=messages.ExecutionReply, responses=_REFUSALS)
    async def execute(body: messages.ExecuteRequest, request: Request) -> messages.ExecutionReply:
        """Plan and execute one pair, single-shot or with replanning."""
        loaded, pair, token = await prepare(body, "execute", request)
        work = partial(executing.execute, loaded, body, pair, token)
        return await jobs.run("slow", token, request.is_disconnected, work)

    @app.post("/api/field", response_model=messages.FieldReply, responses=_REFUSALS)
    async def distance_field(body: messages.FieldRequest, request: Request) -> messages.FieldReply:
        """Predicted steps from everywhere in a view to the goal."""
        loaded, pair, token = await prepare(body, f"field {body.view}", request)
        work = partial(field.distance_field, loaded, body, pair)
        return await jobs.run("quick", token, request.is_disconnected, work)

    @app.post("/api/stream", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def stream(body: messages.StreamRequest, request: Request) -> StreamingResponse:
        """Events `horizon`, `plan` and, with a protocol, `execution`: each as soon as it is known."""
        loaded, pair, token = await prepare(body, "stream", request)

        async def events() -> AsyncIterator[tuple[str, BaseModel]]:
            gone = request.is_disconnected
            horizon = await jobs.run("quick", token, gone, partial(planning.horizon, loaded, body, pair))
            yield "horizon", horizon
            work = partial(planning.plan, loaded, body, pair, horizon.length)
            yield "plan", await jobs.run("quick", token, gone, work)
            if body.protocol is not None:
                asked = messages.ExecuteRequest(**body.model_dump())
                yield (
                    "execution",
                    await jobs.run("slow", token, gone, partial(executing.execute, loaded, asked, pair, token)),
                )

        return _stream(events(), token)

    @app.post("/api/compare", response_class=StreamingResponse, responses={**_REFUSALS, **_LINES})
    async def compare(body: messages.ExecuteRequest, request: Request) -> StreamingResponse:
        """Events `method`: VHD, then FH-H1 to FH-H3, on the same pair; each as soon as it has been executed."""
        loaded, pair, token = await prepare(body, "compare", request)

        async def events() -> AsyncIterator[tuple[str, BaseModel]]:
            replies: Iterator[messages.MethodReply] = executing.compare(loaded, body, pair, token)
            following: Callable[[], messages.MethodReply | None] = partial(next, replies, None)  # type: ignore[arg-type]
            while (reply := await jobs.run("slow", token, request.is_disconnected, following)) is not None:
                yield "method", reply

        return _stream(events(), token)


def _stream(events: AsyncIterator[tuple[str, BaseModel]], token: Token) -> StreamingResponse:
    """Lines of JSON. What goes wrong after the first line is a line too; when nobody reads, the work ends."""

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


def _add_page(app: FastAPI) -> None:
    """The page's own files, read once: nothing else of this machine has an address."""
    folder = files("vhdiffuser.web") / "static"
    assets = {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}

    @app.get("/", include_in_schema=False)
    @app.get("/{name}", include_in_schema=False)
    async def asset(name: str = "index.html") -> Response:
        if name not in assets:
            raise HTTPException(404, "there is no such page.")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        # Not left to the system's table of types, which may call a script plain text.
        kind = {"js": "text/javascript", "svg": "image/svg+xml"}.get(name.rsplit(".", 1)[-1], kind)
        return Response(assets[name], media_type=kind)
