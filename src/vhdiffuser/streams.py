"""Random streams by purpose: what is drawn for one purpose never repeats what is drawn for another.

Datasets and training updates have streams of their own, `SeedSequence([seed, number, ...])`, older than this module.
The first release drew test instances from them too, so the first start of every training stream was also a test
instance's start.
"""

from __future__ import annotations

import hashlib

import numpy as np

STREAMS = 2
"""Version of the streams behind test instances and plans, kept with every row. Rows without one are of version 1."""


def stream(purpose: str, *key: int) -> np.random.SeedSequence:
    """The stream of one purpose and key, for example `stream("instance", seed, number)`.

    Purpose and key are hashed together, because numpy's own keys are ambiguous: it pads them with zeros and splits
    large numbers, so [1, 2], [1, 2, 0] and [1 + (2 << 32)] are all one stream.
    """
    digest = hashlib.sha256(repr((purpose, *map(int, key))).encode()).digest()
    return np.random.SeedSequence(int.from_bytes(digest, "big"))
