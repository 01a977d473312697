"""Middleware: limits on body size and content type, and security headers."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException

from vhdiffuser.web.limits import Limits

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Sent with every response: nothing is loaded from, or embedded in, any other site."""


class RequestLimits:
    """ASGI middleware. (Starlette's base class would buffer streamed responses.)"""

    def __init__(self, app: Any, limits: Limits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in given]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, self._bounded(receive), send_with_headers)
            return
        status, kind, reason = refusal
        body = json.dumps({"kind": kind, "reason": reason}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send_with_headers({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Any) -> tuple[int, str, str] | None:
        if scope["method"] != "POST":
            return None
        headers = {name.lower(): value for name, value in scope["headers"]}
        # A form on another site can post plain text without a CORS preflight, but not JSON.
        if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != b"application/json":
            return 415, "content-type", "requests are JSON: send the header 'content-type: application/json'."
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limits.body_bytes:
            return self._too_large()
        return None

    def _too_large(self) -> tuple[int, str, str]:
        return 413, "too-large", f"the request is larger than {self._limits.body_bytes} bytes. Ask for less at once."

    def _bounded(self, receive: Any) -> Any:
        read = 0

        async def bounded() -> Any:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limits.body_bytes:
                status, _, reason = self._too_large()
                raise HTTPException(status, reason)
            return message

        return bounded
