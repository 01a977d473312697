"""Load a Length Predictor without a planner."""

from __future__ import annotations

from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.weights.places import FAST_LENGTH, Source, find_model


def load_length_predictor(name: str, *, fast: bool = False, source: Source = "shipped") -> LengthPredictor:
    """Load the Length Predictor of an environment, with its route graph if there is one.

    `fast` loads the small network fitted to it (`vhd train fast-length`), for very many queries. `source` is `shipped`,
    `trained`, `auto` (trained if available) or a folder of weights. Raises `DataError` if there is no such model.

    >>> predictor = load_length_predictor("maze2d-large", fast=True)                # doctest: +SKIP
    >>> steps = predictor.predict_steps([[1, 1, 0, 0]], [[7, 9]])                   # doctest: +SKIP
    """
    environment = get_environment(name).name
    path = find_model(environment, FAST_LENGTH if fast else "length", source)
    if fast and not path.is_file():
        raise DataError(
            f"there is no small Length Predictor of {environment} ({path}). Fit one with `vhd train fast-length "
            f"{environment}`, one to three minutes, and load it with source='auto'; or load the large one: fast=False."
        )
    routes = find_model(environment, "route", source)
    return LengthPredictor.load(path, routes=routes if routes.is_file() else None, coarse=fast)
