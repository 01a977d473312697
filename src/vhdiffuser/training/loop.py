"""One training loop for every network: planner, Length Predictor, inverse dynamics.

Randomness is a function of (seed, process, update) alone: each update's generator is seeded anew, so a
run that was killed and resumed makes the same updates as one that was not, on any number of processes.
"""

from __future__ import annotations

import atexit
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from vhdiffuser.errors import DataError, Interrupted, VhdError
from vhdiffuser.files import sha256
from vhdiffuser.modelfile import ModelHeader, load_model, save_model
from vhdiffuser.training.checkpoint import load_checkpoint, save_checkpoint
from vhdiffuser.training.device import pick_device, pick_precision
from vhdiffuser.training.muon import Muon
from vhdiffuser.training.task import Task

Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True)
class LoopConfig:
    """How long, how fast and where to train."""

    updates: int = 10_000
    """Gradient updates in all."""
    minutes: float | None = None
    """Stop after this many minutes of training, if that comes first; the learning rate decays to fit."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """AdamW, or Muon for the convolutions and AdamW for the rest."""
    learning_rate: float = 2e-4
    """Peak learning rate."""
    warmup: int = 200
    """Updates over which the learning rate rises from 0."""
    final_rate: float = 0.05
    """Share of the peak learning rate at the end of the cosine decay."""
    weight_decay: float = 1e-4
    """Weight decay, apart from the gradient."""
    clip: float = 1.0
    """Largest gradient norm."""
    ema: float = 0.999
    """Decay of the weights' exponential moving average, which is what is saved and used."""
    precision: Precision = "auto"
    """`auto` takes bf16 where the device computes in it, fp32 elsewhere."""
    device: str = "auto"
    """`auto`, or a torch device such as `cpu` or `cuda`."""
    threads: int | None = None
    """CPU threads; torch's own choice by default."""
    seed: int = 0
    """Seed of the weights and of every mini-batch."""
    checkpoint_minutes: float = 3.0
    """Minutes between two checkpoints."""
    log_every: int = 50
    """Updates between two lines of the log."""


@dataclass(frozen=True)
class Status:
    """Where training stands; handed to `report` at each log line."""

    update: int
    updates: int
    metrics: dict[str, float]
    seconds: float
    """Seconds trained so far, over all sessions."""
    seconds_left: float


def train(
    make_task: Callable[[torch.device], Task],
    config: LoopConfig,
    folder: Path,
    report: Callable[[Status], None],
    begin_with: Path | None = None,
) -> Path:
    """Train in `folder`, going on from its checkpoint if there is one; returns the model file's path.

    A fresh run begins with random weights, or with those of the model file `begin_with` (fine-tuning).
    Ctrl-C and SIGTERM raise `Interrupted` once the checkpoint is written. A run that is finished already is
    left as it is, to the byte.
    """
    from accelerate import Accelerator

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    device = pick_device(config.device)
    accelerator = Accelerator(
        mixed_precision="bf16" if pick_precision(config.precision, device) == "bf16" else "no",
        cpu=device.type == "cpu",
    )
    if accelerator.num_processes > 1:  # a process that ends without it may abort, or hang the others
        atexit.register(accelerator.state.destroy_process_group)
    task = make_task(accelerator.device)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        network = task.make_network().to(accelerator.device)
        ema = task.make_network().to(accelerator.device)
    if begin_with is not None:
        _load_weights(network, begin_with, task.header().kind)
    ema.load_state_dict(network.state_dict())
    ema.requires_grad_(False)
    optimizer = make_optimizer(config, network)
    first, seconds_before = load_checkpoint(folder, task, config, network, ema, optimizer)
    wrapped, optimizer = accelerator.prepare(network, optimizer)
    generator = torch.Generator(accelerator.device)
    log = _Log(folder, first) if accelerator.is_main_process else None

    def agreed(seconds: float, stop: list[int]) -> tuple[float, int]:
        """The first process's clock and anyone's signal (0: none): all must learn at one rate and end at one update."""
        signalled = stop[0] if stop else 0
        if accelerator.num_processes == 1:
            return seconds, signalled
        told = accelerator.gather(torch.tensor([[seconds, signalled]], device=accelerator.device))  # (processes, 2)
        return float(told[0, 0]), int(told[:, 1].max())

    def checkpoint(update: int, seconds: float) -> None:
        if accelerator.is_main_process:
            save_checkpoint(folder, task, config, network, ema, optimizer.state_dict(), update, seconds)

    began = last_checkpoint = time.monotonic()
    update, metrics = first, {"loss": float("nan")}
    network.train()
    with _stop_signals() as stop:
        while update < config.updates:
            seconds, signalled = agreed(seconds_before + time.monotonic() - began, stop)
            if signalled:
                checkpoint(update, seconds)
                accelerator.wait_for_everyone()
                raise Interrupted(
                    signalled,
                    f"stopped at update {update}; the checkpoint in {folder} is written. "
                    "Run the same command to go on.",
                )
            progress = update / config.updates
            if config.minutes is not None:
                progress = max(progress, seconds / (60 * config.minutes))
                if progress >= 1:
                    break
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(config, update, progress)
            generator.manual_seed(_update_seed(config.seed, accelerator.process_index, update))
            with accelerator.autocast():
                loss, scalars = task.loss(wrapped, ema, generator, update)
            optimizer.zero_grad(set_to_none=True)
            accelerator.backward(loss)
            norm = accelerator.clip_grad_norm_(wrapped.parameters(), config.clip)
            optimizer.step()
            _update_ema(ema, network, min(config.ema, (1 + update) / (10 + update)))
            update += 1

            if update % config.log_every == 0 or update == config.updates:
                metrics = {"loss": loss.item(), "gradient_norm": float(norm)} | {
                    k: float(v) for k, v in scalars.items()
                }
                if not np.isfinite(metrics["loss"]):
                    raise VhdError(
                        f"the loss became {metrics['loss']} at update {update}. The last checkpoint in {folder} is "
                        "sound; resume with a lower --learning-rate or --precision fp32."
                    )
                seconds = seconds_before + time.monotonic() - began
                left = seconds * (1 / max(progress, 1e-9) - 1)
                status = Status(update, config.updates, metrics, seconds, left)
                if log is not None:
                    log.write(status, optimizer.param_groups[0]["lr"])
                    report(status)
            if time.monotonic() - last_checkpoint > 60 * config.checkpoint_minutes:
                checkpoint(update, seconds_before + time.monotonic() - began)
                last_checkpoint = time.monotonic()
    trained = update > first
    seconds = seconds_before + (time.monotonic() - began if trained else 0.0)
    if trained or not first:
        checkpoint(update, seconds)
    path = folder / "model.safetensors"
    if accelerator.is_main_process:
        header = replace(task.header(), updates=update)
        earlier = None if trained else _earlier_header(path, header)
        if earlier is None:
            notes = {"minutes": round(seconds / 60, 2), "loop": asdict(config), **header.notes}
            if begin_with is not None:
                notes["began_with"] = sha256(begin_with)[:12]
            header = replace(header, notes={**notes, "loss": metrics["loss"]} if trained else notes)
        else:  # its notes tell of the training, and there was none since
            header = replace(header, notes=earlier.notes)
        # A model that is written again has another digest, and benchmark rows of the same weights would be refused.
        if earlier is None or _as_json(earlier) != _as_json(header):
            save_model(path, ema.state_dict(), header)
    accelerator.wait_for_everyone()
    return path


