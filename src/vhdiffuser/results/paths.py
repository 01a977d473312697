"""Names of results files: one per environment, method, protocol, distribution of instances and seed."""

from __future__ import annotations

from pathlib import Path

PAIRS = "pairs"
"""Distribution of instances from a user's file."""


def result_path(
    folder: Path, environment: str, method: str, protocol: str, seed: int, distribution: str = "reset"
) -> Path:
    """Path of the rows: `ENV/METHOD-PROTOCOL[-DISTRIBUTION]-SEED.jsonl`. The environment's own distribution, `reset`,
    is not named."""
    drawn = "" if distribution == "reset" else f"-{distribution}"
    return folder / environment / f"{method}-{protocol}{drawn}-{seed}.jsonl"


def rollout_path(rows: Path, number: int) -> Path:
    """Path of an instance's saved rollout: in `rollouts/`, next to its rows."""
    return rows.parent / "rollouts" / f"{rows.stem}-{number}.npz"


def plans_path(folder: Path, environment: str) -> Path:
    """Path of the plans of Fig. 1."""
    return folder / environment / "plans.npz"
