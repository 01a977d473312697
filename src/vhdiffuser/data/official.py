"""The official datasets: where they are, and how a download is verified.

Their authors publish no digests. So a download must have the length that the server stated, the SHA-256 that a mirror
states (Hugging Face does, for large files) or the user gives, the right fields and number of rows, and the published
statistics, where there are any.
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
    """URL prefixes of the files, tried in this order."""
    read: Callable[[list[Path]], Episodes]
    """Reads them."""
    std: tuple[float, ...] | None = None
    """Published standard deviation of the observations, to verify a download."""


Progress = Callable[[str, int, int], None]
"""Called with a file's name, bytes so far and bytes in total (0: unknown)."""


def get_official(
    spec: EnvSpec,
    official: OfficialFiles | None,
    progress: Progress,
    timeout: float = 20.0,
    digests: dict[str, str] | None = None,
) -> Dataset:
    """Download (or reuse), verify and read the published data of an environment."""
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
            raise DataError(f"{path}: SHA-256 is {digest}, not {wanted} as given. Delete the file and get it again.")
        details[file] = digest
        paths.append(path)
    episodes = official.read(paths)
    _check_statistics(spec, official, episodes, paths[0])
    return Dataset(spec, episodes, "official", details)


def _check_statistics(spec: EnvSpec, official: OfficialFiles, episodes: Episodes, path: Path) -> None:
    if episodes.observations.shape[1] != spec.observation_dim or episodes.actions.shape[1] != spec.action_dim:
        raise DataError(
            f"{path}: {episodes.observations.shape[1]} observation and {episodes.actions.shape[1]} action columns, "
            f"but {spec.name} has {spec.observation_dim} and {spec.action_dim}. It is not this environment's data."
        )
    if official.std is not None:
        ratio = episodes.observations.std(axis=0, dtype=np.float64) / np.array(official.std)
        if (np.abs(ratio - 1) > 0.05).any():
            raise DataError(
                f"{path}: observation std is {ratio.round(3).tolist()} times the published one; "
                "this is not the official file, or not all of it. Delete it, or use --source build."
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
    """Download one file; it appears at `path` only if its length and stated digest are right."""
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
                    raise DataError(f"{url}: {done} of {total} bytes arrived.")
                if len(stated) == 64 and sha256(temporary) != stated:
                    raise DataError(f"{url}: SHA-256 differs from the {stated} that the server states.")
    except urllib.error.HTTPError as error:
        raise DataError(f"{url}: the server answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, TimeoutError, http.client.HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise DataError(f"{url}: not reached ({reason})") from error
