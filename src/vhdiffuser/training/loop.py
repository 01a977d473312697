"""One training loop for all networks: planner, Length Predictor, inverse dynamics.

Randomness depends only on (seed, mini-batch, update): each mini-batch of an update has a freshly seeded generator. So a
run that was killed and resumed makes the same updates as an uninterrupted one, and n processes sharing an update's
mini-batches make the same updates as one process.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vhdiffuser.devices import pick_device
from vhdiffuser.errors import DataError, Interrupted, VhdError
from vhdiffuser.files import sha256
from vhdiffuser.locks import exclusive
from vhdiffuser.signals import noted_signals
from vhdiffuser.threads import torch_threads, use_faster_threads
from vhdiffuser.torch_network import arrays, state_dict
from vhdiffuser.training.checkpoint import load_checkpoint, save_checkpoint, saved_update
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.log import TrainingLog
from vhdiffuser.training.memory import keep_freed_memory
from vhdiffuser.training.optimizer import learning_rate, make_optimizer
from vhdiffuser.training.precision import InPrecision, pick_precision
from vhdiffuser.training.processes import Processes
from vhdiffuser.training.task import Task
from vhdiffuser.weights.format import ModelHeader, load_model, not_finite, save_model

_EXPLODED = 1e4
"""A loss of this many times the session's first loss counts as diverged."""
_SMALL = 0.01
"""First losses below this count as this value, since a network that starts out perfect may get worse."""
SNAPSHOTS = "snapshots"
"""Folder of a run's snapshots, next to its checkpoint."""


@dataclass(frozen=True)
class Status:
    """Progress of training, passed to `report` at each log line."""

    update: int
    updates: int
    metrics: dict[str, float]
    seconds: float
    """Seconds trained so far, including earlier sessions."""
    seconds_left: float


def train(
    make_task: Callable[[torch.device], Task],
    config: LoopConfig,
    folder: Path,
    report: Callable[[Status], None],
    begin_with: Path | None = None,
    restart: bool = False,
) -> Path:
    """Train in `folder`, resuming from its checkpoint if there is one; returns the path of the model file.

    A new run starts from random weights, or from the model file `begin_with` (fine-tuning). `restart` starts the run in
    `folder` over; the old files are kept until the new run's first checkpoint. Ctrl-C, SIGTERM and SIGHUP raise
    `Interrupted` after a checkpoint is written; a second signal raises it at once. The files of a finished run are not
    changed. Raises `VhdError` if another process is training in `folder`.
    """
    keep_freed_memory()
    # Among several processes, only the first writes and takes the lock.
    alone = exclusive(folder, "training in it") if os.environ.get("RANK", "0") == "0" else nullcontext()
    with alone, torch_threads(config.threads):
        run = _Run(make_task, config, folder, report, begin_with, restart)
        if config.threads is None and run.processes.device.type == "cpu" and run.update < config.updates:
            use_faster_threads(run.try_gradient)
        with noted_signals() as stop:
            while run.update < config.updates:
                progress = run.progress(stop)
                if progress >= 1:
                    break
                run.make_update(progress)
        return run.finish()


