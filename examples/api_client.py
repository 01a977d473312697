"""Request a horizon, a plan and an execution from a running `vhd serve`. Needs only Python.

vhd serve --no-browser &
python examples/api_client.py                          # http://127.0.0.1:8765
python examples/api_client.py http://127.0.0.1:8800
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

SERVER = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:8765"


def ask(path: str, body: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Every line of the answer: one for plain routes, several for streams."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{SERVER}/api/{path}", data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            for line in answer:
                yield json.loads(line)
    except urllib.error.HTTPError as error:  # a 4xx gives the reason
        raise SystemExit(f"{error.code}: {json.load(error)['reason']}") from None
    except urllib.error.URLError as error:
        raise SystemExit(f"no server at {SERVER} ({error.reason}). Start one with `vhd serve`.") from None


(environments,) = ask("environments")
ready = [entry["name"] for entry in environments if entry["ready"]]
if not ready:
    raise SystemExit(f"no environment has weights; make them with {environments[0]['commands']}")
(scene,) = ask(f"environments/{ready[0]}")
pair = {"environment": scene["environment"], "start": scene["start"], "goal": scene["goal"]}
print(f"{pair['environment']}: from {pair['start']} to {pair['goal']}")

for message in ask("stream", {**pair, "protocol": "rp"} if scene["executes"] else pair):
    event, value = message["event"], message["value"]
    if event == "horizon":
        print(f"horizon    {value['length']} states ({value['low']} to {value['high']} nearby)")
    elif event == "plan":
        print(
            f"plan       {len(value['states'])} states of {', '.join(value['state_names'])} in {value['seconds']:.3f} s"
        )
    elif event == "execution":
        outcome = "reached" if value["success"] else "missed"
        print(f"execution  goal {outcome} after {value['steps']} steps and {len(value['plans']) - 1} replans")
    elif event == "error":
        raise SystemExit(value["reason"])
