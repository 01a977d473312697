"""Export of runs to a folder of weights, in half precision: small enough to ship with the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import find_environment
from vhdiffuser.errors import DataError, UnknownNameError
from vhdiffuser.files import atomic_path, scratch_folder, sha256
from vhdiffuser.locks import exclusive
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.folder import write_folder
from vhdiffuser.weights.format import (
    FORMAT,
    ModelHeader,
    Tensors,
    half_precision,
    load_model,
    read_tensors,
    save_model,
    save_tensors,
)
from vhdiffuser.weights.places import Source, file_name, find_model, run_folder, run_name, trained_models

_SHARED = ("state_names", "goal_dims", "velocity_dims", "control_dt")
"""Spec fields that must be equal for two environments to share a planner."""
LIMIT = 10_000_000
"""Maximum total size of one environment's models, in bytes."""


@dataclass(frozen=True)
class ShippedModel:
    """One exported network."""

    kind: str
    """`planner`, `length`, `route` or `dynamics`."""
    header: ModelHeader
    """Header, with the planning options to ship."""
    parameters: int
    """Number of values in the file, trained and fixed."""
    bytes: int
    """Size of the file."""
    sha256: str
    """Digest of the file."""


def ship(environment: str, runs: dict[str, str], out: Path, gamma: float | None = None) -> dict[str, ShippedModel]:
    """Write `KIND.safetensors` to `out` for each kind and run name in `runs`, and `config.json`.

    Nothing is written if any model cannot ship. `gamma` replaces the margin of the planner's run, and the default risk
    of a calibration that is already in the folder.
    """
    from vhdiffuser.planner.calibrated import FILE, read_calibration, save_calibration

    loaded = {kind: _load(environment, kind, run, gamma) for kind, run in runs.items()}
    shipped: dict[str, ShippedModel] = {}
    with scratch_folder() as folder:
        write_folder(folder, {kind: (half_precision(tensors), header) for kind, (tensors, header) in loaded.items()})
        for kind, (tensors, header) in loaded.items():
            shipped[kind] = _shipped(folder / f"{kind}.safetensors", kind, tensors, header)
        total = sum(model.bytes for model in shipped.values())
        if total > LIMIT:
            sizes = ", ".join(f"{kind} {model.bytes / 1e6:.1f} MB" for kind, model in shipped.items())
            raise DataError(
                f"{environment}: {total / 1e6:.1f} MB in total ({sizes}), but at most {LIMIT / 1e6:.0f} MB may "
                "ship. Train narrower networks (--dim, --dim-mults)."
            )
        if "route" in shipped:
            _write_table(folder / "route.safetensors")
        calibration = None if gamma is None else read_calibration(out / FILE)
        with exclusive(out, "exporting to it"):
            if calibration is not None:
                save_calibration(out, calibration)
            for draft in folder.iterdir():
                with atomic_path(out / draft.name) as temporary:
                    temporary.write_bytes(draft.read_bytes())
    return shipped


def runs_to_ship(environment: str, **names: str) -> dict[str, str]:
    """Of an environment's runs by kind, those that ship: planner, Length Predictor and, where they are there or needed,
    inverse dynamics model and route graph. Runs that are not named have their usual names."""
    runs = {kind: names.get(kind) or run_name(kind) for kind in ("planner", "length", "dynamics", "route")}
    known = find_environment(environment)
    # Without a simulator, any controller may drive the robot; with one, its controller must be included.
    needed = ["dynamics"] if known is not None and known.simulator is not None and known.learns_control else []
    return {
        kind: run
        for kind, run in runs.items()
        if kind in ("planner", "length", *needed) or (run_folder(environment, run) / "model.safetensors").exists()
    }


def read_shipped(folder: Path) -> dict[str, ShippedModel]:
    """The models in a folder that `ship` wrote."""
    paths = {kind: folder / f"{kind}.safetensors" for kind in ("planner", "length", "route", "dynamics")}
    return {kind: _shipped(path, kind, *load_model(path, kind)) for kind, path in paths.items() if path.is_file()}


def _shipped(path: Path, kind: str, tensors: Tensors, header: ModelHeader) -> ShippedModel:
    count = sum(value.size for value in tensors.values())
    return ShippedModel(kind, header, count, path.stat().st_size, sha256(path))


