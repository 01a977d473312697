"""Middleware: limits on body size and content type, access token, and security headers."""

from __future__ import annotations

import json
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

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
"""Sent with every response: the page loads nothing from other sites and cannot be embedded in them."""


COOKIE = "vhd-token"
"""Cookie with the token, set when a browser opens the address with `?token=`."""


class RequestLimits:
    """ASGI middleware. (Starlette's base class would buffer streamed responses.)"""

    def __init__(self, app: Any, limits: Limits, token: str | None = None) -> None:
        """If `token` is given, every request needs it: as a bearer token, as a cookie, or once in the page's
        address."""
        self._app, self._limits, self._token = app, limits, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Forward the request or refuse it."""
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
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if status == 303:
            cookie = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            headers += [(b"location", b"/"), (b"set-cookie", cookie.encode())]
        await send_with_headers({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Any) -> tuple[int, str, str] | None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        if self._token is not None and not self._is_known(headers):
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if scope["method"] == "GET" and scope["path"] == "/" and self._fits(given):
                return 303, "token", "the token is now stored in a cookie; continue to the page."
            return 401, "token", (
                "this server requires a token: open the address printed by `vhd serve`, or send the header "
                "'Authorization: Bearer TOKEN'."
            )  # fmt: skip
        if scope["method"] != "POST" or not (
            headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        ):
            return None
        # Forms on other sites can post plain text without a CORS preflight, but not JSON.
        if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != b"application/json":
            return 415, "content-type", "the body must be JSON: send the header 'content-type: application/json'."
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limits.body_bytes:
            return self._too_large()
        return None

    def _is_known(self, headers: dict[bytes, bytes]) -> bool:
        """Whether the headers contain the token."""
        scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() == "bearer" and self._fits(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._fits(cookie.value)

    def _fits(self, given: str) -> bool:
        """Constant-time comparison, so that timing reveals nothing about the token."""
        assert self._token is not None
        return secrets.compare_digest(given.encode(), self._token.encode())

    def _too_large(self) -> tuple[int, str, str]:
        return 413, "too-large", f"the request exceeds {self._limits.body_bytes} bytes. Send a smaller one."

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
