"""Every example runs as a reader would run it, in a cache folder of its own, and shows what it says it shows."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.import_diffuser import import_checkpoint
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.torch_network import arrays
from vhdiffuser.weights.format import ModelHeader, load_model, save_model
from vhdiffuser.weights.places import shipped_environments

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ELSEWHERE = {"api_client.py"}
"""Tested with the server that it talks to."""


def run_example(name: str, home: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        # Small networks: one thread, and not bf16 where the CPU only emulates it, or they train for minutes.
        env={**os.environ, "VHD_HOME": str(home), "OMP_NUM_THREADS": "1", "VHD_PRECISION": "fp32"},
        cwd=home.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, f"no '{pattern}' in:\n{text}"
    return [float(group) for group in match.groups()]


@pytest.mark.slow
def test_your_own_data_gets_plans_of_the_length_they_need(vhd_home):
    text = run_example("train_on_your_own_data.py", vhd_home)
    (near,) = numbers(r"near goal: (\d+) states", text)
    (far,) = numbers(r"far goal: (\d+) states", text)
    assert 8 <= near < 25
    assert 40 < far <= 96
    assert re.search(r"far goal.* to \[0\.9\s+0\.9\s+0\.9", text), "the plan ends at its goal"


@pytest.mark.slow
def test_your_own_environment_is_driven_to_its_goals(vhd_home):
    text = run_example("drive_your_own_gymnasium_env.py", vhd_home)
    (hits,) = numbers(r"(\d) of 5 reached", text)
    assert hits >= 4


@pytest.mark.slow
def test_a_diffuser_checkpoint_plans_at_predicted_lengths(vhd_home):
    text = run_example("diffuser_checkpoint_with_length_predictor.py", vhd_home)
    fixed_near, near = numbers(r"near: (\d+) states as trained, (\d+) as predicted", text)
    fixed_far, far = numbers(r"far: (\d+) states as trained, (\d+) as predicted", text)
    assert fixed_near == fixed_far == 128
    assert 16 <= near < far <= 256
    for name in ("FH", r"FH\+LP"):
        rate, steps = numbers(rf"^{name}: (\d+)% single-shot, (\d+) steps", text)
        assert 0 <= rate <= 100
        assert 0 < steps <= 256


@pytest.mark.slow
def test_a_planner_in_the_original_s_format_comes_back_with_its_weights(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("diffuser_checkpoint_with_length_predictor")
    spec = get_spec("maze2d-umaze")
    config = PlannerConfig(
        dim=8, dim_mults=(1, 2), stride=1, prediction="epsilon", clamp="state", horizon=32, diffusion_steps=8
    )
    network = TemporalUnet(spec.state_dim, config.dim, config.dim_mults)
    limits = Normalizer(np.array([0, 0, -5, -5], np.float32), np.array([4, 4, 5, 5], np.float32))
    header = ModelHeader("planner", spec.to_json(), config.to_json(), limits.to_json(), "data", updates=7)
    tensors = arrays(network.state_dict())
    save_model(tmp_path / "mine.safetensors", tensors, header)
    checkpoint = example.save_as_original(tmp_path / "mine.safetensors", tmp_path)
    assert checkpoint.name == "state_7.pt"
    again = import_checkpoint(checkpoint, tmp_path / "again.safetensors", spec, limits, prediction="epsilon")
    known = {key: again.config[key] for key in ("dim", "dim_mults", "prediction", "horizon", "diffusion_steps")}
    assert known == {key: config.to_json()[key] for key in known}
    kept, _ = load_model(tmp_path / "again.safetensors", "planner")
    assert kept.keys() == tensors.keys()
    assert all(np.array_equal(kept[name], tensors[name]) for name in tensors)


@pytest.mark.slow
def test_a_predictor_that_sees_pixels_knows_the_way_round_the_wall(vhd_home):
    text = run_example("length_from_pixels.py", vhd_home)
    rank, straight = numbers(r"distance: ([\d.]+) from pixels \(a straight line: ([\d.]+)\)", text)
    assert rank > 0.9
    assert rank > straight


@pytest.mark.slow
def test_the_predictor_guides_a_search(vhd_home):
    text = run_example("heuristic_for_graph_search.py", vhd_home)
    row = r"\s+([\d.]+) steps,\s+([\d.]+) nodes expanded,\s+([\d.]+)% admissible"
    shortest, everywhere, _ = numbers("^none" + row, text)
    found, guided, admissible = numbers("^learned" + row, text)
    nearly, _, scaled = numbers("^scaled" + row, text)
    assert guided < everywhere / 2
    assert shortest - 0.1 <= nearly <= found < 1.1 * shortest
    assert admissible < 90 < scaled, "estimates are learned, not bounds; a smaller multiple nearly is one"


@pytest.mark.slow
def test_tasks_are_chosen_by_predicted_steps(vhd_home):
    text = run_example("choose_among_tasks.py", vhd_home)
    row = r"\s+nearest task\s+(\d+)% right, tours of ([\d.]+) units"
    straight, detour = numbers("by straight line" + row, text)
    learned, tour = numbers("by predicted steps" + row, text)
    assert learned >= 85
    assert learned >= straight
    assert tour < detour


@pytest.mark.slow
def test_replanning_when_late_needs_few_plans(vhd_home):
    text = run_example("replan_timing.py", vhd_home)
    assert "replan never: missed" in text
    _, often = numbers(r"every 10 steps: arrived after (\d+) steps with (\d+) plans", text)
    _, late = numbers(r"when late: arrived after (\d+) steps with (\d+) plans", text)
    assert 1 < late < often / 4


@pytest.mark.slow
def test_the_steps_of_a_seven_joint_arm_are_learned(vhd_home):
    text = run_example("seven_joint_arm.py", vhd_home)
    (rank,) = numbers(r"^spearman\s+([\d.]+)", text)
    (straight,) = numbers(r"rank correlation of ([\d.]+)", text)
    assert "the environment's own shortest steps" in text
    assert rank > max(0.9, straight)


@pytest.mark.slow
@pytest.mark.skipif("maze2d-large" not in shipped_environments(), reason="no weights ship for maze2d-large yet")
def test_shipped_weights_plan_and_execute(vhd_home):
    text = run_example("plan_with_shipped_weights.py", vhd_home)
    assert "replan-on-deviation: reached the goal" in text


@pytest.mark.slow
def test_an_agent_is_driven_by_a_loop_of_one_s_own(vhd_home):
    text = run_example("own_control_loop.py", vhd_home)
    assert "goal (1, 10) reached" in text
    typical, slowest = numbers(r"typical act ([\d.]+) s, slowest ([\d.]+) s", text)
    assert typical < slowest


@pytest.mark.slow
def test_two_robots_meet_at_the_step_agreed_on(vhd_home):
    text = run_example("rendezvous.py", vhd_home)
    arrivals = [int(steps) for steps in re.findall(r"there after (\d+) steps", text)]
    assert len(arrivals) == 2
    assert all(abs(steps - 220) <= 3 for steps in arrivals)


@pytest.mark.slow
def test_a_gate_that_closes_is_reached_in_time_or_given_up(vhd_home):
    text = run_example("closing_goal.py", vhd_home)
    (needed, chance) = numbers(r"far gate: too late, it takes (\d+) steps \(in time with probability ([\d.]+)\)", text)
    assert needed > 130
    assert chance < 0.95
    (taken,) = numbers(r"near gate: .* reached after (\d+)", text)
    assert taken <= 130


@pytest.mark.slow
def test_pointmaze_is_driven_with_shipped_weights(vhd_home):
    pytest.importorskip("gymnasium_robotics", reason="needs the extra 'robotics', which `make setup` installs")
    assert re.search(r"maze2d-umaze: goal .* reached", run_example("pointmaze.py", vhd_home))


def test_every_example_is_tested_and_listed():
    tested = set(re.findall(r'run_example\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    present = {path.name for path in EXAMPLES.glob("*.py")}
    assert present == tested | (ELSEWHERE & present)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(name in listed for name in tested)
