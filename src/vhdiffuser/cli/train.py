"""`vhd train planner | length | dynamics`: each resumable, on the one loop of `vhdiffuser.training`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.console import out, print_json, progress_bar
from vhdiffuser.data.store import Dataset
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.errors import VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.training.loop import LoopConfig, Precision, Status, train
from vhdiffuser.weights.places import find_model, run_folder, run_name

if TYPE_CHECKING:
    import torch

    from vhdiffuser.diffusion.task import StepsBetween
    from vhdiffuser.training.task import Task


Name = Annotated[str, tyro.conf.arg(metavar="ENV")]

PLANNER_LOOP = LoopConfig(updates=8_000, optimizer="muon", learning_rate=1e-3)
"""How the default recipe trains a planner."""
PAPER_LOOP: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 2e-4,
    "weight_decay": 0.0,
    "final_rate": 1.0,
    "warmup": 1,
    "accumulate": 2,
    "clip": None,
    "ema": 0.995,
    "ema_every": 10,
    "ema_from": 2000,
}
"""Diffuser's training, where the paper is silent: Adam (no decay) at a constant rate, two batches an update, gradients
as they are, and an average of every tenth update's weights from update 2,000 on."""


Recipe = Literal["default", "paper"]


@dataclass(frozen=True)
class LoopOptions:
    """How long, how fast and where to train; what is given here wins over the recipe."""

    updates: int | None = None
    """Gradient updates in all (default: 8,000)."""
    minutes: float | None = None
    """Stop after this many minutes of training, if that comes first; the learning rate decays to fit."""
    optimizer: Literal["adamw", "muon"] | None = None
    """AdamW, or Muon for the convolutions and AdamW for the rest (default: the recipe's)."""
    learning_rate: float | None = None
    """Peak learning rate (default: the recipe's)."""
    warmup: int | None = None
    """Updates over which the learning rate rises from 0 (default: the recipe's)."""
    final_rate: float | None = None
    """Share of the peak learning rate at the end of the cosine decay (default: the recipe's)."""
    weight_decay: float | None = None
    """Weight decay, apart from the gradient (default: the recipe's)."""
    accumulate: int | None = None
    """Mini-batches whose gradients make one update (default: the recipe's)."""
    clip: float | None = None
    """Largest gradient norm; `inf` for no clipping (default: the recipe's)."""
    ema: float | None = None
    """Decay of the weights' exponential moving average (EMA), which is saved and used (default: the recipe's)."""
    ema_every: int | None = None
    """Updates between two steps of the EMA (default: the recipe's)."""
    ema_from: int | None = None
    """Update at which averaging begins; before it the EMA is the network itself (default: the recipe's)."""
    precision: Precision | None = None
    """`auto` takes bf16 where the device computes in it, fp32 elsewhere (default: auto)."""
    device: str | None = None
    """`auto`, or a torch device such as `cpu` or `cuda` (default: auto)."""
    threads: int | None = None
    """CPU threads; torch's own choice by default."""
    seed: int | None = None
    """Seed of the weights and of every mini-batch (default: 0)."""
    checkpoint_minutes: float | None = None
    """Minutes between two checkpoints (default: 3)."""
    log_every: int | None = None
    """Updates between two lines of the log (default: 50)."""

    def over(self, recipe: LoopConfig) -> LoopConfig:
        """The recipe's loop with the options that were given."""
        given = {key: value for key, value in vars(self).items() if value is not None}
        if self.clip == math.inf:
            given["clip"] = None  # no clipping, which is not the same as an option that was not given
        return replace(recipe, **given)


@dataclass(frozen=True)
class Common:
    """Options of every training."""

    env: Positional[Name]
    """Environment, or the name of an imported dataset."""
    name: str | None = None
    """Name of the run (default: from the recipe)."""
    begin_with: str | None = None
    """Fine-tune: begin with the weights of this run of the environment, or of this model file."""
    restart: bool = False
    """Train a run of this name from the beginning; the old one stays until the new one has its first checkpoint."""
    quiet: bool = False
    """No progress bar."""
    json: bool = False
    """Print the result as one JSON object."""

    def _train(self, name: str, loop: LoopConfig, make: Callable[[Dataset, Any], Task]) -> None:
        dataset = load_dataset(self.env)
        folder = run_folder(self.env, self.name or name)
        # Of the processes that torchrun or accelerate started together, one speaks.
        first = os.environ.get("RANK", "0") == "0"
        last: dict[str, Any] = {}
        with progress_bar(f"training {self.env} {folder.name}", "updates", self.quiet or not first) as progress:

            def report(status: Status) -> None:
                last.update(status.metrics, update=status.update, minutes=round(status.seconds / 60, 2))
                # The bar's own estimate forgets earlier sessions and the time budget; ours does not.
                note = f"loss {status.metrics['loss']:.4f}, {status.seconds_left / 60:.1f} min to go"
                progress(status.update, status.updates, note=note)

            path = train(lambda device: make(dataset, device), loop, folder, report, self._begin_with(), self.restart)
        if not first:
            return
        if self.json:
            print_json({"model": str(path), **last})
        else:
            out.print(f"model: {path}")

    def _begin_with(self) -> Path | None:
        if self.begin_with is None:
            return None
        path = Path(self.begin_with)
        return path if path.is_file() else run_folder(self.env, self.begin_with) / "model.safetensors"


