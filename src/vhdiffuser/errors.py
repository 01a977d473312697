"""What can go wrong, said so that a person knows what to do. The command line prints these and exits 1."""

from __future__ import annotations


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
        super().__init__(f"{purpose} needs the extra '{extra}': pip install 'vhdiffuser[{extra}]'")
