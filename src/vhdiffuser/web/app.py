"""The web application: the JSON API (`vhdiffuser.web.api`) and the page that uses it."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from vhdiffuser.errors import VhdError
from vhdiffuser.web.api import add_api
from vhdiffuser.web.clients import Lane
from vhdiffuser.web.jobs import Jobs
from vhdiffuser.web.library import Library
from vhdiffuser.web.limits import Limits
from vhdiffuser.web.middleware import RequestLimits
from vhdiffuser.web.work import refusal_of
from vhdiffuser.web.workers import ThreadWorkers, Workers

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Host names accepted by default. Any other name that resolves to this machine may be a DNS-rebinding attack."""


def create_app(
    library: Library,
    limits: Limits | None = None,
    hosts: tuple[str, ...] = LOOPBACK,
    token: str | None = None,
    workers: dict[Lane, Workers] | None = None,
) -> FastAPI:
    """Build the application.

    `hosts` are the accepted host names (`*` accepts all). If `token` is given, every request must present it. `workers`
    run the jobs of each lane (default: two threads per lane).
    """
    limits = limits or Limits()
    jobs = Jobs(limits, workers or {"quick": ThreadWorkers(library, 2), "slow": ThreadWorkers(library, 2)})

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        jobs.close()

    app = FastAPI(
        title="VH-Diffuser",
        summary="Trajectory planning with a learned horizon.",
        version="1",
        docs_url=None,  # FastAPI's docs pages load scripts from another host
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_middleware(RequestLimits, limits=limits, token=token)
    _add_refusals(app)
    add_api(app, library, jobs, limits)
    _add_page(app)
    return app


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(VhdError)
    async def refuse(_: Request, error: VhdError) -> JSONResponse:
        status, kind, reason, pause = refusal_of(error)
        headers = None if pause is None else {"retry-after": str(pause)}
        return JSONResponse({"kind": kind, "reason": reason}, status, headers)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
        return JSONResponse({"kind": "malformed", "reason": f"{where}: {first['msg']}."}, 422)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"kind": "http", "reason": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"kind": "failed", "reason": "internal error; see the server's terminal."}, 500)


def _add_page(app: FastAPI) -> None:
    """Serve the page's own files, read once at startup. No other file on this machine is reachable."""
    folder = files("vhdiffuser.web") / "static"
    assets = {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}

    @app.get("/", include_in_schema=False)
    @app.get("/{name}", include_in_schema=False)
    async def asset(name: str = "index.html") -> Response:
        if name not in assets:
            raise HTTPException(404, "page not found.")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        # Do not rely on the system's MIME table, which may map .js to text/plain.
        kind = {"js": "text/javascript", "svg": "image/svg+xml"}.get(name.rsplit(".", 1)[-1], kind)
        return Response(assets[name], media_type=kind)
