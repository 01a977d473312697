"""Reading of untrusted files, in one place: every defect becomes a `DataError`, and no code in a file is executed.

Headers are checked before memory is allocated, so an array of terabytes, or a few megabytes that unpack to gigabytes,
is refused.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import is_file

Arrays = dict[str, npt.NDArray[Any]]
NUMBERS, TEXT = "biuf", "U"
"""Kinds of arrays, in numpy's codes: numbers (and booleans), and text."""
_DENSE = 64 << 20
"""Arrays up to this many bytes are read whatever their compression ratio."""
_PACKED = 100
"""Maximum compression ratio of larger arrays. Real data compresses by two, not by a hundred."""


@contextmanager
def reading(path: Path, kind: str, mend: str = "Download or export it again.") -> Iterator[None]:
    """Context for reading `path`: turns any error that a library raises for a damaged file into a `DataError`."""
    if not is_file(path):
        raise DataError(f"{path}: no such file.")
    try:
        yield
    except VhdError:
        raise
    except Exception as error:  # zipfile, zlib, struct, h5py, safetensors and json raise dozens of types
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{path}: damaged, truncated or not {kind} ({reason}). {mend}") from error


def read_arrays(
    path: Path,
    required: Sequence[str],
    optional: Sequence[str] | None = (),
    kinds: str = NUMBERS,
    mend: str = "Download or export it again.",
) -> Arrays:
    """Read arrays of an npz or HDF5 file, depending on its suffix. `optional` None reads all arrays."""
    readers: dict[str, Callable[..., Arrays]] = {".npz": read_npz, ".hdf5": read_hdf5, ".h5": read_hdf5}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: unknown file type. Allowed: {', '.join(readers)}.")
    return reader(path, required, optional, kinds, mend)


def read_npz(
    path: Path,
    required: Sequence[str],
    optional: Sequence[str] | None = (),
    kinds: str = NUMBERS,
    mend: str = "Download or export it again.",
) -> Arrays:
    """Read arrays of an npz file; see `read_arrays`."""
    with reading(path, "an npz file", mend), zipfile.ZipFile(path) as archive:
        present = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        names = _wanted(path, present, required, optional)
        for name in names:
            _check_member(path, archive, name, kinds)
        arrays = {}
        for name in names:
            with archive.open(f"{name}.npy") as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
        return arrays


def _check_member(path: Path, archive: zipfile.ZipFile, name: str, kinds: str) -> None:
    """Refuse an array by its header: not numbers, not of the declared size, or a decompression bomb."""
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{path}: '{name}' uses a compression that numpy does not. Save it with numpy.savez.")
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise DataError(f"{path}: '{name}' is not an array of numbers.")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        _check_kind(path, name, dtype, kinds)
        size = prod(shape) * dtype.itemsize
        if file.tell() + size != info.file_size:
            raise DataError(
                f"{path}: '{name}' declares shape {_shape(shape)} of {dtype}, {size:,} bytes, but the file "
                f"holds {info.file_size - file.tell():,} bytes."
            )
    _check_size(path, name, size, info.compress_size)


def read_hdf5(
    path: Path,
    required: Sequence[str],
    optional: Sequence[str] | None = (),
    kinds: str = NUMBERS,
    mend: str = "Download or export it again.",
) -> Arrays:
    """Read arrays of an HDF5 file; see `read_arrays`. External storage is not followed."""
    import h5py  # imported here: it would double the import time of this package

    with reading(path, "an HDF5 file", mend), h5py.File(path, "r") as file:
        present: list[str] = []
        file.visititems(lambda name, node: present.append(name) if isinstance(node, h5py.Dataset) else None)
        arrays = {}
        for name in _wanted(path, present, required, optional):
            node = file[name]
            if node.external or node.is_virtual:
                raise DataError(f"{path}: '{name}' is stored in another file. Copy the data into one file.")
            if node.shape is None:
                raise DataError(f"{path}: '{name}' is empty.")
            _check_kind(path, name, node.dtype, kinds)
            _check_size(path, name, node.size * node.dtype.itemsize, node.id.get_storage_size())
            if node.chunks is not None:  # HDF5 reads whole chunks
                _check_size(path, f"a chunk of {name}", prod(node.chunks) * node.dtype.itemsize, path.stat().st_size)
            arrays[name] = np.asarray(node[()])
        return arrays


def read_safetensors(path: Path, framework: str, what: str, mend: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the tensors (`framework`: np or pt) and our header from a safetensors file. `what` says what it should
    contain."""
    from safetensors import safe_open

    with reading(path, "a safetensors file", mend), safe_open(path, framework) as file:
        header = _our_header(path, file.metadata(), what, mend)
        return {key: file.get_tensor(key) for key in file.keys()}, header  # noqa: SIM118


def read_header(path: Path, what: str, mend: str) -> dict[str, Any]:
    """Read our header from a safetensors file, without its tensors."""
    from safetensors import safe_open

    with reading(path, "a safetensors file", mend), safe_open(path, "np") as file:
        return _our_header(path, file.metadata(), what, mend)


def _our_header(path: Path, metadata: dict[str, str] | None, what: str, mend: str) -> dict[str, Any]:
    text = (metadata or {}).get("vhdiffuser")
    if text is None:
        raise DataError(f"{path}: a safetensors file, but not {what}: its header has no 'vhdiffuser'. {mend}")
    return parse_json(path, text, mend)


def read_json(path: Path, mend: str) -> dict[str, Any]:
    """Read the object in a JSON file."""
    with reading(path, "a JSON file", mend):
        return parse_json(path, path.read_text(encoding="utf-8"), mend)


def parse_json(path: Path, text: str, mend: str, where: str = "") -> dict[str, Any]:
    """Parse a JSON object that came from `path`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}{where}: damaged ({error}). {mend}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}{where}: damaged (expected an object, got {type(value).__name__}). {mend}")
    return value


def _wanted(path: Path, present: list[str], required: Sequence[str], optional: Sequence[str] | None) -> list[str]:
    if missing := [name for name in required if name not in present]:
        has = ", ".join(present[:20]) or "none"
        raise DataError(f"{path}: missing field(s) {', '.join(missing)}. It has: {has[:400]}.")
    if optional is None:
        return present
    return [*required, *(name for name in optional if name in present)]


def _check_kind(path: Path, name: str, dtype: np.dtype[Any], kinds: str) -> None:
    if dtype.kind not in kinds:
        raise DataError(f"{path}: '{name}' must be an array of numbers; got {str(dtype)[:80]}.")


def _check_size(path: Path, name: str, size: int, stored: int) -> None:
    if size > max(_DENSE, _PACKED * stored):
        raise DataError(
            f"{path}: '{name}' would unpack to {size / 1e9:,.1f} GB from {stored / 1e6:,.1f} MB in the file, so "
            "it was not read. If this is intended, save the data uncompressed."
        )
    if (free := _free_memory()) is not None and size > free:
        raise DataError(
            f"{path}: '{name}' needs {size / 1e9:,.1f} GB of memory, but only {free / 1e9:,.1f} GB are free. "
            "Split the file, or close other programs."
        )


def _free_memory() -> int | None:
    """Available memory in bytes, if the system reports it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _shape(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 60 else text[:57] + "..."
