"""Locks between processes. The operating system releases them when their holder exits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vhdiffuser.errors import DataError
from vhdiffuser.files import make_folder, writing

try:
    import fcntl
except ImportError:  # not available on Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def exclusive(folder: Path, job: str) -> Iterator[None]:
    """Allow one process at a time to do `job` in `folder`; raises `VhdError` if another one holds the lock.

    The file `.lock` is removed afterwards. A file left by a killed process is not locked and is reused.
    """
    path = make_folder(folder) / ".lock"
    while True:
        with writing(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not try_lock(handle):
                holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
                by = f" (process {holder})" if holder.isdigit() else ""
                raise DataError(f"{folder}: another process{by} is {job}. Wait for it to finish, or stop it.")
            if _is_still(handle, path):
                try:
                    with writing(path):
                        os.truncate(handle, 0)
                        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
                    yield
                finally:
                    with suppress(OSError):
                        path.unlink()
                return
        finally:
            os.close(handle)


def try_lock(handle: int) -> bool:
    """Lock an open file for this process; False if another process holds the lock. Some network file systems do not
    support locks."""
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
    """Whether the path still refers to the open file: the last holder may have deleted it after we opened it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