def _load_weights(network: nn.Module, path: Path, kind: str) -> None:
    try:
        network.load_state_dict(load_model(path, kind)[0])
    except RuntimeError as error:
        raise DataError(
            f"{path}: its weights do not fit the network to be trained. Begin with a model of the same recipe and "
            "dimensions, or without one."
        ) from error


def make_optimizer(config: LoopConfig, network: nn.Module) -> torch.optim.Optimizer:
    """The optimiser that the configuration names."""
    if config.optimizer == "muon":
        return Muon(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    return torch.optim.AdamW(
        network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )


def learning_rate(config: LoopConfig, update: int, progress: float) -> float:
    """Linear warm-up, then a cosine from the peak to `final_rate` of it."""
    cosine = config.final_rate + (1 - config.final_rate) * 0.5 * (1 + np.cos(np.pi * min(progress, 1.0)))
    return config.learning_rate * min(1.0, (update + 1) / max(config.warmup, 1)) * float(cosine)


def _update_seed(seed: int, process: int, update: int) -> int:
    return int(np.random.SeedSequence([seed, process, update]).generate_state(1, np.uint64)[0] >> 1)


def _update_ema(ema: nn.Module, network: nn.Module, decay: float) -> None:
    """ema <- decay * ema + (1 - decay) * network; buffers are the same in both."""
    with torch.no_grad():
        torch._foreach_lerp_(list(ema.parameters()), list(network.parameters()), 1.0 - decay)


def _earlier_header(path: Path, header: ModelHeader) -> ModelHeader | None:
    """The header of the model that a session before wrote after as many updates, if it did and is whole."""
    try:
        _, earlier = load_model(path, header.kind)
    except DataError:
        return None
    return earlier if earlier.updates == header.updates else None


def _as_json(header: ModelHeader) -> dict[str, Any]:
    """The header as a file gives it back: JSON knows no tuples."""
    return json.loads(json.dumps(asdict(header)))


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """A list that gets an entry on Ctrl-C or SIGTERM, so that the update under way ends first."""
    caught: list[int] = []
    try:
        before = {s: signal.signal(s, lambda number, _: caught.append(number)) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever runs us there handles signals
        yield caught
        return
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Log:
    """`log.jsonl` and TensorBoard; lines after the checkpoint we resume from are dropped."""

    def __init__(self, folder: Path, first: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        if self.path.exists():
            lines = [line for line in self.path.read_text().splitlines() if _update_of(line) <= first]
            self.path.write_text("".join(line + "\n" for line in lines))
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=first)

    def write(self, status: Status, rate: float) -> None:
        entry: dict[str, Any] = {"update": status.update, "seconds": round(status.seconds, 1), "learning_rate": rate}
        with open(self.path, "a") as file:
            file.write(json.dumps({**entry, **status.metrics}) + "\n")
        for name, value in status.metrics.items():
            self.board.add_scalar(name, value, status.update)


def _update_of(line: str) -> float:
    try:
        return json.loads(line)["update"]
    except (ValueError, KeyError):  # the last line of a killed run may be torn
        return float("inf")
