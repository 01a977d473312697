"""Where files are stored and how they are written: atomically, with the same message for every failed write.

Temporary files of a killed process are removed by the next process that writes to the same folder.
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
"""Names of temporary files made on this machine, with the id of the process that made them."""
_swept: set[Path] = set()
"""Folders in which this process has already removed leftovers."""


def home() -> Path:
    """The user's cache folder: `VHD_HOME` if set, otherwise `~/.cache/vhdiffuser`."""
    try:
        return Path(os.environ.get("VHD_HOME") or Path.home() / ".cache" / "vhdiffuser").expanduser()
    except RuntimeError as error:
        raise DataError(
            f"cannot find your home folder ({error}). Set VHD_HOME to a folder for data and trained models."
        ) from error


@contextmanager
def writing(path: Path, kept: str = "Nothing already on disk was changed.") -> Iterator[None]:
    """Context for writing `path`: turns a full disk, a read-only folder etc. into a `DataError`.

    Every write in this package uses this context. `kept` says what the failure left untouched. Other errors, such as a
    connection lost during a download, pass through.
    """
    try:
        yield
    except SafetensorError as error:  # safetensors reports the system's errors as its own
        raise DataError(f"{path}: cannot be written ({error}). {kept}") from error
    except OSError as error:
        if error.errno not in _DISK | _PLACE:
            raise
        advice = "Free some space on that disk" if error.errno in _DISK else "Choose a folder with write permission"
        raise DataError(
            f"{path}: cannot be written ({error}). {kept} {advice} (VHD_HOME sets the cache folder)."
        ) from error


def make_folder(folder: Path) -> Path:
    """Create a folder and its parents if they are missing."""
    with writing(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError) as error:  # a file or a dangling link has this name
            raise DataError(f"{folder}: cannot be written ({error}): a file with this name exists.") from error
    return folder


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path near `path` that replaces it if the block ends without an error.

    Symbolic links are followed: the target is replaced, the link stays. Anything but a regular file (a folder, a
    device) is refused. A new file's mode follows the umask; an existing file keeps its mode.

    >>> with atomic_path(Path("plan.json")) as temporary:
    ...     _ = temporary.write_text("{}")
    """
    target = regular_target(path)
    make_folder(target.parent)
    sweep(target.parent)
    # In a separate folder, since libraries that write by renaming leave files under other names when killed.
    folder = target.with_name(f".{_own_tag()}.part")
    temporary = folder / "content"
    with writing(path):
        try:
            try:
                folder.mkdir()
            except FileNotFoundError as error:  # the folder was deleted meanwhile, or cannot hold files
                raise DataError(f"{path}: cannot be written ({error}). Choose an existing folder.") from error
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
    """An empty temporary folder, removed after the block."""
    try:
        root = Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # it tries to write into each candidate
        raise DataError(f"cannot write temporary files ({error}). Free some space, or set TMPDIR.") from error
    sweep(root, "vhdiffuser-*")
    folder = root / f"vhdiffuser-{_own_tag()}"
    with writing(folder, "It is needed for temporary files only (set its place with TMPDIR)."):
        folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(folder: Path, pattern: str = ".*.part") -> None:
    """Remove temporary files in a folder that belong to processes of this machine which no longer run; once per
    process."""
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
    except OSError:  # belongs to another user
        return True
    return True


def regular_target(path: Path) -> Path:
    """The file that writing to `path` replaces, with links resolved; raises `DataError` unless it is a regular file."""
    try:
        target = path.resolve() if path.is_symlink() else path
        if target.is_symlink():  # a loop of links, which Python 3.13 and newer resolve to itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        other = target.exists() and not target.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, or an invalid file name
        raise DataError(f"{path}: cannot be written ({error}). Choose another file.") from error
    if other:
        kind = "a folder" if target.is_dir() else "a device, pipe or socket"
        raise DataError(f"{path} is {kind}, not a regular file. Nothing was changed; choose another file.")
    return target


def is_file(path: Path) -> bool:
    """Whether `path` is a file. False for invalid names and for folders without read permission."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether `path` is a folder. False for invalid names and for folders without read permission."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def checked_name(kind: str, name: str) -> str:
    """Return `name` if it is valid for a run, dataset or model: a single folder name that every system allows."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith("."):
        article = "an" if kind[0] in "aeiou" else "a"
        said = repr(name) if len(repr(name)) <= 80 else repr(name)[:77] + "..."
        raise DataError(
            f"{said} cannot name {article} {kind}. Allowed: up to 64 letters, digits, dots, dashes and "
            "underscores, starting with a letter or digit (no paths)."
        )
    return name


def require_space(folder: Path, needed: int) -> None:
    """Raise `DataError` if the disk of `folder` has fewer than `needed` bytes free."""
    make_folder(folder)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DataError(
            f"{folder}: {needed / 1e6:,.0f} MB needed, {free / 1e6:,.0f} MB free. Free some space, or set "
            "VHD_HOME to a folder on another disk."
        )


def sha256(path: Path) -> str:
    """SHA-256 of a file as a hex digest, read in chunks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
