"""Independent random streams by purpose.

Datasets and training updates use `SeedSequence([seed, number, ...])`, which predates this module. The first release
drew test instances from those streams too, so the first start of every training stream was also a test start.
"""

from __future__ import annotations

import hashlib

import numpy as np

STREAMS = 2
"""Version of the streams behind test instances and plans, recorded in every row. Rows without it are version 1."""


def stream(purpose: str, *key: int) -> np.random.SeedSequence:
    """The stream for a purpose and key, for example `stream("instance", seed, number)`.

    Purpose and key are hashed together, because numpy's own keys are ambiguous: it pads them with zeros and splits
    large numbers, so [1, 2], [1, 2, 0] and [1 + (2 << 32)] all give the same stream.
    """
    digest = hashlib.sha256(repr((purpose, *map(int, key))).encode()).digest()
    return np.random.SeedSequence(int.from_bytes(digest, "big"))
