"""What `vhd train` makes of its options."""

from __future__ import annotations

from dataclasses import fields

import pytest

from vhdiffuser.cli import parse, run
from vhdiffuser.envs.registry import environments, get_environment
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.optimizer import learning_rate


def loop_of(*options: str) -> LoopConfig:
    """What `vhd train planner` trains with."""
    return parse("train", ["planner", "maze2d-umaze", *options]).loop


def test_the_paper_recipe_trains_as_diffuser_does() -> None:
    """Adam at a constant 2e-4, two batches an update, gradients as they are, and its average of the weights."""
    loop = loop_of("--recipe", "paper")
    assert (loop.optimizer, loop.weight_decay, loop.accumulate, loop.clip) == ("adamw", 0.0, 2, None)
    assert (loop.ema, loop.ema_every, loop.ema_from) == (0.995, 10, 2000)
    assert {learning_rate(loop, update, update / loop.updates) for update in (0, 1, 50, 4000, 8000)} == {2e-4}


def test_the_length_predictor_s_quantiles_are_an_option() -> None:
    options = ["--length.quantiles", "0.5", "0.2", "--length.relay-graph.quantile", "0.25"]
    predictor = parse("train", ["length", "maze2d-umaze", *options]).length
    assert (predictor.quantiles, predictor.relay_graph.quantile) == ((0.5, 0.2), 0.25)


def test_the_default_recipe_trains_with_muon_at_a_rate_that_rises_and_decays() -> None:
    loop = loop_of()
    assert (loop.optimizer, loop.weight_decay, loop.ema, loop.updates) == ("muon", 1e-4, 0.999, 2500)
    rates = [learning_rate(loop, update, update / loop.updates) for update in (0, 199, 1250, 2500)]
    assert rates == pytest.approx([1e-3 / 200, 0.985e-3, 1e-3 * (0.05 + 0.95 / 2), 0.05e-3], rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["default", "paper"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("optimizer", "muon"),
        ("optimizer", "adamw"),
        ("learning_rate", 1e-3),
        ("learning_rate", 2e-4),
        ("ema", 0.999),
        ("ema", 0.995),
        ("weight_decay", 1e-4),
        ("final_rate", 0.05),
        ("warmup", 200),
        ("accumulate", 1),
        ("clip", 1.0),
        ("ema_every", 1),
        ("ema_from", 7),
        ("updates", 10_000),
    ],
)
def test_what_is_given_wins_over_the_recipe(recipe: str, field: str, value: object) -> None:
    """Also where it is the other recipe's value, which must not pass for an option that was not given."""
    given = loop_of("--recipe", recipe, f"--{field.replace('_', '-')}", str(value))
    plain = loop_of("--recipe", recipe)
    assert getattr(given, field) == value
    others = [item.name for item in fields(LoopConfig) if item.name != field]
    assert [getattr(given, name) for name in others] == [getattr(plain, name) for name in others]


def test_no_clipping_can_be_asked_for() -> None:
    assert loop_of().clip == 1.0
    assert loop_of("--clip", "None").clip is None


def test_every_crop_can_be_asked_for_where_the_recipe_chooses() -> None:
    directness = {
        options: parse("train", ["planner", "antmaze-medium", *options]).network.directness
        for options in ((), ("--directness", "3"), ("--directness", "None"), ("--horizon", "256"))
    }
    assert list(directness.values()) == [2.2, 3.0, None, None], "a fixed horizon takes every crop"


@pytest.mark.parametrize(("given", "gap"), [((), None), (("64", "96"), (64, 96)), (("None",), None)])
def test_an_option_of_two_numbers_may_be_none(given: tuple[str, ...], gap: tuple[int, int] | None) -> None:
    options = ["--gap", *given] if given else []
    assert parse("train", ["planner", "maze2d-umaze", *options]).network.gap == gap


def test_half_of_such_an_option_is_refused_in_words(capsys) -> None:
    assert run(["train", "planner", "maze2d-umaze", "--gap", "64"]) == 2
    assert "--gap INT INT" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--gamma", "--gap", "--name"])
def test_an_option_without_its_value_is_refused_in_words(option: str, capsys) -> None:
    assert run(["train", "planner", "maze2d-umaze", option]) == 2
    assert option in capsys.readouterr().err


def test_a_fixed_horizon_knows_the_walls_since_it_has_no_routes() -> None:
    command = ["planner", "antmaze-medium"]
    assert parse("train", command).network.frame == 20.0
    assert parse("train", [*command, "--horizon", "256"]).network.frame is None


@pytest.mark.slow
@pytest.mark.parametrize("environment", list(environments()))
@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_without_options_a_training_is_its_recipe(environment: str, recipe: str) -> None:
    made = get_recipe(get_environment(environment), recipe)
    planner, length, dynamics = (
        parse("train", [kind, environment, "--recipe", recipe]) for kind in ("planner", "length", "dynamics")
    )
    assert (planner.network, planner.planning, planner.loop) == (made.planner, made.planning, made.planner_loop)
    assert (length.length, length.loop) == (made.length, made.length_loop)
    assert (dynamics.network, dynamics.loop) == (made.dynamics, made.dynamics_loop)


def test_the_environment_is_found_behind_options_and_a_run_may_be_named_like_another() -> None:
    command = ["planner", "--updates", "20", "--name", "cube", "antmaze-medium"]
    assert parse("train", command).planning.wait == 40
    assert parse("train", ["planner", "--recipe=paper", "maze2d-umaze"]).network.diffusion_steps == 64


def test_fields_deep_in_a_recipe_are_options() -> None:
    option = ("--length.strengthening.lambda-triangle", "0.25")
    assert parse("train", ["length", "maze2d-umaze", *option]).length.strengthening.lambda_triangle == 0.25


def test_the_paper_s_controller_reads_the_plan_by_its_index() -> None:
    paces = [
        parse("train", ["dynamics", "antmaze-medium", "--recipe", name]).network.pace for name in ("default", "paper")
    ]
    assert paces == [0.06, None]


def test_a_recipe_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "planner", "maze2d-umaze", "--recipe", "mine"]) == 1
    assert "default, paper" in capsys.readouterr().err


def test_choosing_crops_needs_a_trained_length_predictor(vhd_home, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "2000", "--quiet"]) == 0
    assert run(["train", "planner", "maze2d-umaze", "--directness", "2", "--updates", "1"]) == 1
    assert "vhd train length maze2d-umaze" in capsys.readouterr().err
