"""The official datasets: where they are, and how a download is checked before it is believed.

No digest of these files is published by their makers. So a download must have the length that the
server stated, the SHA-256 that a mirror states (Hugging Face does, for large files) or that the user
gives, the right fields and number of rows, and, for maze2d, the published statistics.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vhdiffuser.data.readers import read_d4rl_maze2d, read_ogbench
from vhdiffuser.data.store import Dataset
from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path, home, require_space, sha256
from vhdiffuser.types import EnvSpec, Episodes

D4RL_HOST = "http://rail.eecs.berkeley.edu/datasets/offline_rl/maze2d/"
OGBENCH_HOST = "https://rail.eecs.berkeley.edu/datasets/ogbench/"
OGBENCH_MIRROR = "https://huggingface.co/datasets/zhouzypaul/ogbench_datasets/resolve/main/"

FILES: dict[str, tuple[str, ...]] = {
    "maze2d-umaze": ("maze2d-umaze-sparse-v1.hdf5",),
    "maze2d-medium": ("maze2d-medium-sparse-v1.hdf5",),
    "maze2d-large": ("maze2d-large-sparse-v1.hdf5",),
    "antmaze-medium": ("antmaze-medium-navigate-v0.npz", "antmaze-medium-navigate-v0-val.npz"),
    "cube": ("cube-single-play-v0.npz", "cube-single-play-v0-val.npz"),
}

PUBLISHED_STD: dict[str, tuple[float, ...]] = {
    "maze2d-umaze": (0.8997, 0.7093, 2.2129, 2.4682),
    "maze2d-medium": (1.3371, 1.5210, 2.3408, 2.3694),
    "maze2d-large": (1.8070, 2.5688, 2.4368, 2.6494),
}
"""Standard deviation of the observations in D4RL's full sets, as its users publish them."""

Progress = Callable[[str, int, int], None]
"""Called with a file's name, bytes so far and bytes in all (0: not stated)."""


def addresses(spec: EnvSpec, file: str) -> list[str]:
    """Where to try, in order."""
    if spec.family == "maze2d":
        return [D4RL_HOST + file]
    return [OGBENCH_HOST + file, OGBENCH_MIRROR + file]


def get_official(
    spec: EnvSpec, progress: Progress, timeout: float = 20.0, digests: dict[str, str] | None = None
) -> Dataset:
    """Download (or reuse), check and read the official data of a registered environment."""
    paths, details = [], {}
    for file in FILES[spec.name]:
        path = home() / "downloads" / file
        if not path.exists():
            details["address"] = _first_that_answers(addresses(spec, file), path, progress, timeout)
        digest = sha256(path)
        wanted = (digests or {}).get(file)
        if wanted and wanted != digest:
            raise DataError(f"{path}: SHA-256 is {digest}, not {wanted} as given. Delete the file and get it again.")
        details[file] = digest
        paths.append(path)
    episodes = read_d4rl_maze2d(paths[0]) if spec.family == "maze2d" else read_ogbench(paths)
    _check_statistics(spec, episodes, paths[0])
    return Dataset(spec, episodes, "official", details)


def _check_statistics(spec: EnvSpec, episodes: Episodes, path: Path) -> None:
    if episodes.observations.shape[1] != spec.observation_dim or episodes.actions.shape[1] != spec.action_dim:
        raise DataError(
            f"{path}: {episodes.observations.shape[1]} observation and {episodes.actions.shape[1]} action columns, "
            f"but {spec.name} has {spec.observation_dim} and {spec.action_dim}. It is not this environment's data."
        )
    published = PUBLISHED_STD.get(spec.name)
    if published is not None:
        ratio = episodes.observations.std(axis=0, dtype=np.float64) / np.array(published)
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
    """Fetch one file; it appears at `path` only when its length and stated digest are right."""
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
