"""Algorithm 1 as a task: which crops it draws, and what it asks of the network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.interpolation import knot_count
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.task import PlannerTask
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_environment, get_spec
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.torch_network import arrays, state_dict
from vhdiffuser.types import EnvSpec, Episodes
from vhdiffuser.weights.format import load_model, save_model

SPEC = replace(get_spec("maze2d-umaze"), L_min=8, T_max=40)


def episodes(lengths: list[int], spec: EnvSpec = SPEC) -> Episodes:
    rng = np.random.default_rng(0)
    return Episodes.from_parts(
        [(rng.normal(size=(n, spec.observation_dim)), np.zeros((n - 1, spec.action_dim))) for n in lengths]
    )


def make_task(config: PlannerConfig, lengths: list[int] | None = None) -> PlannerTask:
    data = episodes(lengths or [60, 80, 100])
    return PlannerTask(data, SPEC, config, Normalizer.fit(data.observations), "fingerprint")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("stride", [1, 4])
def test_crop_lengths_are_uniform_from_L_min_to_T_max(stride: int) -> None:
    task = make_task(PlannerConfig(stride=stride, batch_size=1))
    random = generator()
    counts = np.bincount([task.draw(random).shape[1] for _ in range(6600)])
    expected = np.bincount([knot_count(length, stride) for length in range(8, 41)]) * 200
    assert len(counts) == len(expected)
    assert (counts[expected == 0] == 0).all()
    seen = expected > 0
    assert (np.abs(counts - expected)[seen] < 5 * np.sqrt(expected[seen])).all()


def test_lengths_of_a_gap_are_never_drawn_and_the_others_alike() -> None:
    task = make_task(PlannerConfig(stride=1, batch_size=1, gap=(12, 30)))
    random = generator()
    counts = np.bincount([task.draw(random).shape[1] for _ in range(3000)], minlength=41)
    seen = [length for length in range(8, 41) if not 12 <= length < 30]
    assert counts[seen].sum() == 3000
    assert (np.abs(counts[seen] - 3000 / len(seen)) < 5 * np.sqrt(3000 / len(seen))).all()
    with pytest.raises(VhdError, match="leaves no length"):
        make_task(PlannerConfig(gap=(1, 50)))
    with pytest.raises(VhdError, match="gap must be a range"):
        PlannerConfig(gap=(30, 12))


def test_the_recipe_decides_whether_a_demonstration_is_drawn_first() -> None:
    for first, share in ((True, 0.5), (False, 10 / 110)):
        task = make_task(PlannerConfig(stride=1, horizon=31, batch_size=4000, demonstration_first=first), [40, 130])
        begins = task.crops.states[:10]
        drawn = task.draw(generator())[:, 0]
        short = (drawn[:, None] == begins[None]).all(dim=2).any(dim=1).float().mean()
        assert float(short) == pytest.approx(share, abs=0.05)


def test_a_fixed_horizon_draws_that_length_only() -> None:
    task = make_task(PlannerConfig(stride=4, horizon=33, batch_size=5))
    random = generator()
    assert {tuple(task.draw(random).shape) for _ in range(20)} == {(5, 9, 4)}


def test_crops_are_normalised_states_of_the_data() -> None:
    data = episodes([60, 80])
    normalizer = Normalizer.fit(data.observations)
    task = PlannerTask(data, SPEC, PlannerConfig(batch_size=64), normalizer, "f")
    crop = task.draw(generator())
    assert float(crop.abs().max()) <= 1 + 1e-6
    rows = {row.tobytes() for row in normalizer.normalize(data.observations)}
    assert all(row.tobytes() in rows for row in crop.numpy().reshape(-1, 4))


def roads(speeds: list[float]) -> Episodes:
    """Episodes that go along x at one speed each, 100 states long."""
    parts = []
    for speed in speeds:
        states = np.zeros((100, SPEC.observation_dim))
        states[:, 0] = speed * np.arange(100)
        parts.append((states, np.zeros((99, SPEC.action_dim))))
    return Episodes.from_parts(parts)


def chosen_speeds(speeds: list[float], directness: float) -> np.ndarray:
    """Speeds of the crops drawn when the true distance is x at speed 1."""
    data = roads(speeds)
    normalizer = Normalizer.fit(data.observations)

    def steps_between(s: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        x = [normalizer.unnormalize(part.numpy())[:, 0] for part in (s, end)]
        return torch.as_tensor(x[1] - x[0])

    config = PlannerConfig(stride=1, directness=directness, batch_size=64)
    task = PlannerTask(data, SPEC, config, normalizer, "f", steps_between=steps_between)
    random = generator()
    crops = [normalizer.unnormalize(task.draw(random).numpy())[..., 0] for _ in range(10)]
    return np.concatenate([(crop[:, -1] - crop[:, 0]) / (crop.shape[1] - 1) for crop in crops]).round(3)


def test_of_the_direct_crops_each_has_the_same_chance() -> None:
    speeds, counts = np.unique(chosen_speeds([1.0, 0.5, 0.2, 0.2, 0.2, 0.2], directness=2.1), return_counts=True)
    np.testing.assert_allclose(speeds, [0.5, 1.0])
    assert (np.abs(counts - 320) < 5 * np.sqrt(160)).all()


def test_where_direct_crops_are_too_few_the_most_direct_are_taken() -> None:
    chosen = chosen_speeds([0.4, 0.2, 0.1], directness=2.0)
    assert (chosen == 0.4).all()


def test_directness_needs_a_length_predictor_and_no_fixed_horizon() -> None:
    with pytest.raises(VhdError, match="steps_between"):
        make_task(PlannerConfig(directness=2.0))
    with pytest.raises(VhdError, match="every distance"):
        PlannerConfig(directness=2.0, horizon=64)
    with pytest.raises(VhdError, match=">= 1"):
        PlannerConfig(directness=0.5)


class Recorder(nn.Module):
    """Answers zeros and remembers what it was shown."""

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        self.x, self.time = x, time
        return torch.zeros_like(x)


@pytest.mark.parametrize("clamp", ["goal", "state"])
def test_the_network_sees_clean_ends_and_noise_between(clamp: str) -> None:
    config = PlannerConfig(stride=1, horizon=20, clamp=clamp, batch_size=256, diffusion_steps=64)  # type: ignore[arg-type]
    task = make_task(config)
    tau0 = task.draw(generator(7))
    network = Recorder()
    loss, scalars = task.loss(network, network, generator(7), 0)
    assert torch.equal(network.x[:, 0], tau0[:, 0])
    assert torch.equal(network.x[:, -1, :2], tau0[:, -1, :2])
    assert torch.equal(network.x[:, -1, 2:], tau0[:, -1, 2:]) == (clamp == "state")
    assert not torch.equal(network.x[:, 1:-1], tau0[:, 1:-1])
    assert network.time.min() < 4
    assert network.time.max() == 63
    assert torch.isfinite(loss)
    assert scalars["knots"] == 20


def test_epsilon_prediction_of_nothing_costs_the_noise_s_variance() -> None:
    task = make_task(PlannerConfig(prediction="epsilon", stride=1, horizon=40, batch_size=512))
    network = Recorder()
    loss, _ = task.loss(network, network, generator(), 0)
    assert float(loss) == pytest.approx(1.0, abs=0.02)


def test_same_seed_same_loss_and_gradient_reaches_every_weight() -> None:
    task = make_task(PlannerConfig(dim=8, batch_size=16))
    torch.manual_seed(0)
    network = task.make_network()
    first, _ = task.loss(network, network, generator(1), 0)
    second, _ = task.loss(network, network, generator(1), 0)
    assert torch.equal(first, second)
    first.backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in network.parameters())


def test_short_data_shortens_crops_and_says_so_or_is_refused() -> None:
    with pytest.warns(UserWarning, match="longest episode has 30 states"):
        task = make_task(PlannerConfig(stride=4, batch_size=2), [30, 20])
    random = generator()
    assert max(task.draw(random).shape[1] for _ in range(300)) == knot_count(29, 4)
    with pytest.raises(DataError, match="at least 8 states"):
        make_task(PlannerConfig(), [5, 7])
    with pytest.raises(DataError, match="at least 90 states"):
        make_task(PlannerConfig(horizon=90), [60])


def test_paper_recipe_has_the_paper_s_and_diffuser_s_values() -> None:
    recipes = [get_recipe(get_environment(name), "paper") for name in ("maze2d-umaze", "maze2d-large")]
    umaze, large = (recipe.planner for recipe in recipes)
    assert (umaze.prediction, umaze.stride, umaze.clamp) == ("epsilon", 1, "state")
    assert (umaze.dim, umaze.dim_mults, umaze.batch_size) == (32, (1, 4, 8), 32)
    assert (umaze.diffusion_steps, large.diffusion_steps) == (64, 256)
    for config in (umaze, large):
        assert config.demonstration_first
        assert (config.horizon, config.longest, config.directness) == (None, None, None)
    for recipe, steps in zip(recipes, (64, 256), strict=True):
        planning = recipe.planning
        assert (planning.sampler, planning.steps, planning.smoothing, planning.stretch) == ("ddpm", steps, 0.0, 1.0)
        assert (planning.candidates, planning.piece) == (1, 0)


def test_what_a_planner_will_plan_with_stands_apart_in_its_header() -> None:
    task = make_task(PlannerConfig(dim=8))
    assert task.header().planning == PlanningOptions().to_json()
    assert not set(task.header().planning) & set(task.header().config)
    few, options = PlannerConfig(dim=8, diffusion_steps=32), PlanningOptions(sampler="ddpm", steps=64)
    paper = PlannerTask(episodes([300]), SPEC, few, task.normalizer, "f", planning=options)
    assert paper.header().planning["steps"] == 32, "no more reverse steps than there are levels"


def test_config_and_header_survive_the_model_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    task = make_task(PlannerConfig(dim=8, dim_mults=(1, 2), horizon=24))
    save_model(tmp_path / "planner.safetensors", arrays(task.make_network().state_dict()), task.header())
    tensors, header = load_model(tmp_path / "planner.safetensors", "planner")
    assert PlannerConfig.from_json(header.config) == task.config
    assert EnvSpec.from_json(header.spec) == SPEC
    TemporalUnet(4, 8, (1, 2)).load_state_dict(state_dict(tensors))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"prediction": "score"}, UnknownNameError),
        ({"clamp": "velocity"}, UnknownNameError),
        ({"stride": 0}, VhdError),
        ({"horizon": 1}, VhdError),
    ],
)
def test_impossible_recipes_are_refused(wrong: dict, error: type[VhdError]) -> None:  # type: ignore[type-arg]
    with pytest.raises(error):
        PlannerConfig(**wrong)


def test_training_on_actions_is_refused() -> None:
    with pytest.raises(VhdError, match="states only"):
        make_task(PlannerConfig(action_dim=2))


def test_crops_in_a_frame_begin_at_its_origin_and_keep_their_shape() -> None:
    plain, framed = (make_task(PlannerConfig(stride=1, batch_size=16, frame=frame)) for frame in (None, 3.0))
    crops, local = plain.draw(generator(4)), framed.draw(generator(4))
    scale = torch.as_tensor(plain.normalizer.scale)
    moved = (crops - crops[:, :1]) * scale / 3.0
    assert torch.allclose(local[..., :2], moved[..., :2], atol=1e-5)
    assert torch.equal(local[..., 2:], crops[..., 2:])
    with pytest.raises(VhdError, match="frame"):
        PlannerConfig(frame=0.0)
