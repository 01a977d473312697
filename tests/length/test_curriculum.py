"""The three phases: when they change, how weights ramp, and that a resumed run goes on the same."""

import json
from dataclasses import replace

import pytest
import torch

from vhdiffuser.errors import VhdError
from vhdiffuser.length.config import LengthConfig, PhaseConfig, PlateauConfig, RelayGraphConfig
from vhdiffuser.length.curriculum import Curriculum
from vhdiffuser.weights.format import load_model, read_tensors
from vhdiffuser.weights.places import find_model, shipped_environments

PHASES = tuple(
    replace(phase, shortest=20, longest=longest, lambda_cons=weight, lambda_triangle=2 * weight)
    for phase, longest, weight in zip(LengthConfig().phases, (200, 300, 0), (0.0, 1.0, 2.0), strict=True)
)
PLATEAU = PlateauConfig(window=10, patience=2, improvement=0.05)


def feed(curriculum: Curriculum, error: float, first: int, count: int) -> None:
    for update in range(first, first + count):
        curriculum.observe(torch.tensor(error), update)


def test_a_falling_error_keeps_the_phase_until_its_longest() -> None:
    curriculum = Curriculum(PHASES, PLATEAU, ramp=1)
    for update in range(199):
        curriculum.observe(torch.tensor(0.9 ** (update / 5)), update)
    assert curriculum.phase == 0
    curriculum.observe(torch.tensor(0.0), 199)
    assert curriculum.phase == 1
    assert curriculum.began == 200


def test_a_plateau_ends_phases_one_and_two_but_not_three() -> None:
    curriculum = Curriculum(PHASES, PLATEAU, ramp=1)
    feed(curriculum, 0.5, 0, 20)
    assert curriculum.phase == 0  # one reading is the best, one is stale
    feed(curriculum, 0.5, 20, 10)
    assert curriculum.phase == 1
    feed(curriculum, 0.5, 30, 30)
    assert curriculum.phase == 2
    feed(curriculum, 0.5, 60, 500)
    assert curriculum.phase == 2


def test_weights_ramp_from_phase_to_phase() -> None:
    curriculum = Curriculum(PHASES, PLATEAU, ramp=100)
    assert curriculum.weights(5) == (0.0, 0.0)
    feed(curriculum, 0.5, 0, 30)
    assert curriculum.weights(30) == (0.0, 0.0)
    assert curriculum.weights(80) == pytest.approx((0.5, 1.0))
    assert curriculum.weights(500) == pytest.approx((1.0, 2.0))


def test_state_survives_json_and_goes_on_the_same() -> None:
    errors = [0.5 * 0.97**i for i in range(120)] + [0.2] * 200
    whole = Curriculum(PHASES, PLATEAU, ramp=10)
    parts = Curriculum(PHASES, PLATEAU, ramp=10)
    for update, error in enumerate(errors):
        whole.observe(torch.tensor(error), update)
        parts.observe(torch.tensor(error), update)
        if update % 37 == 0:
            saved = json.loads(json.dumps(parts.state(), allow_nan=False))
            parts = Curriculum(PHASES, PLATEAU, ramp=10)
            parts.load_state(saved)
    assert parts.starts == whole.starts
    assert parts.error == pytest.approx(whole.error)
    assert whole.phase == 2
    assert len(whole.starts) == 3


def test_states_of_version_0_3_knew_only_the_present_phase() -> None:
    curriculum = Curriculum(PHASES, PLATEAU, ramp=10)
    old = {**curriculum.state(), "phase": 1, "began": 30}
    del old["starts"]
    curriculum.load_state(old)
    assert (curriculum.phase, curriculum.began) == (1, 30)


@pytest.mark.parametrize("updates", [200, 3000, 20_000])
@pytest.mark.parametrize("falls", [False, True])
def test_every_phase_takes_place_whatever_the_anchor_error_does(updates: int, falls: bool) -> None:
    """A flat error ends phases I and II as early as they may, one that never stops falling as late as they must."""
    config = LengthConfig.paper(updates)
    curriculum = Curriculum(config.phases, config.plateau, config.ramp)
    for update in range(updates):
        curriculum.observe(torch.tensor(0.5 * 0.99**update if falls else 0.5), update)
    slack = config.plateau.window
    earliest, latest = ((0.2, 0.5) if falls else (0.1, 0.25)), 3 * slack
    assert len(curriculum.starts) == 3
    for began, share in zip(curriculum.starts[1:], earliest, strict=True):
        assert share * updates <= began <= share * updates + latest
    assert config.strengthening_from == pytest.approx(0.25 * updates, abs=1)
    assert curriculum.weights(updates - 1) == (config.strengthening.lambda_cons, config.strengthening.lambda_triangle)


