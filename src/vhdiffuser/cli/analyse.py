"""`vhd analyse`: the paper's analyses, one command each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable, Several
from vhdiffuser.console import err, out, print_json, progress_bar, progress_bars
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from vhdiffuser.analysis.arms import Study
    from vhdiffuser.analysis.needs import Needs
    from vhdiffuser.diffusion.options import OptionChanges
    from vhdiffuser.report.comparison import Comparison
    from vhdiffuser.training.loop import Status

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True, kw_only=True)
class Common:
    """Options of all analyses."""

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    n: int = 500
    """Instances per seed."""
    seeds: tuple[int, ...] = (100,)
    """Test seeds, pooled; 0 to 99 are for development, 100 and above for published figures."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    gamma: Omittable[float] = None
    """Margin on predicted lengths, as in the paper (default: as saved with a planner; without one VHD's, or 1.3)."""
    results: Path = Path("results")
    """Results folder; rows, table and figure go to its subfolder `analysis`, and `vhd report` includes them."""
    train: bool = True
    """Train missing networks with the default recipe (resumable); otherwise a missing one is an error."""
    threads: Omittable[int] = None
    """CPU threads for training (default: one or all cores, whichever is faster at the start)."""
    json: bool = False
    """Print the table as a JSON list."""
    quiet: bool = False
    """No progress bars."""

    def _study(self, protocols: tuple[str, ...]) -> Study:
        from vhdiffuser.analysis.arms import Study

        environment = get_environment(self.env)
        environment.require_simulator()
        return Study(environment, self.results, self.n, self.seeds, protocols, self.weights, self.gamma)

    def _train(self, study: Study, needs: Needs) -> None:
        """Train the networks that the analysis needs and that are missing."""
        from vhdiffuser.analysis.needs import train_missing

        if not self.train:
            return
        with progress_bars(self.quiet) as progress:

            def on_status(run: str, status: Status) -> None:
                note = f"{status.seconds_left / 60:.1f} min left"
                progress(f"training {self.env} {run}", status.update, status.updates, "updates", note)

            train_missing(study, needs, self.threads, on_status)

    def _show(self, analyse: Callable[..., Comparison], name: str) -> None:
        """Run the analysis with a progress bar; print its table and draw its figures."""
        from vhdiffuser.report.analyses import ANALYSES, FOLDER

        with progress_bar(f"analyse {name} {self.env}", "runs", self.quiet) as progress:
            table = analyse(on_row=lambda arm, done, total: progress(done, total, note=arm))
        rows = [row for row in table.rows if row["environment"] == get_environment(self.env).name]
        written = [path for _, path in ANALYSES[name].figures(self.results, self.results / FOLDER)]
        if self.json:
            print_json(rows)
            return
        out.print(table.markdown(), markup=False, highlight=False)
        for path in (table.path, table.markdown_path, *written):
            err.print(f"wrote {path}")


@dataclass(frozen=True, kw_only=True)
class Crops(Common):
    """Effect of variable-length training: planners trained on random or fixed crops, with the same Length Predictors.

    Example: vhd analyse crops maze2d-umaze --n 200
    """

    predictors: tuple[str, ...] = ("default", "paper")
    """Length Predictors, by recipe; train the paper's with `vhd train length ENV --recipe paper`."""
    protocols: tuple[str, ...] = ("ss", "rp")
    """Protocols."""

    def run(self) -> None:
        """Run the analysis."""
        from vhdiffuser.analysis.needs import fixed_horizons
        from vhdiffuser.analysis.studies import crops

        study = self._study(self.protocols)
        self._train(study, fixed_horizons(study, ("fh-lp",)))
        self._show(lambda on_row: crops(study, self.predictors, on_row), "crops")


@dataclass(frozen=True, kw_only=True)
class Mismatch(Common):
    """Robustness to length mismatch: SR and SPL of plans with lambda times their usual length.

    The usual length is L_hat, or a fixed horizon. Examples:

        vhd analyse mismatch maze2d-umaze --n 200
        vhd analyse mismatch maze2d-large --methods vhd fh-lp --scales 0.6 1 1.5
        vhd analyse mismatch maze2d-large --methods vhd --retime 1.25
    """

    scales: tuple[float, ...] = (0.6, 0.8, 1.0, 1.25, 1.5, 2.0)
    """Values of lambda."""
    methods: tuple[str, ...] = ("vhd", "fh-lp", "fh-h1", "fh-h2", "fh-h3")
    """Methods."""
    protocols: tuple[str, ...] = ("ss",)
    """Protocols."""
    piece: Omittable[int] = None
    """States per piece; 0 plans in one piece (default: the planner's own)."""
    retime: Omittable[float] = None
    """Plans shorter than this many times the predicted distance are sampled at that length and sped up (default: the
    planner's own)."""

    def run(self) -> None:
        """Run the analysis."""
        from vhdiffuser.analysis.needs import fixed_horizons
        from vhdiffuser.analysis.studies import mismatch

        study = self._study(self.protocols)
        self._train(study, fixed_horizons(study, self.methods))
        options: OptionChanges = {"piece": self.piece, "retime": self.retime}
        self._show(lambda on_row: mismatch(study, self.scales, self.methods, on_row, **options), "mismatch")


@dataclass(frozen=True, kw_only=True)
class Lengths(Common):
    """Length generalisation: planners that never saw long crops, or crops in a range of lengths, plan at those lengths.

    Example: vhd analyse lengths maze2d-umaze
    """

    def run(self) -> None:
        """Run the analysis."""
        from vhdiffuser.analysis.needs import unseen_lengths
        from vhdiffuser.analysis.studies import lengths

        study = self._study(("ss",))
        self._train(study, unseen_lengths(study))
        self._show(lambda on_row: lengths(study, on_row), "lengths")


