"""Where files live and how they are written: whole, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vhdiffuser.errors import DataError

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def home() -> Path:
    """The user's cache folder: `VHD_HOME`, or `~/.cache/vhdiffuser`."""
    return Path(os.environ.get("VHD_HOME") or Path.home() / ".cache" / "vhdiffuser").expanduser()


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place only when the block ends without error.

    A symbolic link is followed: the file it names is replaced, the link stays. Anything else that is not a regular
    file (a folder, a device) is refused. A new file gets the mode that the umask asks for; an existing one keeps its
    own.

    >>> with atomic_path(Path("plan.json")) as temporary:
    ...     _ = temporary.write_text("{}")
    """
    target = regular_target(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise DataError(f"{path}: could not be written ({error}). Nothing already on disk was changed.") from error
    try:
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        mode = stat.S_IMODE(temporary.stat().st_mode)
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, mode)  # libraries that write by renaming bring a mode of their own
        os.replace(temporary, target)
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise DataError(f"{path}: could not be written ({error}). Nothing already on disk was changed.") from error
    finally:
        temporary.unlink(missing_ok=True)


def regular_target(path: Path) -> Path:
    """The file that writing to `path` would write: links followed, and refused where it is no regular file."""
    try:
        target = path.resolve() if path.is_symlink() else path
        if target.is_symlink():  # a loop, which Python 3.13 and newer resolve to itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        other = target.exists() and not target.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links; a name that no file can have
        raise DataError(f"{path}: cannot be written ({error}). Choose another file.") from error
    if other:
        kind = "a folder" if target.is_dir() else "a device, pipe or socket"
        raise DataError(f"{path}: is {kind}, not a regular file. Nothing was changed; choose another file.")
    return target


def checked_name(kind: str, name: str) -> str:
    """`name`, if it can name a run, a dataset or a model: one folder name, the same on every system."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith("."):
        article = "an" if kind[0] in "aeiou" else "a"
        raise DataError(
            f"{name!r} cannot name {article} {kind}. Allowed: up to 64 letters, digits, dots, dashes and underscores, "
            "beginning with a letter or a digit (and no path)."
        )
    return name


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
