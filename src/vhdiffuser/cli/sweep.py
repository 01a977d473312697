"""`vhd sweep`: train and evaluate a grid of recipe settings over environments and seeds, with a table and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.recipes.recipe import RecipeName


@dataclass(frozen=True)
class SweepCommand:
    """Train and evaluate a grid of recipe settings, and compare them.

    Each point has one value of each field. Points share trainings where they can; fields of `planning` need none. If
    interrupted, run the same command again. The result is table.md, table.csv and parallel.png in the output
    folder. Examples:

        vhd sweep maze2d-umaze --grid planning.gamma=1.1,1.2,1.3 planning.steps=3,5,10 --out sweeps/gamma
        vhd sweep maze2d-umaze maze2d-medium --grid planner.stride=4,8 planner_loop.updates=2000 --seeds 0 1 2
        vhd sweep maze2d-umaze --grid planner.dim_mults=[1,2,4],[1,4,8] --ray auto
        vhd sweep maze2d-umaze --grid planner.stride=4,8 --dry-run
    """

    envs: Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="ENV [ENV ...]")]]
    """Environments: see `vhd envs`."""
    grid: tuple[str, ...]
    """Fields and their values: PART.FIELD=VALUE,VALUE (`vhd recipes show ENV` lists parts and fields). One value sets a
    field for all points."""
    recipe: RecipeName = "default"
    """Recipe to vary."""
    seeds: tuple[int, ...] = (0,)
    """Training seeds."""
    n: int = 100
    """Instances per point and protocol."""
    protocols: tuple[str, ...] = ("ss",)
    """Protocols, as in `vhd bench`; the first one ranks the points."""
    test_seed: int = 0
    """Seed of the instances: 0 to 99, because a sweep is used for tuning."""
    out: Path = Path("sweep")
    """Results folder."""
    workers: int = 0
    """Single-threaded processes to run at a time; 0 means one per core."""
    ray: Omittable[str] = None
    """Run on a Ray cluster (extra `ray`): its address, or auto for the one running here. All nodes must see the same
    VHD_HOME and output folder."""
    dry_run: bool = False
    """Print what would be run."""
    json: bool = False
    """Print the results as a JSON list."""
    quiet: bool = False
    """No progress bar, no messages."""

    def run(self) -> None:
        """Run what is missing and compare."""
        from vhdiffuser.benchmark.sweep import Sweep, SweepConfig, parse_grid
        from vhdiffuser.cluster import make_pool
        from vhdiffuser.report.sweep_tables import columns_of, write_sweep

        config = SweepConfig(
            self.envs, parse_grid(self.grid), self.recipe, self.seeds, self.n, self.protocols, self.test_seed
        )
        sweep = Sweep(config, self.out)
        tasks = sweep.tasks()
        if self.dry_run:
            if self.json:
                print_json([{"task": name, "needs": list(task.needs)} for name, task in tasks.items()])
            for name, task in () if self.json else tasks.items():
                out.print(name + (f"   (after {', '.join(task.needs)})" if task.needs else ""))
            return
        if tasks:
            pool = make_pool(self.ray, self.workers)
            with progress_bar(f"sweep of {len(config.points())} points", "tasks", self.quiet) as progress:
                progress(0, len(tasks))
                for done, (name, total) in enumerate(sweep.run(pool), start=1):
                    progress(done, total, note=name)
        results = sweep.results()
        written = write_sweep(self.out, results, self.protocols)
        if self.json:
            print_json(results)
            return
        heading, rows = columns_of(results, self.protocols)
        widths = [max(len(str(row[column])) for row in [heading, *rows]) for column in range(len(heading))]
        for row in [heading, *rows]:
            out.print("  ".join(str(value).rjust(width) for value, width in zip(row, widths, strict=True)))
        if not self.quiet:
            err.print(f"wrote {', '.join(str(path) for path in written)}")
