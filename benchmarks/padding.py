"""Success of FH+LP by the padding of its plans, from rows of a benchmark: a network trained at one length knows one.

    python benchmarks/padding.py maze2d-large

The U-Net pads a plan's K knots to a multiple of 4. Rows are grouped by K mod 4, with K as the predicted length asks for
it, and `seen` is the group of the crops that the network was trained on. Rows of the first release sampled exactly K
knots; today the nearest number with the padding of training is sampled.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vhdiffuser.diffusion.interpolation import knot_count
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.results.rows import Row, read_folder
from vhdiffuser.results.summary import wilson_interval


def by_padding(rows: list[Row], stride: int, multiple: int) -> dict[int, list[bool]]:
    """Outcomes by the remainder of each plan's knots."""
    found: dict[int, list[bool]] = {}
    for row in rows:
        found.setdefault(knot_count(row.planned_length, stride) % multiple, []).append(row.success)
    return dict(sorted(found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("env", help="environment with rows of FH+LP")
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder")
    given = parser.parse_args()
    environment = get_environment(given.env)
    config = get_recipe(environment).planner
    multiple, H = 2 ** (len(config.dim_mults) - 1), environment.horizons[1]
    seen = knot_count(H, config.stride) % multiple
    folder = given.results / environment.name
    files = [
        item for item in read_folder(folder) if (item.config["method"], item.config["protocol"]) == ("fh-lp", "ss")
    ]
    for streams in sorted({item.streams for item in files}):
        rows = [row for item in files if item.streams == streams for row in item.rows]
        print(f"{environment.name}: FH+LP single-shot, random streams {streams}, {len(rows)} instances")
        for remainder, hits in by_padding(rows, config.stride, multiple).items():
            low, high = wilson_interval(sum(hits), len(hits))
            mark = "  seen" if remainder == seen else ""
            share = sum(hits) / len(hits)
            print(f"  K mod {multiple} = {remainder}: {share:6.1%} [{low:.1%}, {high:.1%}] of {len(hits)}{mark}")


if __name__ == "__main__":
    main()
