"""Where files live and how they are written: whole, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vhdiffuser.errors import DataError

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


def home() -> Path:
    """The user's cache folder: `VHD_HOME`, or `~/.cache/vhdiffuser`."""
    return Path(os.environ.get("VHD_HOME") or Path.home() / ".cache" / "vhdiffuser").expanduser()


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place only when the block ends without error.

    >>> with atomic_path(Path("plan.json")) as temporary:
    ...     _ = temporary.write_text("{}")
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise DataError(f"{path}: could not be written ({error}). Nothing already on disk was changed.") from error
    finally:
        temporary.unlink(missing_ok=True)


def require_space(folder: Path, needed: int) -> None:
    """Refuse early when `folder`'s disk has less than `needed` bytes free."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DataError(
            f"{folder}: {needed / 1e6:,.0f} MB are needed and {free / 1e6:,.0f} MB are free. "
            "Free some space, or point VHD_HOME at another disk."
        )


def sha256(path: Path) -> str:
    """Hex digest of a file, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
