"""Damaged and malicious files for every reader: bytes flipped, cut and spliced; headers edited and signed anew."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from campaign.hangs import ended_if_it_hangs

NASTY: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e38, 1e308, math.nan, math.inf,
    -math.inf, "", "a", "maze2d-umaze", "../../etc", "[bold]", "\x00", "x" * 300, [], [1], [[1]], [None], ["a"], [1, 1],
    {}, {"a": 1}, [1e400], [-1, 0], list(range(50)),
)  # fmt: skip
"""Values where others belong."""
SLACK = 32 * 2**20
"""Bytes that reading may take beyond twice those of a good file: allocators round up, and libraries are imported."""


@dataclass(frozen=True)
class Format:
    """A kind of file: a good one, its readers, and how it is edited where flipped bytes would only break a digest."""

    path: Path
    read: Callable[[Path], Any]
    edit: Callable[[bytes, Path, random.Random], None] | None = None


def break_bytes(content: bytes, rng: random.Random) -> bytes:
    """Flip, cut, insert, repeat or overwrite."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        way = rng.randrange(7)
        # Headers are near the ends: damage them more often than the rest.
        at = rng.choice((rng.randrange(min(len(data), 512)), rng.randrange(len(data)))) if data else 0
        if way == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            del data[rng.randrange(len(data) + 1) :]
        elif way == 2:
            data[at:at] = rng.randbytes(rng.choice((1, 4, 64)))
        elif way == 3 and data:
            data[at : at + 8] = struct.pack("<q", rng.choice((-1, 0, 1, 2**31, 2**40, 2**62, len(data))))
        elif way == 4:
            del data[at : at + rng.choice((1, 4, 64))]
        elif way == 5 and data:
            data[at : at + 4] = b"\xff" * 4
        else:
            data[at:at] = data[at : at + rng.choice((4, 64, 1000))]
    return bytes(data)


def edited(value: Any, rng: random.Random) -> Any:
    """A JSON value with one part replaced, removed or added."""
    value = json.loads(json.dumps(value))
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, item in list(items):
            places.append((node, key))
            walk(item)

    walk(value)
    if not places or rng.random() < 0.02:
        return rng.choice(NASTY)
    node, key = rng.choice(places)
    way = rng.random()
    if way < 0.15:
        del node[key]
    elif way < 0.25 and isinstance(node, dict):
        node[rng.choice(("", "new", "format", "kind", "sha256", "x" * 300))] = rng.choice(NASTY)
    else:
        node[key] = rng.choice(NASTY)
    return value


def edit_json(content: bytes, path: Path, rng: random.Random) -> None:
    """Edit a JSON file."""
    path.write_text(json.dumps(edited(json.loads(content), rng)))


def edit_lines(content: bytes, path: Path, rng: random.Random) -> None:
    """Edit a line of a JSON-lines file."""
    lines = content.decode().splitlines()
    at = rng.randrange(len(lines))
    lines[at] = json.dumps(edited(json.loads(lines[at]), rng))
    path.write_text("\n".join(lines) + "\n")


def odd_array(rng: random.Random) -> Any:
    """An array that nobody expects."""
    shape = rng.choice(((), (0,), (1,), (3,), (40,), (40, 0), (0, 4), (40, 1), (40, 4), (2, 3, 4), (1, 1, 1, 1)))
    kind = rng.choice(("f4", "f8", "f2", "i8", "u1", "?", "c8", "U3", "S2", "M8[s]", "i4,f4"))
    array = np.zeros(shape, kind)
    if array.dtype.kind == "f" and array.size:
        array.flat[0] = rng.choice((math.nan, math.inf, -1.0, 1e30, 6e4))
    return array


def edit_npz(content: bytes, path: Path, rng: random.Random) -> None:
    """Replace, drop or add an array of an npz file, or claim another shape in its header."""
    path.write_bytes(content)
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    way, key = rng.random(), rng.choice(list(arrays))
    if way < 0.2:
        del arrays[key]
    else:
        arrays[key] = odd_array(rng)
    with open(path, "wb") as out:
        np.savez(out, **arrays)
    if way > 0.8:
        claimed = path.read_bytes().replace(b"(40, ", f"({rng.choice(('4' * 9, '9' * 17))}, ".encode())
        path.write_bytes(claimed)


