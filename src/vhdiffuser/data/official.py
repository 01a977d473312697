"""Official datasets: where to download them, and how a download is verified.

Their authors publish no digests. So a download must have the length stated by the server, the SHA-256 stated by a
mirror (Hugging Face states it for large files) or given by the user, the expected fields and number of rows, and the
published statistics, if any.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vhdiffuser.data.store import Dataset
from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path, home, require_space, sha256
from vhdiffuser.types import EnvSpec, Episodes


@dataclass(frozen=True)
class OfficialFiles:
    """Data published by an environment's authors."""

    files: tuple[str, ...]
    """File names."""
    hosts: tuple[str, ...]
    """URL prefixes, tried in this order."""
    read: Callable[[list[Path]], Episodes]
    """Function that reads the files."""
    std: tuple[float, ...] | None = None
    """Published standard deviation of the observations, to verify a download."""


Progress = Callable[[str, int, int], None]
"""Called with a file's name, bytes received and bytes in total (0 if unknown)."""


def get_official(
    spec: EnvSpec,
    official: OfficialFiles | None,
    progress: Progress,
    timeout: float = 20.0,
    digests: dict[str, str] | None = None,
) -> Dataset:
    """Download (unless cached), verify and read an environment's published data."""
    if official is None:
        raise DataError(f"{spec.name} has no published data")
    paths, details = [], {}
    for file in official.files:
        path = home() / "downloads" / file
        if not path.exists():
            details["address"] = _first_that_answers([host + file for host in official.hosts], path, progress, timeout)
        digest = sha256(path)
        wanted = (digests or {}).get(file)
        if wanted and wanted != digest:
            raise DataError(
                f"{path}: SHA-256 is {digest}, but {wanted} was expected. Delete the file and download it again."
            )
        details[file] = digest
        paths.append(path)
    episodes = official.read(paths)
    _check_statistics(spec, official, episodes, paths[0])
    return Dataset(spec, episodes, "official", details)


def _check_statistics(spec: EnvSpec, official: OfficialFiles, episodes: Episodes, path: Path) -> None:
    if episodes.observations.shape[1] != spec.observation_dim or episodes.actions.shape[1] != spec.action_dim:
        raise DataError(
            f"{path}: {episodes.observations.shape[1]} observation and {episodes.actions.shape[1]} action "
            f"columns, but {spec.name} has {spec.observation_dim} and {spec.action_dim}. This is not this "
            "environment's data."
        )
    if official.std is not None:
        ratio = episodes.observations.std(axis=0, dtype=np.float64) / np.array(official.std)
        if (np.abs(ratio - 1) > 0.05).any():
            raise DataError(
                f"{path}: the standard deviation of the observations is {ratio.round(3).tolist()} times the "
                "published one, so the file is incomplete or not the official one. Delete it, or use --source "
                "build."
            )


def _first_that_answers(urls: list[str], path: Path, progress: Progress, timeout: float) -> str:
    failures = []
    for url in urls:
        try:
            download(url, path, progress, timeout)
            return url
        except DataError as error:
            failures.append(str(error))
    raise DataError("; ".join(failures))


def download(url: str, path: Path, progress: Progress, timeout: float) -> None:
    """Download one file. It appears at `path` only if its length and stated digest are right."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            total = int(answer.headers.get("Content-Length") or 0)
            stated = (answer.headers.get("X-Linked-ETag") or "").strip('"')
            require_space(path.parent, total)
            with atomic_path(path) as temporary:
                done = 0
                with open(temporary, "wb") as file:
                    while piece := answer.read(1 << 20):
                        file.write(piece)
                        done += len(piece)
                        progress(path.name, done, total)
                if total and done != total:
                    raise DataError(f"{url}: received {done} of {total} bytes.")
                if len(stated) == 64 and sha256(temporary) != stated:
                    raise DataError(f"{url}: the SHA-256 differs from {stated}, which the server states.")
    except urllib.error.HTTPError as error:
        raise DataError(f"{url}: the server answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, TimeoutError, http.client.HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise DataError(f"{url}: cannot be reached ({reason})") from error
