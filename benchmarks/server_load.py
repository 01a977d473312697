"""`vhd serve` under load: many greedy clients, some bad ones, and one ordinary user who drops a goal every second.

The server and all clients are on loopback addresses of this machine (127.0.x.y, so that each client is a peer of its
own), and number and time are bounded. Prints one JSON object: answers by status, what went unanswered, the ordinary
user's waits before, during and after the load, and the server's memory.

    python benchmarks/server_load.py --clients 200 --seconds 60
    python benchmarks/server_load.py --clients 200 --seconds 60 --workers 2
    python benchmarks/server_load.py --one-address            all clients behind one address, as behind a proxy
    python benchmarks/server_load.py --patient                clients that wait as long as Retry-After says
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_CLIENTS, MOST_SECONDS = 500, 300
PATIENCE = 65.0
"""Seconds after which a request counts as unanswered: the server gives up after 60 itself."""
MIX = {"drop": 20, "plan": 20, "lengths": 10, "field": 10, "instance": 10, "scene": 5, "page": 5, "execute": 10,
       "compare": 5, "ddpm-256": 5}  # fmt: skip
"""What greedy clients ask for: shares in percent."""
ENVIRONMENTS = ("maze2d-large", "maze2d-umaze")


class Unanswered(Exception):
    """The connection broke or nothing came in time."""


class Connection:
    """One HTTP/1.1 connection with as little work as possible: load and server share the machine."""

    def __init__(self, port: int, source: str) -> None:
        self.port, self.source = port, source
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.reader is None or self.writer is None or self.writer.is_closing() or self.reader.at_eof():
            self.reader, self.writer = await asyncio.open_connection(
                "127.0.0.1", self.port, local_addr=(self.source, 0)
            )
        return self.reader, self.writer

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, str]]:
        """Status and headers; the body is left to `lines` or `rest`."""
        reader, writer = await self.open()
        writer.write(head(path, body))
        status = int((await reader.readline()).split()[1])
        self.headers: dict[str, str] = {}
        while (line := (await reader.readline()).strip()) != b"":
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        return status, self.headers

    async def rest(self) -> bytes:
        """The whole body."""
        assert self.reader is not None
        if "content-length" in self.headers:
            return await self.reader.readexactly(int(self.headers["content-length"]))
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a streamed body: one for each event."""
        assert self.reader is not None
        while size := int((await self.reader.readline()).strip() or b"0", 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()


def head(path: str, body: dict[str, Any] | None) -> bytes:
    """A request."""
    text = b"" if body is None else json.dumps(body).encode()
    kind = f"content-type: application/json\r\ncontent-length: {len(text)}\r\n" if body is not None else ""
    return f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{kind}\r\n".encode() + text


class Load:
    """The clients, and what became of their requests."""

    def __init__(self, port: int, options: argparse.Namespace, pairs: dict[str, list[dict[str, Any]]]) -> None:
        self.port, self.options, self.pairs = port, options, pairs
        self.answers: Counter[str] = Counter()
        self.by_kind: Counter[str] = Counter()
        self.refused_without_pause = 0
        self.longest = 0.0
        self.waits: dict[str, list[float]] = {"before": [], "during": [], "after": []}
        self.refused: Counter[str] = Counter()
        self.phase = "before"

    def source(self, number: int) -> str:
        return "127.0.0.1" if self.options.one_address else f"127.0.{1 + number // 200}.{1 + number % 200}"

    def request(self, rng: random.Random, client: str, sequence: int) -> tuple[str, str, dict[str, Any] | None]:
        """Kind, path and body."""
        kind = rng.choices(list(MIX), list(MIX.values()))[0]
        env = rng.choice(ENVIRONMENTS)
        pair = rng.choice(self.pairs[env])
        own = {**pair, "client": client, "sequence": sequence}
        return kind, *{
            "drop": ("/api/stream", own),
            "plan": ("/api/plan", own),
            "lengths": ("/api/lengths", {"environment": env, "pairs": [ends(pair)] * 64}),
            "field": ("/api/field", {**own, "points": 96}),
            "instance": (f"/api/environments/{env}/instance?seed={rng.randrange(1000)}", None),
            "scene": (f"/api/environments/{env}", None),
            "page": ("/", None),
            "execute": ("/api/execute", {**own, "protocol": "rp"}),
            "compare": ("/api/compare", own),
            "ddpm-256": ("/api/plan", {**own, "sampler": "ddpm", "steps": 256}),
        }[kind]

    async def greedy(self, number: int, until: float) -> None:
        """Ask for one thing after the other."""
        rng, connection, sequence = random.Random(number), Connection(self.port, self.source(number)), 0
        await asyncio.sleep(rng.random())
        while time.monotonic() < until:
            sequence += 1
            kind, path, body = self.request(rng, f"client-{number}", sequence)
            begun, pause = time.monotonic(), rng.uniform(0.2, 1.0)
            try:
                async with asyncio.timeout(PATIENCE):
                    status, headers = await connection.ask(path, body)
                    await connection.rest()
                self.answers[str(status)] += 1
                self.by_kind[f"{kind} {'served' if status == 200 else 'refused'}"] += 1
                if status in (429, 503):
                    told = headers.get("retry-after")
                    self.refused_without_pause += told is None
                    pause = float(told or 1) if self.options.patient else 1.0
            except (TimeoutError, OSError, asyncio.IncompleteReadError, IndexError, ValueError) as error:
                if time.monotonic() < until:  # the end of the load is not the server's fault
                    self.answers[f"none: {type(error).__name__}"] += 1
                connection.close()
            self.longest = max(self.longest, time.monotonic() - begun)
            await asyncio.sleep(min(pause, max(until - time.monotonic(), 0)))
        connection.close()

    async def silent(self, number: int, until: float) -> None:
        """Hold a connection and say nothing, or send a byte a second, or never read, or leave in the midst of work."""
        manner = ("silent", "silent", "slow sender", "slow reader", "leaver")[number % 5]
        rng = random.Random(number)
        while time.monotonic() < until:
            connection = Connection(self.port, self.source(300 + number))
            with suppress(OSError, TimeoutError):
                reader, writer = await connection.open()
                pair = rng.choice(self.pairs["maze2d-umaze"])
                if manner == "slow sender":
                    for byte in head("/api/plan", pair):
                        writer.write(bytes([byte]))
                        await asyncio.sleep(1)
                        if time.monotonic() > until or reader.at_eof() or writer.is_closing():
                            break
                elif manner == "slow reader":
                    writer.write(head("/api/field", {**pair, "points": 96}) * 4)
                    await asyncio.sleep(min(15, max(until - time.monotonic(), 0)))
                elif manner == "leaver":
                    writer.write(head("/api/plan", {**pair, "sampler": "ddpm", "steps": 256}))
                    await asyncio.sleep(0.5)
                else:
                    async with asyncio.timeout(min(20, max(until - time.monotonic(), 0.01))):
                        await reader.read()
            connection.close()
            await asyncio.sleep(0.5)

    async def ordinary(self, until: float) -> None:
        """Drop a goal every second and wait for the plan."""
        rng, sequence = random.Random(1), 0
        connection = Connection(self.port, "127.0.0.1" if self.options.one_address else "127.0.200.1")
        while time.monotonic() < until:
            sequence += 1
            body = {**rng.choice(self.pairs["maze2d-large"]), "client": "ordinary", "sequence": sequence}
            begun, phase = time.monotonic(), self.phase
            try:
                async with asyncio.timeout(PATIENCE):
                    status, _ = await connection.ask("/api/stream", body)
                    if status == 200:
                        async for chunk in connection.chunks():
                            if chunk.startswith(b'{"event":"plan"'):
                                self.waits[phase].append(time.monotonic() - begun)
                    else:
                        await connection.rest()
                        self.refused[f"{phase} {status}"] += 1
            except (TimeoutError, OSError, asyncio.IncompleteReadError, IndexError, ValueError) as error:
                self.refused[f"{phase} {type(error).__name__}"] += 1
                connection.close()
            await asyncio.sleep(max(1.0 - (time.monotonic() - begun), 0.05))


def ends(pair: dict[str, Any]) -> dict[str, Any]:
    return {"start": pair["start"], "goal": pair["goal"]}


def percentile(values: list[float], share: float) -> float | None:
    return None if not values else round(sorted(values)[min(int(share * len(values)), len(values) - 1)], 3)


def memory(pid: int) -> float:
    """MB of memory that the server's processes hold; pages that they share count once."""
    pids = [pid]
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(entry.read_text().rpartition(")")[2].split()[1]) == pid:
                pids.append(int(entry.parent.name))
    held = 0
    for each in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
                held += 1024 * int(line.split()[1]) if line.startswith("Pss:") else 0
    return held / 1e6


async def warm_up(port: int, workers: int, pairs: dict[str, list[dict[str, Any]]]) -> None:
    """Let every worker load its models and do each kind of work once."""

    async def ask(number: int) -> None:
        connection = Connection(port, f"127.0.210.{1 + number}")
        for env in ENVIRONMENTS:
            for path in ("/api/plan", "/api/field", "/api/execute", "/api/compare"):
                await connection.ask(path, pairs[env][number])
                await connection.rest()
        connection.close()

    await asyncio.gather(*(ask(number) for number in range(min(2 * workers, 16))))


async def measure(port: int, pid: int, options: argparse.Namespace) -> dict[str, Any]:
    connection = Connection(port, "127.0.0.1")
    pairs: dict[str, list[dict[str, Any]]] = {}
    for env in ENVIRONMENTS:
        pairs[env] = []
        for seed in range(20):
            await connection.ask(f"/api/environments/{env}/instance?seed={seed}")
            pairs[env].append({"environment": env, **json.loads(await connection.rest())})
    connection.close()
    await warm_up(port, options.workers, pairs)
    load = Load(port, options, pairs)
    begun = time.monotonic()
    loaded, calm = begun + options.calm, begun + options.calm + options.seconds
    user = asyncio.create_task(load.ordinary(calm + options.calm))
    await asyncio.sleep(options.calm)
    load.phase = "during"
    others = [asyncio.create_task(load.greedy(number, calm)) for number in range(options.clients)]
    others += [asyncio.create_task(load.silent(number, calm)) for number in range(options.bad)]
    held = [memory(pid)]
    while time.monotonic() < loaded + options.seconds:
        await asyncio.sleep(3)
        held.append(memory(pid))
    load.phase = "after"
    await user
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    waits = {
        phase: {"answered": len(values)} | {f"p{share}_s": percentile(values, share / 100) for share in (50, 95, 100)}
        for phase, values in load.waits.items()
    }
    return {
        "clients": options.clients,
        "bad clients": options.bad,
        "seconds": options.seconds,
        "workers": options.workers,
        "answers": dict(load.answers.most_common()),
        "kinds": dict(sorted(load.by_kind.items())),
        "refused without Retry-After": load.refused_without_pause,
        "longest answer, s": round(load.longest, 2),
        "ordinary user": waits,
        "ordinary user refused": dict(load.refused),
        "memory during the load, MB": [round(value) for value in held],
        "memory growth, MB": round(max(held) - held[0]),
        "memory after it, MB": round(memory(pid)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--bad", type=int, default=63, help="silent, slow and leaving clients")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--calm", type=float, default=8, help="seconds of the ordinary user alone, before and after")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--one-address", action="store_true")
    parser.add_argument("--patient", action="store_true")
    options = parser.parse_args()
    if options.clients > MOST_CLIENTS or options.seconds > MOST_SECONDS:
        sys.exit(f"at most {MOST_CLIENTS} clients and {MOST_SECONDS} s.")
    vhd = str(Path(sys.executable).with_name("vhd"))
    command = [vhd, "serve", "--port", "0", "--no-browser", "--json", "--workers", str(options.workers)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        port = int(json.loads(server.stdout.readline())["address"].rstrip("/").rpartition(":")[2])
        print(json.dumps(asyncio.run(measure(port, server.pid, options)), indent=2))
    finally:
        server.terminate()
        server.wait(timeout=20)


if __name__ == "__main__":
    main()