def edit_hdf5(content: bytes, path: Path, rng: random.Random) -> None:
    """Replace a dataset of an HDF5 file: other types and shapes, gigabytes that are not there, links elsewhere."""
    import h5py

    path.write_bytes(content)
    with h5py.File(path, "a") as file:
        names = [
            name for name in ("observations", "actions", "episode_ends", "start_state", "goal_pos") if name in file
        ]
        key = rng.choice(names)
        del file[key]
        way = rng.random()
        if way < 0.5:
            array = odd_array(rng)
            file[key] = np.zeros(array.shape, "S3") if array.dtype.kind in "UM" else array
        elif way < 0.6:
            file.create_dataset(key, (10**10, 4), "f4", chunks=(1000, 4))
        elif way < 0.7:
            file.create_dataset(key, (40, 4), "f4", chunks=(2**15, 2**14), maxshape=(None, None))
        elif way < 0.8:
            file[key] = h5py.ExternalLink("/etc/hostname", "/")
        elif way < 0.9:
            file[key] = h5py.SoftLink(f"/{key}")
        elif way < 0.95:
            file.create_group(key)


def edit_safetensors(content: bytes, path: Path, rng: random.Random) -> None:
    """Edit header or tensors of one of our safetensors files, and sign it anew."""
    from safetensors.numpy import load, save_file

    from vhdiffuser.weights.format import digest

    path.write_bytes(content)
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["vhdiffuser"])
    tensors = load(content)
    signed = header.pop("sha256", None) is not None
    if rng.random() < 0.7:
        header = edited(header, rng)
    else:
        key = rng.choice(list(tensors))
        way = rng.randrange(5)
        if way == 0:
            del tensors[key]
        elif way == 1:
            tensors[key] = np.stack([tensors[key]] * 2)
        elif way == 2:
            tensors[key] = np.zeros(rng.choice(((), (0,), (3,), (2, 2))), np.float32)
        elif way == 3:
            tensors[key] = tensors[key].astype(rng.choice(("i8", "?", "f8", "f2", "u1")))
        else:
            tensors["another"] = np.zeros(3, np.float32)
    if signed and isinstance(header, dict):
        header = {**header, "sha256": digest(tensors, header)}
    name = "vhdiffuser" if rng.random() < 0.97 else "other"
    save_file(tensors, path, metadata={name: json.dumps(header)})


def formats(folder: Path) -> dict[str, Format]:
    """A good file of every kind, in `folder`, and its readers."""
    from campaign.good_files import write_good_files

    return write_good_files(folder)


def one_input(form: Format, number: int, seed: int, folder: Path) -> str:
    """Read one damaged file; what went wrong, or nothing."""
    from vhdiffuser.errors import VhdError

    rng = random.Random(f"{seed} {form.path.name} {number}")
    good = form.path.read_bytes()
    path = folder / form.path.name
    path.unlink(missing_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if form.edit is not None and rng.random() < 0.6:
            form.edit(good, path, rng)
        else:
            path.write_bytes(break_bytes(good, rng))
        try:
            form.read(path)
        except VhdError:
            return ""
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:150]}"
    return ""


def memory(field: str) -> int:
    """Bytes that this process holds (`VmRSS`), or the most since `forget_peak` (`VmHWM`)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def grown(read: Callable[[], Any]) -> tuple[Any, int]:
    """What `read` returns, and the most bytes that it took."""
    Path("/proc/self/clear_refs").write_text("5")  # begin to measure anew
    before = memory("VmRSS")
    result = read()
    return result, memory("VmHWM") - before


@cache
def good_files(root: str) -> tuple[Path, dict[str, Format]]:
    """This process's folder, and the good files in it; made once for all its batches."""
    folder = Path(root) / f"files-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "good").mkdir(parents=True)
    (folder / "bad").mkdir()
    os.environ["VHD_HOME"], os.environ["MINARI_DATASETS_PATH"] = str(folder / "home"), str(folder / "minari")
    return folder, formats(folder / "good")


def batch(kind: str, begin: int, count: int, seed: int, root: str) -> tuple[int, list[str]]:
    """Inputs `begin` to `begin + count` of a kind: how many failed, and examples. Runs in a worker process."""
    folder, forms = good_files(root)
    form = forms[kind]
    form.read(form.path)
    _, good = grown(lambda: form.read(form.path))
    faults = []
    for number in range(begin, begin + count):
        (folder / "current").write_text(f"{kind} {number}")
        with ended_if_it_hangs(60):
            fault, bad = grown(partial(one_input, form, number, seed, folder / "bad"))
        if not fault and bad > 2 * good + SLACK:
            fault = f"{bad / 1e6:.0f} MB, and a good file takes {good / 1e6:.0f}"
        if fault:
            faults.append(f"{number}: {fault}")
    return len(faults), faults[:5]
