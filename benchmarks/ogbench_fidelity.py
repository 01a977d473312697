"""What the regenerated sets of OGBench's mazes hold, beside what OGBench says of its own.

    python benchmarks/ogbench_fidelity.py                       the sets in the cache, as a table
    python benchmarks/ogbench_fidelity.py antmaze-giant-stitch  one of them

Get a set with `vhd data get NAME`, or with `--source build --size 100000` for a sample. An official file that
was downloaded or imported is described in the same columns.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from vhdiffuser.data.store import Dataset, dataset_path
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.registry import environments, get_environment

LAG = 24
"""Steps over which the pace is taken: a few strides of the ant."""
PUBLISHED = {"antmaze-medium-navigate": "10.08 9.52 / 6.20 5.73"}
"""Mean and standard deviation of x and y in an official set, where its users state them."""


def pace(dataset: Dataset) -> list[float]:
    """Quartiles of the distance covered in `LAG` steps, in metres per step."""
    episodes = dataset.episodes
    moved = []
    for number in range(len(episodes)):
        places = episodes.episode(number)[0][:, :2]
        moved.append(np.linalg.norm(places[LAG:] - places[:-LAG], axis=1) / LAG)
    return np.quantile(np.concatenate(moved), [0.25, 0.5, 0.75]).tolist()


def described(name: str) -> str:
    """A row of the table."""
    dataset = load_dataset(name)
    episodes, fallen = dataset.episodes, get_environment(name).has_fallen(dataset.episodes.observations)
    places = episodes.observations[:, :2].astype(np.float64)
    states = sorted(set(np.diff(episodes.ends, prepend=0).tolist()))
    acts = np.concatenate([episodes.episode(number)[1] for number in range(len(episodes))])
    cells = [
        name,
        dataset.source,
        f"{len(episodes):,} x {' or '.join(f'{length:,}' for length in states)}",
        " / ".join(
            " ".join(f"{value:.2f}" for value in values) for values in (places.mean(axis=0), places.std(axis=0))
        ),
        PUBLISHED.get(name, ""),
        " ".join(f"{value:.3f}" for value in pace(dataset)),
        f"{acts.std():.3f}",
        f"{100 * fallen.mean():.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="datasets (default: all of OGBench's mazes that are in the cache)")
    known = [name for name, environment in environments().items() if "ogbench" in environment.protocols]
    names = parser.parse_args().names or [name for name in known if dataset_path(name).is_file()]
    columns = ("dataset", "source", "episodes x states", "xy mean / std", "published", "m per step, quartiles")
    print(f"| {' | '.join((*columns, 'action std', 'fallen %'))} |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in names:
        print(described(name), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