def test_config_survives_json() -> None:
    for config in (LengthConfig(), LengthConfig.paper()):
        assert LengthConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_paper_recipe_is_the_papers() -> None:
    paper = LengthConfig.paper()
    assert paper.quantiles == (0.5,)
    assert paper.full_state_goals
    assert paper.bootstrap_at_hit
    assert paper.relay_graph is None
    assert not any(phase.even for phase in paper.phases)
    assert not any(phase.graph for phase in paper.phases)
    assert set(paper.warm_start.links) < set(paper.expansion.links) == {1, 2, 4, 8}
    # Anchors first, then ever more of the rest.
    assert [phase.goals.local for phase in paper.phases] == sorted((p.goals.local for p in paper.phases), reverse=True)
    assert [phase.lambda_cons > 0 for phase in paper.phases] == [False, True, True]
    assert paper.expansion.goals.local > 0.5, "most targets of phase II are anchored"
    assert paper.strengthening.goals.local == paper.strengthening.goals.far, "a balanced mix"
    # Relays are rare in phases I and II, and their term small beside the regression; phase III raises both.
    for early in (paper.warm_start, paper.expansion):
        assert 0 < early.relay_share <= 0.1 < paper.strengthening.relay_share
        assert 0 < early.lambda_triangle <= 0.1 < paper.strengthening.lambda_triangle


@pytest.mark.parametrize(
    "change", [{"links": ()}, {"links": (0,)}, {"relays": 0, "relay_share": 0.5, "lambda_triangle": 1.0}]
)
def test_bad_phases_are_refused(change: dict[str, object]) -> None:
    fields = {name: getattr(PHASES[0], name) for name in PHASES[0].__dataclass_fields__}
    with pytest.raises(VhdError):
        PhaseConfig(**{**fields, **change})


def test_a_relay_share_without_a_triangle_term_is_refused() -> None:
    phase = LengthConfig.paper().warm_start
    with pytest.raises(VhdError, match=r"relay_share 0.05 has no effect while lambda_triangle is 0"):
        replace(phase, lambda_triangle=0.0)
    assert replace(phase, lambda_triangle=0.0, relay_share=0.0).relay_share == 0


def test_models_with_an_idle_relay_share_load_as_what_they_were() -> None:
    """Version 0.1 wrote `paper` models with a share of 0.05 and no triangle term in phases I and II."""
    old = LengthConfig.paper().to_json()
    for name in ("warm_start", "expansion"):
        old[name]["lambda_triangle"] = 0.0
    loaded = LengthConfig.from_json(json.loads(json.dumps(old)))
    assert [phase.relay_share for phase in loaded.phases] == [0.0, 0.0, LengthConfig.paper().strengthening.relay_share]


@pytest.mark.parametrize("name", shipped_environments())
def test_shipped_models_load_with_their_recipe_unchanged(name: str) -> None:
    _, header = load_model(find_model(name, "length", "shipped"), "length")
    read = json.loads(json.dumps(LengthConfig.from_json(header.config).to_json()))
    for now, then, made in (
        (read, header.config, LengthConfig()),
        (read["relay_graph"], header.config["relay_graph"], RelayGraphConfig()),
    ):
        for later in {*now} - {*then}:
            assert now.pop(later) == getattr(made, later)
    assert read == header.config


@pytest.mark.parametrize("name", ["maze2d-umaze", "maze2d-medium", "maze2d-large", "antmaze-medium", "cube"])
def test_files_of_version_0_2_say_levels_and_are_read_as_quantiles(name: str) -> None:
    path = find_model(name, "length", "shipped")
    old, new = read_tensors(path)[1]["config"], load_model(path, "length")[1].config
    assert old["levels"] == new["quantiles"] == [0.3, 0.1, 0.9]
    assert old["relay_graph"]["level"] == new["relay_graph"]["quantile"] == 0.15
    assert {*old} - {"levels"} == {*new} - {"quantiles"}


def test_bad_quantiles_are_refused() -> None:
    with pytest.raises(VhdError, match="quantiles"):
        LengthConfig(quantiles=(0.0,))
