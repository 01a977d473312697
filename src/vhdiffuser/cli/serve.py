"""`vhd serve`: the web page, served on this machine."""

from __future__ import annotations

import json
import threading
import time
import warnings
import webbrowser
from dataclasses import dataclass

from vhdiffuser.console import err, out
from vhdiffuser.errors import VhdError, VhdWarning, needs_extra
from vhdiffuser.weights.places import Source

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Serve:
    """Open a web page on which you move the goal and watch the horizon, the plan and the execution follow.

    It works offline and is reachable from this machine only, unless --host is given. Examples:

        vhd serve
        vhd serve --port 8800 --no-browser
        vhd serve --source trained
        vhd serve --port 0 --no-browser --json          prints one line of JSON once it listens
    """

    port: int = 8765
    """Port to listen on; 0 takes a free one."""
    host: str = "127.0.0.1"
    """Address to listen on; any but loopback exposes the page to your network."""
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
        with needs_extra("web", "vhd serve"):
            import fastapi  # noqa: F401
            import uvicorn
        import torch

        from vhdiffuser.web.app import LOOPBACK, create_app
        from vhdiffuser.web.library import Library

        warnings.simplefilter("ignore", VhdWarning)  # the page shows them
        # One plan is too small for two threads, and several requests plan at once.
        torch.set_num_threads(1)
        library = Library.of_weights(self.source)
        ready = [name for name, missing in library.listing() if not missing.to_plan]
        if not ready and not self.quiet:
            err.print(f"vhd: no environment has weights with --source {self.source}; the page says how to train them.")
        local = self.host in _LOOPBACK
        config = uvicorn.Config(
            create_app(library, hosts=(*LOOPBACK, self.host) if local else ("*",)),
            host=self.host,
            port=self.port,
            # uvicorn's logging set-up closes all handlers, and absl's (MuJoCo's tools) then closes stderr.
            log_config=None,
            log_level="warning",
            limit_concurrency=64,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        threading.Thread(target=self._announce, args=(server, ready), daemon=True).start()
        try:
            server.run()
        except SystemExit as stop:  # uvicorn exits if the port is taken, after logging why
            raise VhdError(f"could not listen on {self.host}:{self.port}. Choose another --port.") from stop

    def _announce(self, server: object, ready: list[str]) -> None:
        """Print the URL once the port is open, and open the browser."""
        while not getattr(server, "started", False):
            if getattr(server, "should_exit", False):
                return
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        host = f"[{self.host}]" if ":" in self.host else self.host
        address = f"http://{host}:{port}/"
        if self.json:
            print(json.dumps({"address": address, "models": ready}), flush=True)
        else:
            out.print(address if self.quiet else f"VH-Diffuser is at {address}   (Ctrl-C to stop)")
        if self.browser:
            webbrowser.open(address)
