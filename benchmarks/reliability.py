"""Reliability diagrams of all shipped calibrations in one figure, from the committed rows of `vhd calibrate --check`.

    python benchmarks/reliability.py --out docs/images/calibration-all.png

One panel per environment: promised against realised failure rates at risks of 0.2, 0.1, 0.05 and 0.01, with 95 %
intervals. Nothing is executed: an environment without rows of its shipped calibration is left out, and named.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vhdiffuser.benchmark.calibrate import DISTRIBUTIONS
from vhdiffuser.benchmark.calibration_check import RISKS, check_calibration
from vhdiffuser.benchmark.methods import load_method
from vhdiffuser.control.base import default_controller
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.files import atomic_path
from vhdiffuser.planner.planner import Planner
from vhdiffuser.report.calibration_figures import reliability_overview
from vhdiffuser.results.rows import ResultFile, read_folder
from vhdiffuser.weights.places import shipped_environments


def checked(name: str, drawn: str, files: Sequence[ResultFile], rows: Path) -> list[dict[str, Any]] | None:
    """The check of a shipped calibration on instances of a distribution; None unless it was made on one seed."""
    own = [item for item in files if (item.config["environment"], item.distribution) == (name, drawn)]
    found = {(item.config["seed"], len(item.rows)) for item in own}
    if len(found) != 1:
        return None
    ((seed, n),) = found
    environment, choice = get_environment(name), load_method("vhd", name, "shipped")
    assert isinstance(choice.planner, Planner)
    return check_calibration(
        choice.planner, environment, rows, n, seed, distribution=drawn, models=choice.models,
        controller=default_controller(environment.spec, "shipped"),
    )  # fmt: skip


def off(results: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Number of shares, overall and by distance band, that miss their promise beyond chance, and of all shares."""
    shares = [share for one in results if one["risk"] is not None for share in (one, *one["bands"].values())]
    ends = [(*share["failure_interval"], share["promised_failure"]) for share in shares]
    return sum(not low <= promised <= high for low, high, promised in ends), len(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, default=Path("results/analysis/calibration"), help="folder of rows")
    parser.add_argument("--out", type=Path, default=Path("out/calibration-all.png"), help="figure to write")
    given = parser.parse_args()
    results, files = {}, read_folder(given.rows)
    for name, drawn in itertools.product(shipped_environments(), DISTRIBUTIONS):
        found = checked(name, drawn, files, given.rows)
        title = name if drawn == "reset" else f"{name}, {drawn}"
        if found is None:
            print(f"{title}: no rows, or rows of several seeds")
            continue
        results[title] = found
        missed, shares = off(found)
        print(f"{title}: {missed} of {shares} shares off at risks {', '.join(map(str, RISKS))}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(given.out) as temporary:
        reliability_overview(results, temporary)
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
