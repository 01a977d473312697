"""What can go wrong, said so that a person knows what to do. The command line prints these and exits 1."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

NEWEST_PYTHON = {"ogbench": (3, 12)}
"""Extras that do not install on newer Pythons: labmaze, which OGBench needs, has no wheels for them."""


class VhdError(Exception):
    """Base of all errors that are the user's to mend; the message says how."""


class DataError(VhdError):
    """A dataset, file or checkpoint that is missing, damaged or not what it should be."""


class UnknownNameError(VhdError):
    """A name that is not registered; the message lists those that are."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        super().__init__(f"unknown {kind} '{name}'. Known: {', '.join(known)}.")


class MissingExtraError(VhdError):
    """An optional dependency that is not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        newest = NEWEST_PYTHON.get(extra, sys.version_info[:2])
        until = f" (in Python {newest[0]}.{newest[1]} or older)" if sys.version_info[:2] > newest else ""
        super().__init__(f"{purpose} needs the extra '{extra}': pip install 'vhdiffuser[{extra}]'" + until)


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'vhdiffuser[{extra}]'"


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Around imports of an optional dependency: `MissingExtraError` where it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(extra, purpose) from error


class VhdWarning(UserWarning):
    """Base of all our warnings. The command line prints each text once; `warnings.filterwarnings` silences a kind."""


class OutsideDataWarning(VhdWarning):
    """A start, goal or query outside what the model was trained on: its answer is a guess."""


class OtherEnvironmentWarning(VhdWarning):
    """A planner that is run in another environment than the one that it was trained for."""


class ClippedLengthWarning(VhdWarning):
    """A predicted length beyond T_max: the plan is shorter than the Length Predictor and gamma ask for."""


def warn(message: str, category: type[VhdWarning] = VhdWarning) -> None:
    """Warn at the user's own line: the first caller outside of this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "vhdiffuser":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class Interrupted(KeyboardInterrupt):
    """Stopped by Ctrl-C or SIGTERM. Nothing is wrong, so it is no `VhdError`, and no `except Exception` takes it."""

    def __init__(self, number: int, message: str = "") -> None:
        super().__init__(message or "stopped; what was finished is kept. Run the same command to go on.")
        self.signal = signal.Signals(number)
