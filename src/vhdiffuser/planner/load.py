"""Load a planner with its Length Predictor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vhdiffuser.planner.planner import Planner
from vhdiffuser.planner.requests import Outside
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from vhdiffuser.diffusion.options import OptionChanges


def load_planner(
    name: str | Path,
    *,
    source: Source = "shipped",
    local_files_only: bool = True,
    outside: Outside = "warn",
    device: str = "cpu",
    **options: Unpack[OptionChanges],
) -> Planner:
    """Load the variable-horizon planner of an environment; a shortcut to `Planner.from_pretrained`.

    `name` is an environment with shipped weights (`vhd models` lists them), one that you have trained (with
    `source="trained"`), a folder of weights, or a repository `OWNER/NAME` on the Hugging Face Hub. `options` are those
    of `Planner.with_options`: sampler, steps, gamma, smoothing, stretch, candidates, piece, tube, retime, wait, risk.

    >>> planner = load_planner("maze2d-large", candidates=4)         # doctest: +SKIP
    >>> plan = planner.plan(start=[1, 1, 0, 0], goal=[7, 9])         # doctest: +SKIP
    """
    return Planner.from_pretrained(
        name, source=source, local_files_only=local_files_only, outside=outside, device=device, **options
    )
