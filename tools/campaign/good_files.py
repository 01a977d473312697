"""A small good file of every kind that the package reads, with the functions that read it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from campaign.files import Format, edit_hdf5, edit_json, edit_lines, edit_npz, edit_safetensors


def write_good_files(folder: Path) -> dict[str, Format]:
    """All kinds, by name."""
    kinds = {**_data(folder), **_models(folder), **_results(folder), **_plans(folder)}
    return {**kinds, **_checkpoint(folder), **_walker(folder), **_diffuser(folder)}


def _arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.normal(size=(40, 4)) * 0.01, axis=0).astype(np.float32) + 1
    return {"observations": states, "actions": rng.normal(size=(40, 2)).astype(np.float32), "episode_ends": [20, 40]}


def _write_hdf5(path: Path, arrays: dict[str, Any]) -> Path:
    import h5py

    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            file[key] = value
    return path


def _data(folder: Path) -> dict[str, Format]:
    from vhdiffuser.data.readers import read_d4rl_maze2d, read_ogbench, read_own
    from vhdiffuser.data.store import Dataset, read_dataset, save_dataset, summary
    from vhdiffuser.envs.importing import own_spec
    from vhdiffuser.envs.instances import load_instances
    from vhdiffuser.envs.registry import get_environment

    arrays = _arrays()
    np.savez(folder / "own.npz", **arrays)
    np.savez_compressed(folder / "ogbench.npz", **{**arrays, "terminals": np.arange(40) % 20 == 19})
    own = _write_hdf5(folder / "own.hdf5", arrays)
    d4rl = _write_hdf5(folder / "d4rl.hdf5", {k: v for k, v in arrays.items() if k != "episode_ends"})
    pairs = {"start_state": np.ones((5, 4), np.float32), "goal_pos": np.array([[3.0, 1.0]] * 5, np.float32)}
    np.savez(folder / "instances.npz", **pairs)  # type: ignore[arg-type]
    env = get_environment("maze2d-umaze").make()
    episodes = read_own(folder / "own.npz")
    dataset = save_dataset(Dataset(own_spec("own", episodes), episodes, "import", {}), folder / "data.safetensors")

    def read_whole(path: Path) -> Any:
        return summary(read_dataset(path, "own"))

    return {
        "npz": Format(folder / "own.npz", lambda path: own_spec("x", read_own(path)), edit_npz),
        "ogbench npz": Format(folder / "ogbench.npz", lambda path: read_ogbench([path]), edit_npz),
        "HDF5": Format(own, lambda path: own_spec("x", read_own(path)), edit_hdf5),
        "D4RL HDF5": Format(d4rl, read_d4rl_maze2d, edit_hdf5),
        "dataset": Format(dataset, read_whole, edit_safetensors),
        "instances npz": Format(folder / "instances.npz", lambda path: load_instances(path, env), edit_npz),
        "instances HDF5": Format(
            _write_hdf5(folder / "instances.hdf5", pairs), lambda path: load_instances(path, env), edit_hdf5
        ),
        **_minari(folder),
    }


def _minari(folder: Path) -> dict[str, Format]:
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError:
        return {}
    import gymnasium

    from vhdiffuser.data.readers import read_minari

    rng = np.random.default_rng(0)
    buffers = [
        EpisodeBuffer(
            observations=rng.normal(size=(9, 3)).astype(np.float32),
            actions=rng.normal(size=(8, 2)).astype(np.float32),
            rewards=np.zeros(8).tolist(),
            terminations=[False] * 8,
            truncations=[False] * 7 + [True],
        )
        for _ in range(2)
    ]
    box = gymnasium.spaces.Box
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            "toy/test-v0", buffers, observation_space=box(-9, 9, (3,)), action_space=box(-9, 9, (2,))
        )
    place = Path(os.environ["MINARI_DATASETS_PATH"]) / "toy" / "test-v0" / "data"
    kinds = {}
    for name in ("main_data.hdf5", "metadata.json"):
        good = folder / name
        shutil.copy(place / name, good)

        def read(path: Path, name: str = name, good: Path = good) -> Any:
            os.replace(path, place / name) if path != good else shutil.copy(good, place / name)
            try:
                return read_minari("toy/test-v0")
            finally:
                shutil.copy(good, place / name)

        kinds[f"Minari {name}"] = Format(good, read, edit_json if name.endswith("json") else None)
    return kinds


def _small_planner() -> Any:
    """A planner with Length Predictor and route graph whose networks have a few hundred weights."""
    from vhdiffuser.diffusion.config import PlannerConfig
    from vhdiffuser.diffusion.options import PlanningOptions
    from vhdiffuser.diffusion.unet import TemporalUnet
    from vhdiffuser.envs.registry import get_environment
    from vhdiffuser.length.config import LengthConfig, NetworkConfig, RelayGraphConfig
    from vhdiffuser.length.network import make_length_network
    from vhdiffuser.length.predictor import LengthPredictor
    from vhdiffuser.length.route import RouteGraph
    from vhdiffuser.normalizer import Normalizer
    from vhdiffuser.planner.planner import Planner

    spec = get_environment("maze2d-umaze").spec
    normalizer = Normalizer(np.array([0, 0, -5, -5], np.float32), np.array([4, 4, 5, 5], np.float32))
    angle = np.linspace(0, 20, 2000)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    graph = RouteGraph.build(points, np.full(2000, 1999), spec.T_max, RelayGraphConfig(landmarks=12))
    length = LengthConfig(network=NetworkConfig(features=4, width=8, depth=1))
    predictor = LengthPredictor(make_length_network(spec, length), spec, length, normalizer, graph)
    config = PlannerConfig(dim=8, dim_mults=(1, 2), diffusion_steps=8)
    network = TemporalUnet(spec.state_dim, config.dim, config.dim_mults)
    return Planner(network, config, spec, normalizer, predictor, options=PlanningOptions(steps=1))


def _models(folder: Path) -> dict[str, Format]:
    from vhdiffuser.length.predictor import LengthPredictor
    from vhdiffuser.length.route import RouteGraph
    from vhdiffuser.planner.planner import Planner
    from vhdiffuser.weights.places import shipped_environments, shipped_path

    home = folder / "planner"
    _small_planner().save_pretrained(home)
    goal = [3.0, 1.0]

    def plan(path: Path) -> Any:
        planner = Planner.load(path)
        return planner.plan(np.ones(planner.spec.state_dim), goal[: planner.spec.goal_dim], planner.spec.L_min)

    def predict(path: Path) -> Any:
        predictor = LengthPredictor.load(path)
        return predictor.predict_steps(np.ones(predictor.spec.state_dim), goal)

    def whole_folder(path: Path) -> Any:
        if path.parent != home:
            for other in home.iterdir():
                if other.name != path.name:
                    shutil.copy(other, path.parent / other.name)
        return Planner.from_pretrained(path.parent)

    kinds = {
        "planner": Format(home / "planner.safetensors", plan, edit_safetensors),
        "Length Predictor": Format(home / "length.safetensors", predict, edit_safetensors),
        "config.json": Format(home / "config.json", whole_folder, edit_json),
    }
    if (home / "route.safetensors").exists():
        kinds["route graph"] = Format(
            home / "route.safetensors", lambda path: RouteGraph.load(path)[0].all_steps(), edit_safetensors
        )
    driven = [name for name in shipped_environments() if shipped_path(name, "dynamics").exists()]
    if driven:
        from vhdiffuser.control.inverse_dynamics import InverseDynamicsController

        dynamics = folder / "dynamics.safetensors"
        shutil.copy(shipped_path(driven[0], "dynamics"), dynamics)
        kinds["inverse dynamics"] = Format(dynamics, InverseDynamicsController.load, edit_safetensors)
    return kinds


def _results(folder: Path) -> dict[str, Format]:
    from vhdiffuser.report.build import write_report
    from vhdiffuser.report.cards import write_card
    from vhdiffuser.results.rollout_files import (
        KeptRollout,
        PlanSheet,
        load_plans,
        load_rollout,
        save_plans,
        save_rollout,
    )
    from vhdiffuser.results.rows import open_results, read_results
    from vhdiffuser.training.export import read_shipped
    from vhdiffuser.types import Instance
    from vhdiffuser.weights.places import shipped_path

    config = {"environment": "toy", "method": "vhd", "protocol": "ss", "seed": 0, "streams": 2, "epsilon": 0.1}
    config |= {"instances": {"distribution": "reset"}, "scale": [1.0, 1.0], "goal_dims": [0, 1], "walls": []}
    config |= {"rule": {"threshold": None, "check_every": 1, "budget": None}, "models": {"planner": "x"}, "gamma": 1.2}
    config |= {"controller": {"name": "pd"}, "state_names": ["x", "y"], "horizon": None, "sampler": "ddim"}
    config |= {"sampler_steps": 5, "candidates": 1}
    rows = folder / "rows" / "toy" / "vhd-ss-0.jsonl"
    from vhdiffuser.results.rows import Row

    with open_results(rows, config) as writer:
        for number in range(4):
            writer.write(Row("toy", "vhd", "ss", 0, number, [0.0, 0], [1.0, 1], 9, 9, [9], 0, True, 8, 0.01, 0.1, 0.1))
    states = np.zeros((9, 4), np.float32)
    instance = Instance(states[0], states[0, :2], 0)
    save_rollout(folder / "rollout.npz", KeptRollout(0, instance, True, states, states[1:, :2], ((0, states[:, :2]),)))
    save_plans(folder / "plans.npz", PlanSheet("toy", states[0, :2], (states[:, :2],), np.zeros((0, 4))))
    card = folder / "card.json"
    shutil.copy(shipped_path("maze2d-umaze", "planner").with_name("card.json"), card)
    models = read_shipped(shipped_path("maze2d-umaze", "planner").parent)

    def report(path: Path) -> Any:
        read_results(path)
        place = path.parent / "rows" / "toy" / path.name
        if path != rows:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
            write_report(place.parent.parent, path.parent / "report")

    return {
        "rows": Format(rows, report, edit_lines),
        "rollout": Format(folder / "rollout.npz", load_rollout, edit_npz),
        "sheet of plans": Format(folder / "plans.npz", load_plans, edit_npz),
        "card": Format(card, lambda path: write_card("maze2d-umaze", models, folder / "none", path.parent), edit_json),
    }


def _plans(folder: Path) -> dict[str, Format]:
    from vhdiffuser.envs.registry import get_environment
    from vhdiffuser.trajectories import Plan

    spec = get_environment("maze2d-umaze").spec
    plan = Plan(np.linspace([1, 1, 0, 0], [3, 1, 0, 0], 9), np.array([3.0, 1.0]), spec=spec)
    for suffix in ("npz", "json", "csv"):
        plan.save(folder / f"plan.{suffix}")
    return {
        "plan npz": Format(folder / "plan.npz", Plan.load, edit_npz),
        "plan json": Format(folder / "plan.json", Plan.load, edit_json),
        "plan csv": Format(folder / "plan.csv", lambda path: Plan.load(path, spec)),
    }


def _checkpoint(folder: Path) -> dict[str, Format]:
    import torch

    from vhdiffuser.control.dynamics_task import DynamicsTask
    from vhdiffuser.control.inverse_dynamics import DynamicsConfig
    from vhdiffuser.data.readers import read_own
    from vhdiffuser.envs.importing import own_spec
    from vhdiffuser.normalizer import Normalizer
    from vhdiffuser.training.config import LoopConfig
    from vhdiffuser.training.loop import train

    episodes = read_own(folder / "own.npz")
    spec = own_spec("own", episodes, goal_dims=(0, 1))
    network = DynamicsConfig(hidden=8, layers=1, batch_size=4, ahead=(1,), held_out=0.5)

    def make(device: torch.device) -> Any:
        normalizer = Normalizer.fit(episodes.observations)
        return DynamicsTask(episodes, spec, network, normalizer, "none", device)

    run = folder / "run"

    def go_on(path: Path) -> Any:
        place = path.parent
        for old in ("model.safetensors", "checkpoint-before.safetensors"):
            (place / old).unlink(missing_ok=True)
        updates = 2 if path.parent == run else 3
        return train(make, LoopConfig(updates=updates, threads=1, device="cpu"), place, lambda status: None)

    go_on(run / "checkpoint.safetensors")
    return {"checkpoint": Format(run / "checkpoint.safetensors", go_on, edit_safetensors)}


def _walker(folder: Path) -> dict[str, Format]:
    from vhdiffuser.envs.antmaze.walker import SHIPPED_WALKER, Walker

    path = folder / "ant_walker.safetensors"
    path.write_bytes(SHIPPED_WALKER.read_bytes())
    return {"walker": Format(path, lambda path: Walker.load(path)(np.zeros(27), np.ones(2)))}


def _diffuser(folder: Path) -> dict[str, Format]:
    import torch

    from vhdiffuser.diffusion.import_diffuser import import_checkpoint
    from vhdiffuser.diffusion.schedule import cosine_betas
    from vhdiffuser.diffusion.unet import TemporalUnet
    from vhdiffuser.envs.registry import get_environment
    from vhdiffuser.normalizer import Normalizer

    spec = get_environment("maze2d-umaze").spec
    network = TemporalUnet(6, 8, (1, 2))
    state = {f"model.{key}": value for key, value in network.state_dict().items()}
    state |= {"betas": torch.from_numpy(cosine_betas(8)), "loss_fn.weights": torch.ones(16, 6)}
    path = folder / "state.pt"
    torch.save({"step": 3, "ema": state, "model": state}, path)
    normalizer = Normalizer(np.zeros(4, np.float32), np.ones(4, np.float32))

    def read(path: Path) -> Any:
        return import_checkpoint(path, path.with_name("imported.safetensors"), spec, normalizer)

    return {"Diffuser checkpoint": Format(path, read)}
