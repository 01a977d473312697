"""Print the versions in requirements.lock without their hashes, as constraints for pip.

    python tools/constraints.py > constraints.txt

Hashes in a constraints file make pip demand one of everything it installs, which neither this package in editable form
nor PyTorch's own CPU builds (a local version such as 2.13.0+cpu) have. To verify hashes, install the lock file itself:
`pip install --require-hashes -r requirements.lock`.
"""

from __future__ import annotations

import re
from pathlib import Path

LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"


def without_hashes(text: str) -> str:
    """The requirements of a lock file, one per line."""
    joined = text.replace("\\\n", " ")
    lines = (re.sub(r"\s+--hash=\S+", "", line).rstrip() for line in joined.splitlines())
    return "".join(line + "\n" for line in lines if line)


if __name__ == "__main__":
    print(without_hashes(LOCK.read_text(encoding="utf-8")), end="")
