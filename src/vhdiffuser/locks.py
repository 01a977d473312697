"""One process at a time: the operating system's locks, which end with the process that holds them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vhdiffuser.errors import DataError
from vhdiffuser.files import make_folder, writing

try:
    import fcntl
except ImportError:  # Windows: no locks
    fcntl = None  # type: ignore[assignment]


@contextmanager
def exclusive(folder: Path, job: str) -> Iterator[None]:
    """Allow one process at a time to do `job` in `folder`; any other is refused at once, with a message.

    The file `.lock` is removed afterwards. One that a killed process left is not locked, and is used again.
    """
    path = make_folder(folder) / ".lock"
    while True:
        with writing(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not try_lock(handle):
                holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
                by = f" (process {holder})" if holder.isdigit() else ""
                raise DataError(f"{folder}: another process{by} is {job}. Wait for it, or stop it.")
            if _is_still(handle, path):
                with writing(path):
                    os.truncate(handle, 0)
                    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
                try:
                    yield
                finally:
                    with suppress(OSError):
                        path.unlink()
                return
        finally:
            os.close(handle)


def try_lock(handle: int) -> bool:
    """Lock an open file for this process; False if another one has it. Some network file systems cannot lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_still(handle: int, path: Path) -> bool:
    """Whether the path still names the open file: its last holder may have removed it after we opened it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
