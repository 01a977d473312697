"""Independent random streams, one per purpose.

Datasets and training updates use `SeedSequence([seed, number, ...])`, which predates this module. The first release
also drew test instances from those streams, so the first start of every training stream was a test start.
"""

from __future__ import annotations

import hashlib

import numpy as np

STREAMS = 2
"""Version of the random streams behind test instances and plans, recorded in every row. Rows without it are version
1."""


def stream(purpose: str, *key: int) -> np.random.SeedSequence:
    """The random stream of a purpose and key, e.g. `stream("instance", seed, number)`.

    Purpose and key are hashed together, because numpy's own keys are ambiguous: it pads them with zeros and splits
    large numbers, so [1, 2], [1, 2, 0] and [1 + (2 << 32)] all give the same stream.
    """
    digest = hashlib.sha256(repr((purpose, *map(int, key))).encode()).digest()
    return np.random.SeedSequence(int.from_bytes(digest, "big"))
