"""Errors and warnings whose messages tell users what to do. The command line prints errors and exits with status 1."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

NEWEST_PYTHON = {"ogbench": (3, 12)}
"""Newest Python for extras that do not install on later ones: labmaze, needed by OGBench, has no wheels for them."""


TRAINING_PACKAGES = ("torch", "accelerate", "tensorboard")
"""Packages installed by the extra 'train'."""


class VhdError(Exception):
    """Base class of all errors that users can fix; the message says how."""


class DataError(VhdError):
    """A dataset, file or checkpoint is missing, damaged or of the wrong kind."""


class UnknownNameError(VhdError):
    """A name is not registered; the message lists those that are."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        super().__init__(f"unknown {kind} '{name}'. Known: {', '.join(known)}.")


class MissingExtraError(VhdError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        newest = NEWEST_PYTHON.get(extra, sys.version_info[:2])
        until = f" (in Python {newest[0]}.{newest[1]} or older)" if sys.version_info[:2] > newest else ""
        super().__init__(f"{purpose} needs the extra '{extra}': pip install 'vhdiffuser[{extra}]'" + until)


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'vhdiffuser[{extra}]'"


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Context for importing an optional dependency: raises `MissingExtraError` if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(extra, purpose) from error


class VhdWarning(UserWarning):
    """Base class of all our warnings. The command line prints each message once; silence a category with
    `warnings.filterwarnings`."""


class OutsideDataWarning(VhdWarning):
    """A start, goal or query lies outside the training data: the model extrapolates."""


class OtherEnvironmentWarning(VhdWarning):
    """A planner runs in an environment other than the one it was trained for."""


class ClippedLengthWarning(VhdWarning):
    """A predicted length exceeds T_max, so the plan is shorter than predicted."""


class CalibrationWarning(VhdWarning):
    """A calibration cannot guarantee what was requested, or was made under other conditions."""


class BlockedRouteWarning(VhdWarning):
    """No known route avoids the forbidden region; the plan may enter it."""


def warn(message: str, category: type[VhdWarning] = VhdWarning) -> None:
    """Issue a warning attributed to the user's code: the first caller outside this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "vhdiffuser":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class Interrupted(KeyboardInterrupt):
    """Stopped by Ctrl-C or SIGTERM. Not a failure, so neither `except VhdError` nor `except Exception` catches it."""

    def __init__(self, number: int, message: str = "") -> None:
        super().__init__(message or "stopped; finished work is kept. Run the same command to continue.")
        self.signal = signal.Signals(number)
