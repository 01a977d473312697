"""Controllers and samplers of others: registered in a program, or brought by an installed package."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_point import SPEC, ToyController

import vhdiffuser
from vhdiffuser.cli import run
from vhdiffuser.control.base import CONTROLLERS, default_controller, make_controller
from vhdiffuser.control.pd import PDController
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.sampler import ddim_step
from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import UnknownNameError, VhdError, VhdWarning
from vhdiffuser.extensions import Registry

PACKAGE = """
from vhdiffuser.control.base import Controller
from vhdiffuser.control.pd import PDController

def straight_to_the_end(tau, tau0, older, a, n, draw):
    return tau0

class Gentle(PDController):
    def describe(self):
        return {**super().describe(), "name": "gentle"}

def gentle(spec, model):
    return Gentle(spec)

number = 3
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A package `robots` with these entry points, found as pip would have installed it."""

    def install_package(**groups: dict[str, str]) -> None:
        folder = tmp_path / "site"
        (folder / "robots-1.dist-info").mkdir(parents=True)
        (folder / "robots.py").write_text(PACKAGE)
        (folder / "robots-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: robots\nVersion: 1\n")
        lines = [
            "\n".join([f"[vhdiffuser.{group}]", *(f"{name} = {value}" for name, value in points.items())])
            for group, points in groups.items()
        ]
        (folder / "robots-1.dist-info" / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(str(folder))
        for registry in (CONTROLLERS, SAMPLERS):
            monkeypatch.setattr(registry, "_packages_loaded", False)

    return install_package


def plan(sampler: str) -> np.ndarray:
    planner = vhdiffuser.load_planner("maze2d-umaze", sampler=sampler)
    return planner.plan([1, 1, 0, 0], [3, 1], 60, seed=4).states


def test_ours_are_there_and_found_without_asking_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SAMPLERS.names()[:3] == ["ddpm", "ddim", "dpm++"]
    assert CONTROLLERS.names()[:2] == ["pd", "displacement"]
    assert SAMPLERS.get("ddim") is ddim_step
    monkeypatch.setattr(SAMPLERS, "_packages_loaded", False)
    monkeypatch.setattr("vhdiffuser.extensions.entry_points", lambda group: pytest.fail("asked"))
    PlanningOptions(sampler="dpm++")


def test_a_registered_sampler_makes_the_plans() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown sampler 'mine'. Known: ddpm, ddim, dpm\+\+"):
        PlanningOptions(sampler="mine")
    ddim = plan("ddim")
    vhdiffuser.register_sampler("mine", ddim_step)
    np.testing.assert_array_equal(plan("mine"), ddim)
    vhdiffuser.register_sampler("mine", lambda tau, tau0, older, a, n, draw: tau0, replace=True)
    jumping = plan("mine")
    assert np.abs(jumping - ddim).max() > 1e-3
    np.testing.assert_array_equal(jumping[0], ddim[0], err_msg="the ends are clamped whatever the sampler")
    np.testing.assert_array_equal(jumping[-1, :2], ddim[-1, :2])


def test_a_sampler_is_told_where_it_is() -> None:
    told = []

    def listening(tau, tau0, older, a, n, draw):
        told.append((n, len(a), a[n] < a[n + 1], a[-1], tau.shape == tau0.shape == older.shape == draw().shape))
        return ddim_step(tau, tau0, older, a, n, draw)

    vhdiffuser.register_sampler("listening", listening)
    vhdiffuser.load_planner("maze2d-umaze", sampler="listening", steps=3).plan([1, 1, 0, 0], [3, 1], 60)
    assert told == [(n, 4, True, 1.0, True) for n in range(3)]


def test_a_sampler_of_another_shape_is_named() -> None:
    vhdiffuser.register_sampler("short", lambda tau, tau0, older, a, n, draw: tau0[:, :1])
    with pytest.raises(VhdError, match=r"sampler 'short' must return tau of shape \(1, \d+, 4\); got \(1, 1, 4\)"):
        plan("short")


@pytest.mark.parametrize("register", [vhdiffuser.register_sampler, vhdiffuser.register_controller])
def test_names_are_one_word_taken_once_and_values_are_functions(register) -> None:
    register("mine", max)
    with pytest.raises(VhdError, match="named 'mine' is already registered. Choose another name or pass replace=True"):
        register("mine", min)
    register("mine", min, replace=True)
    for name in ("", "two words", " blank"):
        with pytest.raises(VhdError, match="one word"):
            register(name, max)
    with pytest.raises(VhdError, match="'three' must be a function; got int"):
        register("three", 3)
    with pytest.raises(VhdError, match="'ddim' is already registered|'pd' is already registered"):
        register("ddim" if register is vhdiffuser.register_sampler else "pd", max)


def test_ours_can_be_replaced() -> None:
    registry: Registry[Callable[..., float]] = Registry("rule", "vhdiffuser.none", {"sum": "math:fsum"})
    assert registry.get("sum")([0.5, 0.5]) == 1.0
    with pytest.raises(VhdError, match="a rule named 'sum' is already registered"):
        registry.register("sum", max)
    registry.register("sum", max, replace=True)
    assert registry.get("sum") is max
    assert registry.names() == ["sum"]


def test_an_environment_asks_for_a_registered_controller() -> None:
    vhdiffuser.register_controller("follow", lambda spec, model: ToyController())
    vhdiffuser.register(replace(get_environment("maze2d-umaze"), spec=SPEC, controller="follow", recipes={}))
    assert isinstance(default_controller(SPEC), ToyController)


def test_the_sampler_and_controller_of_a_package_run_a_benchmark(install: Install, tmp_path: Path, capsys) -> None:
    install(samplers={"jump": "robots:straight_to_the_end"}, controllers={"gentle": "robots:gentle"})
    umaze = get_environment("maze2d-umaze")
    vhdiffuser.register(replace(umaze, controller="gentle"), replace=True)
    command = ["bench", "maze2d-umaze", "--methods", "vhd", "--protocols", "ss", "--n", "2", "--workers", "1"]
    command += ["--quiet", "--out", str(tmp_path / "rows"), "--sampler"]
    assert run([*command, "jump"]) == 0, capsys.readouterr().err
    (rows,) = (tmp_path / "rows").rglob("*.jsonl")
    config = json.loads(rows.read_text().splitlines()[0])
    assert "'sampler': 'jump'" in str(config)
    assert "'name': 'gentle'" in str(config)
    assert run([*command, "jumps"]) == 1
    assert "unknown sampler 'jumps'. Known: ddpm, ddim, dpm++, jump" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("value", "reason"), [("robots:no_such", "no_such"), ("no_such:step", "No module"), ("robots:number", "function")]
)
def test_a_package_that_fails_is_named_and_left_out(install: Install, value: str, reason: str) -> None:
    good = {"samplers": "robots:straight_to_the_end", "controllers": "robots:gentle"}
    install(**{group: {"bad": value, "good": fine} for group, fine in good.items()})
    for registry in (SAMPLERS, CONTROLLERS):
        with pytest.warns(VhdWarning, match=rf"skipped the {registry.kind}s of entry point 'bad' .*: .*{reason}"):
            names = registry.names()
        assert "good" in names
        assert "bad" not in names


def test_a_package_does_not_take_our_names(install: Install) -> None:
    install(samplers={"ddim": "robots:straight_to_the_end"}, controllers={"pd": "robots:gentle"})
    with pytest.warns(VhdWarning, match="'ddim' is already registered"):
        SAMPLERS.names()
    with pytest.warns(VhdWarning, match="'pd' is already registered"):
        CONTROLLERS.names()
    assert SAMPLERS.get("ddim") is ddim_step
    assert type(make_controller("pd", get_environment("maze2d-umaze").spec)) is PDController


def test_noise_drawn_by_a_sampler_is_the_plan_s_own() -> None:
    """A plan comes out the same, alone or in a batch, with a sampler that draws noise."""

    def noisy(tau, tau0, older, a, n, draw):
        return tau0 + (0.1 * draw() if n + 2 < len(a) else 0.0)

    vhdiffuser.register_sampler("noisy", noisy)
    planner = vhdiffuser.load_planner("maze2d-umaze", sampler="noisy")
    starts, goals = [[1, 1, 0, 0], [3, 1, 0, 0]], [[3, 1], [1, 1]]
    both = planner.plan_batch(starts, goals, 60, seeds=[5, 6])
    alone = planner.plan(starts[1], goals[1], 60, seed=6)
    np.testing.assert_allclose(both[1].states, alone.states, atol=1e-5)
