"""Import of checkpoints of the original Diffuser (jannerm/diffuser): the paper's FH and FH+LP.

A checkpoint holds weights and diffusion buffers, but no configuration. The network's widths, the diffusion steps and
the horizon follow from tensor shapes. Two things do not: what the network predicts (the public maze2d models predict
the clean trajectory), and the normaliser, which is fitted here to the same dataset.

The original's knots are (action, observation): its planner samples both and clamps only the observations. Ours does the
same (`PlannerConfig.action_dim`) and returns the states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.schedule import cosine_betas
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path, scratch_folder
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.torch_network import arrays
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import ModelHeader, save_model
from vhdiffuser.weights.places import run_folder, run_name

State = dict[str, torch.Tensor]


def import_run(file: Path, environment: str, out: Path | None = None, **settings: Any) -> tuple[Path, ModelHeader]:
    """Import a checkpoint with the environment's data, as its run `fh-H` or to the file `out`: the path and the header.

    `settings` are those of `import_checkpoint`.
    """
    dataset = load_dataset(environment)
    with scratch_folder() as folder:
        draft = folder / "model.safetensors"
        header = import_checkpoint(file, draft, dataset.spec, dataset.normalizer(), dataset.fingerprint(), **settings)
        name = run_name("planner", horizon=header.config["horizon"])
        path = out or run_folder(environment, name) / "model.safetensors"
        with atomic_path(path) as temporary:
            temporary.write_bytes(draft.read_bytes())
    return path, header


def import_checkpoint(
    path: Path,
    out: Path,
    spec: EnvSpec,
    normalizer: Normalizer,
    data_fingerprint: str = "",
    *,
    weights: Literal["ema", "model"] = "ema",
    prediction: Literal["epsilon", "sample"] = "sample",
    horizon: int | None = None,
    diffusion_steps: int | None = None,
) -> ModelHeader:
    """Convert a checkpoint of the original Diffuser at `path` to a planner at `out`.

    `horizon` and `diffusion_steps` are needed only if the file has no diffusion buffers (a bare network). Raises
    `DataError` for other files.
    """
    content = read_checkpoint(path)
    state = diffusion_state(path, content, weights)
    network_state = unet_state(path, state)
    config = config_of(path, state, network_state, spec, prediction, horizon, diffusion_steps)
    network = TemporalUnet(config.action_dim + spec.state_dim, config.dim, config.dim_mults)
    try:
        network.load_state_dict(network_state)
    except RuntimeError as error:
        raise DataError(f"{path}: not the weights of Diffuser's temporal U-Net ({error}).") from error
    step = content.get("step", 0)
    header = ModelHeader(
        kind="planner",
        spec=spec.to_json(),
        config=config.to_json(),
        normalizer=normalizer.to_json(),
        data_fingerprint=data_fingerprint,
        updates=int(step) if isinstance(step, int | float) else 0,
        notes={"imported_from": path.name, "weights": weights},
        planning=PlanningOptions(sampler="ddpm", steps=config.diffusion_steps, smoothing=0.0, gamma=1.3).to_json(),
    )
    save_model(out, arrays(network.state_dict()), header)
    return header


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint, tensors and plain values only: code in the file is never executed."""
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch passes on any error of its zip reader and its tensor unpickler
        raise DataError(
            f"{path}: cannot be read as weights ({str(error).partition(chr(10))[0]}). It must be a state dict "
            "or a `state_*.pt` of the original Diffuser, not a pickled model or config."
        ) from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: contains a {type(content).__name__}, not a state dict.")
    return content


def diffusion_state(path: Path, content: dict[str, Any], weights: str) -> State:
    """The state dict, unwrapped from a `state_*.pt` ({'step', 'model', 'ema'}) if necessary."""
    wrapped = {key: value for key, value in content.items() if key in ("model", "ema") and isinstance(value, dict)}
    if wrapped and weights not in wrapped:
        raise DataError(f"{path}: has no '{weights}' weights, only {', '.join(wrapped)}: choose one of these.")
    state = wrapped.get(weights, content)
    return {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}


def unet_state(path: Path, state: State) -> State:
    """Tensors of the U-Net: `GaussianDiffusion` stores them under `model.`, next to its buffers."""
    inner = {key.removeprefix("model."): value for key, value in state.items() if key.startswith("model.")}
    network = inner or state
    if "time_mlp.1.weight" not in network or "final_conv.1.weight" not in network:
        raise DataError(
            f"{path}: has no parameters of Diffuser's temporal U-Net (such as `time_mlp.1.weight`); it starts "
            f"with {', '.join(list(state)[:3]) or 'no tensor at all'}."
        )
    return network


def config_of(
    path: Path,
    state: State,
    network: State,
    spec: EnvSpec,
    prediction: Literal["epsilon", "sample"],
    horizon: int | None,
    diffusion_steps: int | None,
) -> PlannerConfig:
    """Infer the config from tensor shapes and the caller's arguments."""
    dim = network["time_mlp.1.weight"].shape[1]
    depth = 1 + max(int(key.split(".")[1]) for key in network if key.startswith("downs."))
    widths = [network[f"downs.{level}.1.blocks.1.block.0.weight"].shape[0] for level in range(depth)]
    action_dim = network["final_conv.1.weight"].shape[0] - spec.state_dim
    if action_dim not in (0, spec.action_dim):
        raise DataError(
            f"{path}: its knots have {action_dim + spec.state_dim} numbers, but {spec.name} has "
            f"{spec.state_dim} state and {spec.action_dim} action dimensions. Was it trained for another "
            "environment?"
        )
    steps = _number(path, "diffusion_steps", state.get("betas"), diffusion_steps)
    if "betas" in state and not torch.allclose(state["betas"], torch.from_numpy(cosine_betas(steps)), atol=1e-5):
        raise DataError(f"{path}: its noise schedule is not Diffuser's cosine schedule.")
    return PlannerConfig(
        dim=dim,
        dim_mults=tuple(width // dim for width in widths),
        prediction=prediction,
        diffusion_steps=steps,
        stride=1,
        clamp="state",
        horizon=_number(path, "horizon", state.get("loss_fn.weights"), horizon),
        batch_size=32,
        action_dim=action_dim,
    )


def _number(path: Path, name: str, buffer: torch.Tensor | None, given: int | None) -> int:
    """First dimension of a buffer, or the caller's value if the buffer is missing."""
    if buffer is None:
        if given is None:
            raise DataError(f"{path}: a bare network without buffers; pass the {name} it was trained with.")
        return given
    if given is not None and given != len(buffer):
        raise DataError(f"{path}: its {name} is {len(buffer)}, not {given}.")
    return len(buffer)
