"""`vhd serve`: the web page, served on this machine."""

from __future__ import annotations

import json
import os
import re
import secrets
import warnings
import webbrowser
from dataclasses import dataclass

from vhdiffuser.console import err, out
from vhdiffuser.errors import VhdError, VhdWarning, needs_extra
from vhdiffuser.weights.places import Source

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MOST_WORKERS = 4
"""Workers by default."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{8,128}")


@dataclass(frozen=True)
class Serve:
    """Open a web page where you move the goal and watch horizon, plan and execution change.

    It works offline and is reachable from this machine only, unless --host is given. Examples:

        vhd serve
        vhd serve --port 8800 --no-browser
        vhd serve --source trained
        vhd serve --port 0 --no-browser --json          prints one line of JSON once it listens
        vhd serve --workers 4                           for many users
        vhd serve --host 0.0.0.0 --no-browser           for your network; the address printed has a token in it
    """

    port: int = 8765
    """Port to listen on; 0 takes a free one."""
    host: str = "127.0.0.1"
    """Address to listen on; any but loopback exposes the page to your network, to those who have the token."""
    token: str | None = None
    """Token that every request must know: 8 to 128 letters, digits, - and _ (default: the variable VHD_TOKEN; none on
    loopback, a random one on other addresses)."""
    workers: int = 0
    """Processes that plan, and as many that execute and do other slow work; each loads its own models (default: one per
    core, up to 4)."""
    browser: bool = True
    """Whether to open the page in the browser."""
    source: Source = "shipped"
    """Models to use: shipped (where none ship, those you trained), trained (by you), auto (trained if available), or a
    folder of weights."""
    json: bool = False
    """Once it listens, print one line of JSON: the URL, and the environments with models."""
    quiet: bool = False
    """Print nothing but the URL."""

    def run(self) -> None:
        """Serve until Ctrl-C."""
        if not 0 <= self.port <= 65535:
            raise VhdError(f"--port must lie in 0..65535, got {self.port}.")
        if self.workers < 0:
            raise VhdError(f"--workers must be 1 or more, or 0 for one per core, got {self.workers}.")
        token = self._token()
        with needs_extra("web", "vhd serve"):
            import fastapi  # noqa: F401
            import uvicorn  # noqa: F401

        from vhdiffuser.web.app import LOOPBACK
        from vhdiffuser.web.library import Library
        from vhdiffuser.web.server import listen, serve
        from vhdiffuser.workers import available_cores

        os.environ["OMP_NUM_THREADS"] = "1"  # one plan is too small for two threads, and several requests plan at once
        library = Library.of_weights(self.source)
        ready = [name for name, missing in library.listing() if not missing.to_plan]
        if not ready and not self.quiet:
            err.print(f"vhd: no environment has weights with --source {self.source}; the page says how to train them.")
        # Beyond loopback any name may lead here, and the token says who may ask.
        hosts = (*LOOPBACK, self.host) if self.host in _LOOPBACK else ("*",)
        warnings.simplefilter("ignore", VhdWarning)  # the page shows them
        workers = self.workers or min(available_cores(), _MOST_WORKERS)
        with listen(self.host, self.port) as listening:
            port = listening.getsockname()[1]
            serve(library, listening, hosts, token, workers, lambda: self._announce(port, token, ready))

    def _token(self) -> str | None:
        given = self.token or os.environ.get("VHD_TOKEN") or None
        if given is None:
            return None if self.host in _LOOPBACK else secrets.token_urlsafe(18)
        if not _TOKEN.fullmatch(given):
            raise VhdError("a token has 8 to 128 letters, digits, dashes and underscores.")
        return given

    def _announce(self, port: int, token: str | None, ready: list[str]) -> None:
        """Print the URL, and open the browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        address = f"http://{host}:{port}/"
        page = address if token is None else f"{address}?token={token}"
        if self.json:
            known = {} if token is None else {"token": token}
            print(json.dumps({"address": address, "models": ready, **known}), flush=True)
        else:
            out.print(page if self.quiet else f"VH-Diffuser is at {page}   (Ctrl-C to stop)")
        if self.browser:
            webbrowser.open(page)
