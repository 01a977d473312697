"""Where files are kept, and how they are written: whole or not at all, with one message for every failed write.

What a killed process left unfinished is removed by the next one that writes to the same folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from vhdiffuser.errors import DataError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DISK = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO") if hasattr(errno, name)}
_PLACE = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}
_HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:6]
_LEFT = re.compile(rf".*[.-]{_HOST}-(\d+)-[0-9a-f]{{8}}(\.part)?")
"""Temporary names made on this machine, and the process that made them."""
_swept: set[Path] = set()
"""Folders in which this process has looked for what others left."""


def home() -> Path:
    """The user's cache folder: `VHD_HOME`, or `~/.cache/vhdiffuser`."""
    try:
        return Path(os.environ.get("VHD_HOME") or Path.home() / ".cache" / "vhdiffuser").expanduser()
    except RuntimeError as error:
        raise DataError(
            f"no home folder is known ({error}). Set VHD_HOME to a folder for data and trained models."
        ) from error


@contextmanager
def writing(path: Path, kept: str = "Nothing already on disk was changed.") -> Iterator[None]:
    """Context for writing `path`: a full disk, a read-only folder and the like become a `DataError` in words.

    Every write of this package is in this context. `kept` says what the failure left as it was. Errors that are not the
    disk's, such as a connection lost during a download, pass through.
    """
    try:
        yield
    except SafetensorError as error:  # its writer reports the system's errors as its own
        raise DataError(f"{path}: could not be written ({error}). {kept}") from error
    except OSError as error:
        if error.errno not in _DISK | _PLACE:
            raise
        advice = "Make room on that disk" if error.errno in _DISK else "Choose a folder that you may write to"
        raise DataError(
            f"{path}: could not be written ({error}). {kept} {advice} (VHD_HOME sets the cache)."
        ) from error


def make_folder(folder: Path) -> Path:
    """Create a folder and its parents, if missing."""
    with writing(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError) as error:  # a file, or a dangling link, has the name
            raise DataError(f"{folder}: could not be written ({error}): something else has its name.") from error
    return folder


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path near `path` that replaces it only if the block ends without an error.

    Symbolic links are followed: the target is replaced and the link stays. Anything but a regular file (a folder, a
    device) is refused. A new file gets its mode from the umask; an existing one keeps its mode.

    >>> with atomic_path(Path("plan.json")) as temporary:
    ...     _ = temporary.write_text("{}")
    """
    target = regular_target(path)
    make_folder(target.parent)
    sweep(target.parent)
    # In a folder of its own, since libraries that write by renaming leave files under names of their own when killed.
    folder = target.with_name(f".{_own_tag()}.part")
    temporary = folder / "content"
    with writing(path):
        try:
            try:
                folder.mkdir()
            except FileNotFoundError as error:  # the folder was deleted meanwhile, or is none that holds files
                raise DataError(f"{path}: could not be written ({error}). Choose a folder that exists.") from error
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            mode = stat.S_IMODE(temporary.stat().st_mode)
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder for files that nobody keeps, removed after the block."""
    try:
        root = Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # it tries to write into each
        raise DataError(f"temporary files cannot be written ({error}). Make room, or set TMPDIR.") from error
    sweep(root, "vhdiffuser-*")
    folder = root / f"vhdiffuser-{_own_tag()}"
    with writing(folder, "It would hold files that are needed for a moment only (TMPDIR sets where)."):
        folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(folder: Path, pattern: str = ".*.part") -> None:
    """Remove what processes of this machine that no longer run left unfinished in a folder; once per process."""
    if folder in _swept or os.name != "posix":
        return
    _swept.add(folder)
    with suppress(OSError):
        for path in folder.glob(pattern):
            if (found := _LEFT.fullmatch(path.name)) and not _runs(int(found[1])):
                shutil.rmtree(path, ignore_errors=True)


def _own_tag() -> str:
    return f"{_HOST}-{os.getpid()}-{secrets.token_hex(4)}"


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def regular_target(path: Path) -> Path:
    """The file that writing to `path` would replace, with links followed; refused unless it is a regular file."""
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


def is_file(path: Path) -> bool:
    """Whether `path` is a file; False too for names that no file can have, and where we may not look."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether `path` is a folder; False too for names that none can have, and where we may not look."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def checked_name(kind: str, name: str) -> str:
    """`name`, if it is valid for a run, dataset or model: a single folder name that every system allows."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith("."):
        article = "an" if kind[0] in "aeiou" else "a"
        said = repr(name) if len(repr(name)) <= 80 else repr(name)[:77] + "..."
        raise DataError(
            f"{said} cannot name {article} {kind}. Allowed: up to 64 letters, digits, dots, dashes and underscores, "
            "beginning with a letter or a digit (and no path)."
        )
    return name


def require_space(folder: Path, needed: int) -> None:
    """Raise `DataError` if the disk of `folder` has fewer than `needed` bytes free."""
    make_folder(folder)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DataError(
            f"{folder}: {needed / 1e6:,.0f} MB are needed and {free / 1e6:,.0f} MB are free. "
            "Free some space, or point VHD_HOME at another disk."
        )


def sha256(path: Path) -> str:
    """Hex digest of a file, read in chunks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
