"""`vhd serve`: the web page, served from this machine."""

from __future__ import annotations

import json
import os
import signal
import warnings
import webbrowser
from dataclasses import dataclass
from functools import partial

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import err, out
from vhdiffuser.errors import Interrupted, VhdWarning, needs_extra
from vhdiffuser.weights.places import Source


@dataclass(frozen=True)
class Serve:
    """Open a web page where you move the goal and watch horizon, plan and execution change.

    It works offline and is reachable from this machine only, unless --host is given. Examples:

        vhd serve
        vhd serve --port 8800 --no-browser
        vhd serve --source trained
        vhd serve --env my_robot.py:make                with your own environment
        vhd serve --port 0 --no-browser --json          prints one line of JSON when ready
        vhd serve --workers 4                           for many users
        vhd serve --host 0.0.0.0 --no-browser           for your network; the printed address contains a token
    """

    port: int = 8765
    """Port to listen on; 0 chooses a free one."""
    host: str = "127.0.0.1"
    """Address to listen on. Any address except loopback exposes the page to your network, protected by the token."""
    token: Omittable[str] = None
    """Token that every request must present: 8 to 128 letters, digits, - and _ (default: the variable VHD_TOKEN; none
    on loopback, a random one on other addresses)."""
    workers: int = 0
    """Worker processes for plans, and as many for executions and other slow work; each loads its own models (default:
    one per core, up to 4)."""
    browser: bool = True
    """Whether to open the page in the browser."""
    source: Source = "shipped"
    """Models to use: shipped (or yours, if none are shipped), trained (by you), auto (trained if available), or a
    folder of weights."""
    json: bool = False
    """When ready, print one line of JSON: the URL, and the environments with models."""
    quiet: bool = False
    """Print only the URL."""

    def run(self) -> None:
        """Serve until Ctrl-C."""
        with needs_extra("web", "vhd serve"):
            import fastapi  # noqa: F401
            import uvicorn  # noqa: F401

        from vhdiffuser.web.library import Library
        from vhdiffuser.web.server import known_hosts, listen, own_token, serve, worker_count

        token = own_token(self.host, self.token or os.environ.get("VHD_TOKEN") or None)
        workers = worker_count(self.workers)
        os.environ["OMP_NUM_THREADS"] = "1"  # one plan is too small for two threads, and several requests plan at once
        with listen(self.host, self.port) as listening:
            library = Library.of_weights(self.source)
            ready = [name for name, missing in library.listing() if not missing.to_plan]
            if not ready and not self.quiet:
                err.print(
                    f"vhd: no environment has weights with --source {self.source}; the page shows how to train them."
                )
            warnings.simplefilter("ignore", VhdWarning)  # the page shows them
            port = listening.getsockname()[1]
            on_start = partial(self._announce, port, token, ready)
            try:
                serve(library, listening, known_hosts(self.host), token, workers, on_start)
            except KeyboardInterrupt as stop:
                raise Interrupted(getattr(stop, "signal", signal.SIGINT), "the server has stopped.") from stop

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