def archive(environment: str, names: Sequence[str], out: Path) -> dict[str, Path]:
    """Write the finished runs `names` (empty: all) in half precision to the folder `out/ENVIRONMENT`.

    `vhd bench --weights OUT` then evaluates exactly the files that you share.
    """
    trained = trained_models(environment)
    if unknown := [name for name in names if name not in trained]:
        raise UnknownNameError(f"finished run of {environment}", unknown[0], list(trained))
    if not trained:
        raise DataError(f"no finished run of {environment}. Train one with `vhd train planner {environment}`.")
    written = {}
    for name in names or trained:
        tensors, content = read_tensors(trained[name])
        path = out / environment / file_name(name)
        save_tensors(path, half_precision(tensors), {**content, "format": FORMAT})
        if content["kind"] == "route":
            _write_table(path)
        written[name] = path
    return written


def _write_table(route: Path) -> None:
    """The table of a route graph's routes, as they are in half precision."""
    from vhdiffuser.length.route import RouteGraph

    RouteGraph.load(route)[0].save_table(route)


def adopt(environment: Environment, other: str, kinds: Sequence[str], source: Source = "auto") -> dict[str, Path]:
    """Copy the models of another environment; they become runs of this one.

    An inverse dynamics model never sees absolute positions, nor does a planner with a `frame`. The former needs the
    same robot, the latter only the same planning state at the same control rate. This environment's Length Predictor
    must be trained, since it defines the normalisation in which the benchmark measures distances.
    """
    written = {}
    for kind in kinds:
        path = find_model(other, kind, source)
        tensors, header = load_model(path, kind)
        spec = EnvSpec.from_json(header.spec)
        for name in _SHARED if kind == "planner" else (*_SHARED, "observation_dim", "action_dim"):
            if getattr(spec, name) != getattr(environment.spec, name):
                raise DataError(
                    f"{environment.name} cannot use the {kind} of {other}: its `{name}` is "
                    f"{getattr(environment.spec, name)}, not {getattr(spec, name)}."
                )
        header = replace(header, spec=environment.spec.to_json(), notes={**header.notes, "adopted_from": other})
        if kind == "planner":
            if header.config.get("frame") is None:
                raise DataError(
                    f"{path}: plans in {other} only, since it was trained on absolute positions. Train one with "
                    f"relative positions: `vhd train planner {other} --frame WIDTH`."
                )
            own = load_model(find_model(environment.name, "length", source), "length")[1].normalizer
            header = replace(header, normalizer=_with_places(header.normalizer, own, spec.goal_dims))
        run = run_folder(environment.name, run_name(kind))
        run.mkdir(parents=True, exist_ok=True)
        written[kind] = run / "model.safetensors"
        save_model(written[kind], tensors, header)
    return written


def _with_places(normalizer: dict[str, Any], own: dict[str, Any], goal_dims: tuple[int, ...]) -> dict[str, Any]:
    """A normaliser with the goal dimensions of another one."""
    return {
        limit: [own[limit][dim] if dim in goal_dims else value for dim, value in enumerate(values)]
        for limit, values in normalizer.items()
    }


def _load(environment: str, kind: str, run: str, gamma: float | None) -> tuple[Tensors, ModelHeader]:
    """Load a run's model and check that it can ship."""
    from vhdiffuser.diffusion.config import PlannerConfig
    from vhdiffuser.diffusion.options import PlanningOptions

    path = run_folder(environment, run) / "model.safetensors"
    tensors, header = load_model(path, kind)
    header = replace(header, spec=EnvSpec.from_json(header.spec).to_json())  # older files have extra fields
    if header.spec["name"] != environment:
        raise DataError(f"{path}: trained for {header.spec['name']}, not for {environment}.")
    if kind == "planner":
        config = PlannerConfig.from_json(header.config)
        if config.horizon is not None:
            raise DataError(f"{path}: has the fixed horizon {config.horizon}; only variable-horizon planners ship.")
        planning = PlanningOptions.from_json(header.planning).changed(gamma=gamma)
        header = replace(header, planning=planning.to_json())
    return tensors, header
