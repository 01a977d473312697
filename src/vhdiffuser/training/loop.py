"""One training loop for every network: planner, Length Predictor, inverse dynamics.

Randomness is a function of (seed, process, update) alone: each update's generator is seeded anew, so a
run that was killed and resumed makes the same updates as one that was not, on any number of processes.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vhdiffuser.devices import pick_device
from vhdiffuser.errors import DataError, Interrupted, VhdError
from vhdiffuser.files import sha256
from vhdiffuser.threads import torch_threads
from vhdiffuser.training.checkpoint import load_checkpoint, save_checkpoint, saved_update
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.log import TrainingLog
from vhdiffuser.training.optimizer import learning_rate, make_optimizer
from vhdiffuser.training.precision import InPrecision, pick_precision
from vhdiffuser.training.processes import Processes
from vhdiffuser.training.task import Task
from vhdiffuser.weights.format import ModelHeader, load_model, not_finite, save_model


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
    restart: bool = False,
) -> Path:
    """Train in `folder`, going on from its checkpoint if there is one; returns the model file's path.

    A fresh run begins with random weights, or with those of the model file `begin_with` (fine-tuning). With `restart`
    the run in `folder` is trained anew; what is there stays until the new run has its first checkpoint.
    Ctrl-C and SIGTERM raise `Interrupted` once the checkpoint is written. A run that is finished already is
    left as it is, to the byte.
    """
    with torch_threads(config.threads):
        run = _Run(make_task, config, folder, report, begin_with, restart)
        with _stop_signals() as stop:
            while run.update < config.updates:
                progress = run.progress(stop)
                if progress >= 1:
                    break
                run.make_update(progress)
        return run.finish()


class _Run:
    """A training under way."""

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
        if not restart:
            self.first, self.seconds_before = load_checkpoint(
                folder, self.task, config, self.network, self.ema, self.optimizer
            )
        self.called = self.processes.wrap(InPrecision(self.network, precision, device))
        self.called_ema = InPrecision(self.ema, precision, device)
        self.generator = torch.Generator(device)
        self.log = TrainingLog(folder, self.first, restart) if self.processes.first else None
        self.update, self.loss = self.first, torch.tensor(float("nan"))
        self.began = self.last_checkpoint = time.monotonic()
        self.network.train()

    @property
    def seconds(self) -> float:
        """Seconds trained so far, over all sessions, by this process's clock."""
        return self.seconds_before + time.monotonic() - self.began

    def progress(self, stop: list[int]) -> float:
        """Share of the training that is done; raises `Interrupted` where anyone was told to stop.

        The first process's clock counts, for all must learn at one rate and end at one update.
        """
        told = self.processes.gather([self.seconds, stop[0] if stop else 0])  # (processes, 2)
        if signalled := int(told[:, 1].max()):
            if self.update > self.first:
                self.checkpoint()
            self.processes.wait()
            written = f"the checkpoint in {self.folder} is written" if self.update > self.first else "nothing is lost"
            raise Interrupted(signalled, f"stopped at update {self.update}; {written}. Run the same command to go on.")
        progress = self.update / self.config.updates
        if self.config.minutes is not None:
            progress = max(progress, float(told[0, 0]) / (60 * self.config.minutes))
        return progress

    def make_update(self, progress: float) -> None:
        """One gradient update, its line in the log and its checkpoint where they are due."""
        config = self.config
        rate = learning_rate(config, self.update, progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.generator.manual_seed(_update_seed(config.seed, self.processes.index, self.update))
        self.optimizer.zero_grad(set_to_none=True)
        self.loss = torch.zeros((), device=self.processes.device)
        for _ in range(config.accumulate):
            loss, scalars = self.task.loss(self.called, self.called_ema, self.generator, self.update)
            (loss / config.accumulate).backward()
            self.loss += loss.detach() / config.accumulate
        largest = math.inf if config.clip is None else config.clip
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), largest)
        self.optimizer.step()
        self._average()
        self.update += 1
        if self.update % config.log_every == 0 or self.update == config.updates:
            self._require_finite({})
            metrics = {"loss": float(self.loss), "gradient_norm": float(norm)}
            self._report(progress, rate, metrics | {key: float(value) for key, value in scalars.items()})
        if time.monotonic() - self.last_checkpoint > 60 * config.checkpoint_minutes:
            self.checkpoint()

    def _average(self) -> None:
        """The update's share in the EMA; before `ema_from` the EMA is the network itself."""
        config = self.config
        if self.update % config.ema_every == 0:
            early = self.update < config.ema_from
            decay = 0.0 if early else min(config.ema, (1 + self.update) / (10 + self.update))
            _update_ema(self.ema, self.network, decay)

    def _report(self, progress: float, rate: float, metrics: dict[str, float]) -> None:
        if self.log is None:
            return
        seconds = self.seconds
        done = max(progress, self.update / self.config.updates)  # of a short training, this update is much
        left = seconds * (1 / max(done, 1e-9) - 1)
        status = Status(self.update, self.config.updates, metrics, seconds, left)
        self.log.write(self.update, seconds, metrics, rate)
        self.report(status)

    def _require_finite(self, tensors: dict[str, torch.Tensor]) -> None:
        """Neither the last loss nor these tensors may hold NaN or infinity: what diverged is never saved."""
        if bool(self.loss.isfinite()) and not not_finite(tensors):
            return
        saved = saved_update(self.folder)
        kept = (
            "No checkpoint has been written: run it again"
            if saved is None
            else f"The checkpoint of update {saved} in {self.folder} is finite: run the same command to go on from it"
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
                self.seconds,
            )  # fmt: skip
            if self.log is not None:
                self.log.begin()
        self.last_checkpoint = time.monotonic()

    def finish(self) -> Path:
        """Write the checkpoint and the model, unless an earlier session did."""
        trained = self.update > self.first
        seconds = self.seconds if trained else self.seconds_before
        if trained:
            self.checkpoint()
        path = self.folder / "model.safetensors"
        if self.processes.first:
            header = replace(self.task.header(), updates=self.update)
            earlier = None if trained else _earlier_header(path, header)
            if earlier is None:
                notes = {"minutes": round(seconds / 60, 2), "loop": asdict(self.config), **header.notes}
                if self.began_with is not None:
                    notes["began_with"] = self.began_with
                header = replace(header, notes={**notes, "loss": float(self.loss)} if trained else notes)
            else:  # its notes tell of the training, and there was none since
                header = replace(header, notes=earlier.notes)
            # A model that is written again has another digest, and benchmark rows of the same weights would be refused.
            if earlier is None or _as_json(earlier) != _as_json(header):
                save_model(path, self.ema.state_dict(), header)
        self.processes.wait()
        return path


def _load_weights(network: nn.Module, path: Path, kind: str) -> ModelHeader:
    tensors, header = load_model(path, kind)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise DataError(
            f"{path}: its weights do not fit the network to be trained. Begin with a model of the same recipe and "
            "dimensions, or without one."
        ) from error
    return header


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