class _Run:
    """A training in progress."""

    def __init__(
        self,
        make_task: Callable[[torch.device], Task],
        config: LoopConfig,
        folder: Path,
        report: Callable[[Status], None],
        begin_with: Path | None,
        restart: bool,
    ) -> None:
        self.config, self.folder, self.report = config, folder, report
        self.processes = Processes(pick_device(config.device))
        device = self.processes.device
        precision = pick_precision(config.precision, device)
        self.task = make_task(device)
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            self.network = self.task.make_network().to(device)
            self.ema = self.task.make_network().to(device)
        self.began_with: dict[str, Any] | None = None
        if begin_with is not None:
            header = _load_weights(self.network, begin_with, self.task.header().kind)
            self.began_with = {"sha256": sha256(begin_with)[:12], "updates": header.updates_in_all}
        self.ema.load_state_dict(self.network.state_dict())
        self.ema.requires_grad_(False)
        self.optimizer = make_optimizer(config, self.network)
        self.first, self.seconds_before = 0, 0.0
        self.mini_batches = config.accumulate * self.processes.count
        if not restart:
            self.first, self.seconds_before, made = load_checkpoint(
                folder, self.task, config, self.network, self.ema, self.optimizer
            )
            self.mini_batches = made or self.mini_batches
        if self.processes.count > self.mini_batches:
            raise VhdError(
                f"an update of the run in {folder} has {self.mini_batches} mini-batches, which "
                f"{self.processes.count} processes cannot share. Start at most {self.mini_batches} processes, "
                "or --restart with more mini-batches."
            )
        self.called = InPrecision(self.network, precision, device)
        self.called_ema = InPrecision(self.ema, precision, device)
        self.generator = torch.Generator(device)
        self.log = TrainingLog(folder, self.first, restart) if self.processes.first else None
        self.update, self.loss = self.first, torch.tensor(float("nan"))
        self.usual_loss: float | None = None
        self.began = self.last_checkpoint = time.monotonic()
        self.network.train()

    @property
    def seconds(self) -> float:
        """Seconds trained so far, including earlier sessions, by this process's clock."""
        return self.seconds_before + time.monotonic() - self.began

    def progress(self, stop: list[int]) -> float:
        """Fraction of the training that is done; raises `Interrupted` if any process received a signal.

        All processes use the first one's clock, so that they agree on the learning rate and the last update.
        """
        told = self.processes.gather([self.seconds, stop[0] if stop else 0])  # (processes, 2)
        if signalled := int(told[:, 1].max()):
            if self.update > self.first:
                self.checkpoint()
            self.processes.wait()
            written = f"the checkpoint in {self.folder} is written" if self.update > self.first else "nothing is lost"
            raise Interrupted(
                signalled, f"stopped at update {self.update}; {written}. Run the same command to continue."
            )
        progress = self.update / self.config.updates
        if self.config.minutes is not None:
            progress = max(progress, float(told[0, 0]) / (60 * self.config.minutes))
        return progress

    def try_gradient(self, number: int) -> None:
        """Compute the gradient of the mini-batch of that number for its time alone; nothing is changed."""
        self.generator.manual_seed(_update_seed(self.config.seed, number, self.update))
        self.task.loss(self.called, self.called_ema, self.generator, self.update)[0].backward()
        self.optimizer.zero_grad(set_to_none=True)

    def make_update(self, progress: float) -> None:
        """Make one gradient update; logs and writes a checkpoint when due."""
        config = self.config
        rate = learning_rate(config, self.update, progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        means: dict[str, torch.Tensor] = {}
        self.loss = torch.zeros((), device=self.processes.device)
        for number in self.processes.share(self.mini_batches):
            self.generator.manual_seed(_update_seed(config.seed, number, self.update))
            loss, scalars = self.task.loss(self.called, self.called_ema, self.generator, self.update)
            (loss / self.mini_batches).backward()
            self.loss += loss.detach() / self.mini_batches
            for key, value in scalars.items():
                share = torch.as_tensor(value, device=self.loss.device, dtype=torch.float32) / self.mini_batches
                means[key] = means[key] + share if key in means else share
        gradients = [parameter.grad for parameter in self.network.parameters() if parameter.grad is not None]
        self.processes.add_up([*gradients, self.loss, *means.values()])
        self.task.observe(means, self.update)
        largest = math.inf if config.clip is None else config.clip
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), largest)
        self.optimizer.step()
        self._average()
        self.update += 1
        if self.update % config.log_every == 0 or self.update == config.updates:
            self._require_finite({})
            metrics = {"loss": float(self.loss), "gradient_norm": float(norm)}
            self._report(progress, rate, metrics | {key: float(value) for key, value in means.items()})
        if config.snapshot_every and self.update % config.snapshot_every == 0 and self.processes.first:
            self._require_finite(self.ema.state_dict())
            path = self.folder / SNAPSHOTS / f"{self.update:08d}.safetensors"
            header = replace(self.task.header(), updates=self.update)
            save_model(path, arrays(self.ema.state_dict()), self._noted(header, self.seconds))
        if time.monotonic() - self.last_checkpoint > 60 * config.checkpoint_minutes:
            self.checkpoint()

    def _average(self) -> None:
        """Update the EMA; before `ema_from` it equals the network."""
        config = self.config
        if self.update % config.ema_every == 0:
            early = self.update < config.ema_from
            decay = 0.0 if early else min(config.ema, (1 + self.update) / (10 + self.update))
            _update_ema(self.ema, self.network, decay)

    def _report(self, progress: float, rate: float, metrics: dict[str, float]) -> None:
        if self.log is None:
            return
        seconds = self.seconds
        done = max(progress, self.update / self.config.updates)  # in a short training, one update matters
        left = seconds * (1 / max(done, 1e-9) - 1)
        status = Status(self.update, self.config.updates, metrics, seconds, left)
        self.log.write(self.update, seconds, metrics, rate)
        self.report(status)

    def _require_finite(self, tensors: dict[str, torch.Tensor]) -> None:
        """Raise `VhdError` if the last loss diverged or a tensor is not finite; a diverged network is never saved."""
        loss = float(self.loss)
        if self.usual_loss is None and math.isfinite(loss):
            self.usual_loss = abs(loss)
        exploded = not math.isfinite(loss) or abs(loss) > _EXPLODED * max(self.usual_loss or 0.0, _SMALL)
        if not exploded and not not_finite(arrays(tensors)):
            return
        saved = saved_update(self.folder)
        kept = (
            "No checkpoint has been written yet: run it again"
            if saved is None
            else f"The checkpoint of update {saved} in {self.folder} is finite: run the same command to continue "
            "from it"
        )
        raise VhdError(
            f"training diverged: the loss is {float(self.loss):g} at update {self.update}, which is not saved. {kept} "
            f"with a lower --learning-rate than {self.config.learning_rate:g}, or with --precision fp32."
        )

    def checkpoint(self) -> None:
        """Write the checkpoint."""
        if self.processes.first:
            self._require_finite({**self.network.state_dict(), **self.ema.state_dict()})
            save_checkpoint(
                self.folder, self.task, self.config, self.network, self.ema, self.optimizer.state_dict(), self.update,
                self.seconds, self.mini_batches,
            )  # fmt: skip
            if self.log is not None:
                self.log.begin()
        self.last_checkpoint = time.monotonic()

    def _noted(self, header: ModelHeader, seconds: float, trained: bool = True) -> ModelHeader:
        """The header with notes on this training."""
        notes = {"minutes": round(seconds / 60, 2), "loop": asdict(self.config), **header.notes}
        if self.began_with is not None:
            notes["began_with"] = self.began_with
        return replace(header, notes={**notes, "loss": float(self.loss)} if trained else notes)

    def finish(self) -> Path:
        """Write the checkpoint and the model, unless an earlier session did so."""
        trained = self.update > self.first
        seconds = self.seconds if trained else self.seconds_before
        if trained:
            self.checkpoint()
        path = self.folder / "model.safetensors"
        if self.processes.first:
            header = replace(self.task.header(), updates=self.update)
            earlier = None if trained else _earlier_header(path, header)
            # Without further training, the earlier session's notes are kept.
            noted = self._noted(header, seconds, trained)
            header = noted if earlier is None else replace(header, notes=earlier.notes)
            # Rewriting the model would change its digest, and benchmark rows made with it would no longer match.
            if earlier is None or _as_json(earlier) != _as_json(header):
                save_model(path, arrays(self.ema.state_dict()), header)
        self.processes.wait()
        return path


