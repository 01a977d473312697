"""Install torch into the Python that runs this: the small CPU build, or the one with CUDA.

    python tools/install_torch.py cpu

On Linux, pip brings gigabytes of CUDA along unless it is pointed at another index. So pip is asked first what it
would install. If that is what was asked for, pip installs it; otherwise uv does, which knows where PyTorch
keeps its builds. Where that place cannot be reached, pip's own build is installed, and a line says so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from constraints import LOCK, without_hashes

UV_BACKENDS = {"cpu": "cpu", "cuda": "auto"}
"""uv's names of the builds; `auto` looks at the driver for the version of CUDA."""

CUDA_PACKAGES = ("nvidia-", "cuda-", "triton")
"""Beginnings of the names of packages that only a CUDA build needs."""


def is_cuda(report: str) -> bool:
    """Whether an installation report of pip has packages of CUDA in it."""
    names = [item["metadata"]["name"].lower() for item in json.loads(report)["install"]]
    return any(name.startswith(CUDA_PACKAGES) for name in names)


def install(build: str, requirement: str = "torch") -> None:
    """Install the build `cpu` or `cuda`; the version is the lock file's where the requirement leaves it open."""
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text(without_hashes(LOCK.read_text(encoding="utf-8")), encoding="utf-8")
        _install(build, ["--quiet", "--constraint", str(constraints), requirement])


def _install(build: str, wanted: list[str]) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    if is_cuda(_run([*pip, "--dry-run", "--ignore-installed", "--report", "-", *wanted]).stdout) != (build == "cuda"):
        _run([*pip, "--quiet", "uv"])
        uv = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable]
        done = _run([*uv, "--torch-backend", UV_BACKENDS[build], *wanted], check=False)
        if done.returncode == 0:
            return
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1].strip()
        print(f"torch: PyTorch's own {build} build could not be had ({last}); installing pip's.", file=sys.stderr)
    _run([*pip, *wanted])


def _run(command: Sequence[str], check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"torch: {' '.join(command)} failed:\n{done.stderr}")
    return done


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", choices=list(UV_BACKENDS))
    parser.add_argument("requirement", nargs="?", default="torch", help="for example torch==2.6.0 (default: torch)")
    chosen = parser.parse_args()
    install(chosen.build, chosen.requirement)