@dataclass(frozen=True, kw_only=True)
class Strides(Common):
    """Whether fixed crops generalise to other lengths, by stride: FH+LP and FH-H2, with one network per stride.

    All are trained alike on crops of H2 states. Examples:

        vhd analyse strides maze2d-medium
        vhd analyse strides maze2d-medium --strides 4 16 --updates 2000 --batch-size 64
    """

    strides: tuple[int, ...] = (4, 16)
    """Strides: control steps between the knots of a plan."""
    updates: Omittable[int] = None
    """Updates of each training (default: the recipe's)."""
    batch_size: Omittable[int] = None
    """Crops per update (default: the recipe's)."""
    protocols: tuple[str, ...] = ("ss", "rp")
    """Protocols."""

    def run(self) -> None:
        """Run the analysis."""
        from vhdiffuser.analysis.needs import of_strides
        from vhdiffuser.analysis.studies import strides

        study = self._study(self.protocols)
        self._train(study, of_strides(study, self.strides, self.updates, self.batch_size))
        self._show(lambda on_row: strides(study, self.strides, on_row), "strides")


@dataclass(frozen=True, kw_only=True)
class Seeds(Common):
    """Variation between trainings: VHD's planner and Length Predictor, trained with several seeds.

    Example: vhd analyse seeds maze2d-umaze --training-seeds 0 1 2 --seeds 100 101 102 --n 1000
    """

    training_seeds: tuple[int, ...] = (0, 1, 2)
    """Training seeds; 0 is the usual training."""
    protocols: tuple[str, ...] = ("ss", "rp")
    """Protocols."""

    def run(self) -> None:
        """Run the analysis."""
        from vhdiffuser.analysis.needs import of_seeds
        from vhdiffuser.analysis.studies import seeds

        study = self._study(self.protocols)
        self._train(study, of_seeds(study, self.training_seeds))
        self._show(lambda on_row: seeds(study, self.training_seeds, on_row), "seeds")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Ablation of the Length Predictor: the paper's and the default recipe, leaving out one part at a time.

    All variants are trained for the same number of updates, with phases scaled to fit. Examples:

        vhd analyse terms maze2d-umaze --only paper paper-no-triangle default --updates 2000
        vhd analyse terms maze2d-large --no-train         evaluate existing ones
    """

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    only: Several[str] = ()
    """Variants (default: all)."""
    updates: int = 4000
    """Updates per variant."""
    training_seeds: tuple[int, ...] = (0,)
    """Training seeds; each is a separate run."""
    pairs: int = 2000
    """Random pairs to evaluate on."""
    results: Path = Path("results")
    """Results folder; the table goes to its subfolder `analysis`, and `vhd report` includes it."""
    train: bool = True
    """Train missing variants (resumable)."""
    threads: Omittable[int] = None
    """CPU threads for training (default: one or all cores, whichever is faster at the start)."""
    json: bool = False
    """Print the table as a JSON list."""
    quiet: bool = False
    """No progress bars."""

    def run(self) -> None:
        """Run the analysis."""
        from vhdiffuser.analysis.terms import terms

        environment = get_environment(self.env)
        environment.require_simulator()
        with progress_bar(f"analyse terms {self.env}", "updates", self.quiet) as progress:

            def on_status(run: str) -> Any:
                return lambda status: progress(status.update, status.updates, note=run)

            table = terms(
                environment, self.results, self.only, self.updates, self.training_seeds, self.pairs, self.threads,
                self.train, on_status,
            )  # fmt: skip
        if self.json:
            print_json([row for row in table.rows if row["environment"] == environment.name])
        else:
            out.print(table.markdown(), markup=False, highlight=False)
            err.print(f"wrote {table.path}")


@dataclass(frozen=True, kw_only=True)
class Curve(Common):
    """Learning curves: success against updates, from the snapshots of a training run.

    Snapshots are kept with `--snapshot-every`. Examples:

        vhd train planner maze2d-umaze --recipe paper --snapshot-every 5000
        vhd analyse curve maze2d-umaze --runs vhd-paper --n 100 --seeds 7
    """

    runs: tuple[str, ...] = ("vhd-paper",)
    """Runs with snapshots. Runs whose names end with `-paper` use the paper's Length Predictor."""
    protocols: tuple[str, ...] = ("ss", "rp")
    """Protocols."""

    def run(self) -> None:
        """Run the analysis."""
        from vhdiffuser.analysis.studies import curve

        study = self._study(self.protocols)
        self._show(lambda on_row: curve(study, self.runs, on_row), "curve")


@dataclass(frozen=True)
class Analyse:
    """The paper's analyses. Finished rows and trainings are kept: run the same command again to continue."""

    command: Annotated[
        Annotated[Crops, tyro.conf.subcommand("crops")]
        | Annotated[Mismatch, tyro.conf.subcommand("mismatch")]
        | Annotated[Lengths, tyro.conf.subcommand("lengths")]
        | Annotated[Strides, tyro.conf.subcommand("strides")]
        | Annotated[Seeds, tyro.conf.subcommand("seeds")]
        | Annotated[Terms, tyro.conf.subcommand("terms")]
        | Annotated[Curve, tyro.conf.subcommand("curve")],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        """Run the subcommand."""
        self.command.run()
