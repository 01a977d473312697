"""What the scripts that compare trainings share: options, training with a bar, how they end."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import torch

from vhdiffuser.console import err, progress_bar
from vhdiffuser.errors import VhdError
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.loop import Status, train
from vhdiffuser.training.task import Task


def comparison_parser(text: str | None, what: str) -> argparse.ArgumentParser:
    """A parser with the options of every comparison of `what` (a plural)."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"these {what} (default: all)")
    parser.add_argument("--threads", type=int, help="CPU threads of a training")
    parser.add_argument("--evaluate", action="store_true", help="train nothing, evaluate what is there")
    return parser


def check_names(asked: Collection[str] | None, known: Collection[str], what: str) -> None:
    """Refuse `--only` with names that there are not."""
    if unknown := set(asked or ()) - set(known):
        raise VhdError(f"no {what} {', '.join(sorted(unknown))}. Known: {', '.join(known)}.")


def train_run(title: str, make_task: Callable[[torch.device], Task], loop: LoopConfig, folder: Path) -> None:
    """Train, or go on where it stopped, with a bar."""
    with progress_bar(title, "updates") as progress:

        def report(status: Status) -> None:
            note = f"loss {status.metrics['loss']:.4f}, {status.seconds_left / 60:.1f} min to go"
            progress(status.update, 0 if loop.minutes else status.updates, note=note)

        train(make_task, loop, folder, report)


def run_comparison(compare: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> None:
    """Compare; an error or a signal ends it as it ends `vhd`."""
    try:
        compare(parser.parse_args())
    except VhdError as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt as stop:  # a training's own knows its signal and what to say
        err.print(f"{stop}" or "stopped; run the same command to go on.")
        sys.exit(128 + getattr(stop, "signal", signal.SIGINT))