def _load_weights(network: nn.Module, path: Path, kind: str) -> ModelHeader:
    tensors, header = load_model(path, kind)
    try:
        network.load_state_dict(state_dict(tensors))
    except RuntimeError as error:
        raise DataError(
            f"{path}: its weights do not fit the network to be trained. Start from a model of the same recipe "
            "and dimensions, or without one."
        ) from error
    return header


def _update_seed(seed: int, mini_batch: int, update: int) -> int:
    return int(np.random.SeedSequence([seed, mini_batch, update]).generate_state(1, np.uint64)[0] >> 1)


def _update_ema(ema: nn.Module, network: nn.Module, decay: float) -> None:
    """ema <- decay * ema + (1 - decay) * network; buffers are equal in both."""
    with torch.no_grad():
        torch._foreach_lerp_(list(ema.parameters()), list(network.parameters()), 1.0 - decay)


def _earlier_header(path: Path, header: ModelHeader) -> ModelHeader | None:
    """Header of the model that an earlier session wrote after as many updates, if it is valid."""
    try:
        _, earlier = load_model(path, header.kind)
    except DataError:
        return None
    return earlier if earlier.updates == header.updates else None


def _as_json(header: ModelHeader) -> dict[str, Any]:
    """The header as read back from a file: JSON has no tuples."""
    return json.loads(json.dumps(asdict(header)))