@dataclass(frozen=True)
class TrainPlanner(Common):
    """Train a diffusion planner (Algorithm 1) on random-length crops, or on one horizon.

    Resumes by itself: stop it with Ctrl-C, run the same command again. Examples:

        vhd train planner maze2d-umaze
        vhd train planner maze2d-umaze --horizon 128          the fixed-horizon baseline
        vhd train planner maze2d-umaze --recipe paper --minutes 30
    """

    recipe: Recipe = "default"
    """`default` is what measured best on two cores; `paper` the paper's, with Diffuser's values where it is silent."""
    horizon: int | None = None
    """Train on crops of this many states only."""
    prediction: Literal["epsilon", "sample", "v_prediction"] | None = None
    """What the network predicts (default: the recipe's)."""
    stride: int | None = None
    """Control steps between two knots (default: the recipe's)."""
    clamp: Literal["goal", "state"] | None = None
    """What is fixed of the last state (default: the recipe's)."""
    directness: float | None = None
    """Keep crops at most this many times as long as the Length Predictor says; needs a trained one. `inf` keeps every
    crop (default: the recipe's)."""
    dim: int | None = None
    """Channels of the U-Net's first level (default: the recipe's)."""
    dim_mults: tuple[int, ...] | None = None
    """Channel multiples of the U-Net's levels (default: the recipe's)."""
    diffusion_steps: int | None = None
    """Levels of the noise schedule (default: the recipe's)."""
    batch_size: int | None = None
    """Crops in one update (default: the recipe's)."""
    loop: LoopOptions = field(default_factory=LoopOptions)

    def run(self) -> None:
        """Train."""

        def make(dataset: Dataset, device: torch.device) -> Task:
            from vhdiffuser.diffusion.options import PlanningOptions
            from vhdiffuser.diffusion.task import PlannerTask

            planning = PlanningOptions.paper if self.recipe == "paper" else PlanningOptions.default
            config, normalizer = self._config(dataset), dataset.normalizer()
            return PlannerTask(
                dataset.episodes,
                dataset.spec,
                config,
                normalizer,
                dataset.fingerprint(),
                device,
                None if config.directness is None else _steps_between(self.env, normalizer, device),
                planning(dataset.spec),
            )

        self._train(run_name("planner", self.recipe, self.horizon), self._loop(), make)

    def _loop(self) -> LoopConfig:
        """The recipe's, with what was given."""
        return self.loop.over(replace(PLANNER_LOOP, **PAPER_LOOP) if self.recipe == "paper" else PLANNER_LOOP)

    def _config(self, dataset: Dataset) -> PlannerConfig:
        base = PlannerConfig.paper(dataset.spec) if self.recipe == "paper" else PlannerConfig.default(dataset.spec)
        if self.horizon is not None:  # it must serve every distance
            base = replace(base, directness=None)
        names = (
            "horizon",
            "prediction",
            "stride",
            "clamp",
            "directness",
            "dim",
            "dim_mults",
            "diffusion_steps",
            "batch_size",
        )
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.directness is not None and math.isinf(self.directness):
            given["directness"] = None  # every crop, and no Length Predictor to ask
        return replace(base, **given)


def _steps_between(env: str, normalizer: Normalizer, device: torch.device) -> StepsBetween:
    """The environment's Length Predictor, which must know the same data."""
    from vhdiffuser.length.predictor import LengthPredictor

    path = find_model(env, "length", "trained")
    if not path.is_file():
        raise VhdError(f"a Length Predictor chooses the crops, and there is none. Run `vhd train length {env}` first.")
    predictor = LengthPredictor.load(path, device)
    if predictor.normalizer.to_json() != normalizer.to_json():
        raise VhdError(f"{path} was trained on other data. Run `vhd train length {env} --restart` first.")
    return predictor.steps_between


@dataclass(frozen=True)
class TrainLength(Common):
    """Train a Length Predictor: the shortest-step distance between states, from offline data alone.

    Example: vhd train length maze2d-large
    """

    recipe: Recipe = "default"
    """`default` is what measured best on two cores; `paper` the paper's, with Diffuser's values where it is silent."""
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(updates=4_000, learning_rate=1e-3))

    def run(self) -> None:
        """Train."""

        def make(dataset: Dataset, device: torch.device) -> Task:
            from vhdiffuser.length.config import LengthConfig
            from vhdiffuser.length.task import LengthTask

            config = LengthConfig.paper() if self.recipe == "paper" else LengthConfig()
            return LengthTask(
                dataset.episodes, dataset.spec, config, dataset.normalizer(), dataset.fingerprint(), device
            )

        self._train(run_name("length", self.recipe), self.loop, make)


@dataclass(frozen=True)
class TrainDynamics(Common):
    """Train an inverse dynamics model: the action from an observation and the plan ahead.

    Example: vhd train dynamics antmaze-medium
    """

    loop: LoopConfig = field(default_factory=lambda: LoopConfig(updates=20_000, learning_rate=5e-4))

    def run(self) -> None:
        """Train."""

        def make(dataset: Dataset, device: torch.device) -> Task:
            from vhdiffuser.control.dynamics_task import DynamicsTask
            from vhdiffuser.control.inverse_dynamics import DynamicsConfig

            spec = dataset.spec
            return DynamicsTask(
                dataset.episodes,
                spec,
                DynamicsConfig.for_env(spec),
                Normalizer.fit(dataset.episodes.observations),
                dataset.fingerprint(),
                device,
            )

        self._train(run_name("dynamics"), self.loop, make)


@dataclass(frozen=True)
class Train:
    """Train a network. Every training checkpoints itself and goes on where it stopped."""

    command: (
        Annotated[TrainPlanner, tyro.conf.subcommand("planner")]
        | Annotated[TrainLength, tyro.conf.subcommand("length")]
        | Annotated[TrainDynamics, tyro.conf.subcommand("dynamics")]
    )

    def run(self) -> None:
        """Run the training chosen."""
        self.command.run()
