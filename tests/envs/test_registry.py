"""How environments become known: registered, referred to, brought by a package, or imported as data."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from toy_point import ENVIRONMENT, SPEC

import vhdiffuser
from vhdiffuser import extensions
from vhdiffuser.data.store import Dataset, save_dataset
from vhdiffuser.envs import registry
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.importing import import_dataset
from vhdiffuser.envs.registry import environments, get_environment, get_spec, known_names, load_reference, register
from vhdiffuser.errors import DataError, UnknownNameError, VhdError

FIVE = ["maze2d-umaze", "maze2d-medium", "maze2d-large", "antmaze-medium", "cube"]
"""The paper's."""
OURS = [environment.name for reference in registry.OURS for environment in load_reference(reference)]
ROBOT = """
from dataclasses import replace
from toy_point import ENVIRONMENT, SPEC
import vhdiffuser

def named(name):
    return replace(ENVIRONMENT, spec=replace(SPEC, name=name))

def make():
    return named("robot")

robot = named("robot")
both = (named("left"), named("right"))
wrong = 3
nothing = ()
names = ["left", "right"]
"""


@pytest.fixture
def robot_file(tmp_path: Path) -> Path:
    path = tmp_path / "my_robot_of_this_test.py"
    path.write_text(ROBOT)
    return path


def test_ours_are_registered_and_stay_the_first() -> None:
    assert list(environments()) == OURS
    assert OURS[:5] == FIVE
    assert [get_environment(name).name for name in OURS] == OURS
    with pytest.raises(TypeError):
        environments()["mine"] = ENVIRONMENT  # type: ignore[index]


def test_a_registered_environment_is_known_to_library_and_gymnasium() -> None:
    assert register(ENVIRONMENT) is ENVIRONMENT
    assert get_environment("toy") is ENVIRONMENT is vhdiffuser.get_environment("toy")
    assert get_spec("toy") == SPEC
    assert [*OURS, "toy"] == list(environments()) == known_names()
    assert gymnasium.make("vhdiffuser/Toy-v1").unwrapped.environment is ENVIRONMENT


def test_a_name_is_taken_once_unless_it_is_to_be_replaced() -> None:
    register(ENVIRONMENT)
    other = replace(ENVIRONMENT, step_budget=7)
    with pytest.raises(VhdError, match=r"'toy' is already registered.*replace=True"):
        register(other)
    assert get_environment("toy") is ENVIRONMENT
    register(other, replace=True)
    assert get_environment("toy") is other
    assert gymnasium.make("vhdiffuser/Toy-v1").spec.max_episode_steps == 7
    with pytest.raises(VhdError, match="maze2d-umaze"):
        register(replace(ENVIRONMENT, spec=replace(SPEC, name="maze2d-umaze")))


@pytest.mark.parametrize("name", ["", "../up", "a/b", "a:b", "a b"])
def test_a_name_must_do_for_a_folder(name: str) -> None:
    with pytest.raises(VhdError, match="name"):
        register(replace(ENVIRONMENT, spec=replace(SPEC, name=name)))
    assert name not in environments()


def test_one_without_a_simulator_has_no_gymnasium_id() -> None:
    register(Environment(SPEC))
    assert "vhdiffuser/Toy-v1" not in gymnasium.registry


@pytest.mark.parametrize("attribute", ["make", "robot"])
def test_a_file_is_referred_to_by_what_is_in_it(robot_file: Path, attribute: str) -> None:
    environment = get_environment(f"{robot_file}:{attribute}")
    assert environment.name == "robot"
    assert get_environment("robot") is environment, "from then on it is known by its name"
    assert get_environment(f"{robot_file}:make").name == "robot", "and may be referred to again"


def test_a_relative_path_will_do(robot_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(robot_file.parent)
    assert get_environment(f"{robot_file.name}:make").name == "robot"


def test_a_module_is_referred_to_by_its_name() -> None:
    assert get_environment("toy_point:ENVIRONMENT") is ENVIRONMENT
    maze = "vhdiffuser.envs.maze2d.environments:ENVIRONMENTS"
    assert [item.name for item in load_reference(maze)] == FIVE[:3]


def test_several_are_loaded_but_one_is_asked_for(robot_file: Path) -> None:
    assert [item.name for item in load_reference(f"{robot_file}:both")] == ["left", "right"]
    with pytest.raises(VhdError, match="provides 2 environments: left, right"):
        get_environment(f"{robot_file}:both")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("{folder}/no_such.py:make", r"no_such\.py: no such file"),
        ("{file}:fly", "has no 'fly'"),
        ("{file}:wrong", "must be, or return, one or more vhdiffuser.Environment"),
        ("{file}:nothing", "must be, or return, one or more vhdiffuser.Environment"),
        ("{file}:names", "must be, or return, one or more vhdiffuser.Environment"),
        ("no_such_package.robots:make", "No module named 'no_such_package'.*file.py:function"),
        ("toy_point:", "write file.py:name"),
    ],
)
def test_references_that_lead_nowhere_say_why(robot_file: Path, reference: str, message: str) -> None:
    with pytest.raises(VhdError, match=message):
        get_environment(reference.format(folder=robot_file.parent, file=robot_file))


def test_a_file_does_not_hide_behind_a_module_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "toy_point.py").write_text(ROBOT)
    with pytest.raises(VhdError, match=r"toy_point.py: a module named 'toy_point' is already loaded. Rename the file"):
        get_environment(f"{tmp_path / 'toy_point.py'}:make")


def packages(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Installed packages with these entry points."""
    own = registry._environments
    points = [EntryPoint(name, value, own.group) for name, value in values.items()]
    monkeypatch.setattr(extensions, "entry_points", lambda group: points if group == own.group else [])
    monkeypatch.setattr(own, "_packages_loaded", False)


def test_a_package_brings_its_environments(monkeypatch: pytest.MonkeyPatch, robot_file: Path) -> None:
    monkeypatch.syspath_prepend(str(robot_file.parent))
    packages(monkeypatch, toys="toy_point:ENVIRONMENT", robots=f"{robot_file.stem}:both")
    assert list(environments()) == [*OURS, "toy", "left", "right"]
    assert get_environment("left").spec.name == "left"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_package:make", "No module named"),
        ("{stem}:wrong", "must be, or return"),
        ("{stem}:clash", "already registered"),
        ("{stem}:broken", "division by zero"),
    ],
)
def test_a_package_that_fails_is_named_and_left_out(monkeypatch, robot_file: Path, value: str, reason: str) -> None:
    robot_file.write_text(ROBOT + 'clash = named("cube")\ndef broken():\n    return 1 / 0\n')
    monkeypatch.syspath_prepend(str(robot_file.parent))
    packages(monkeypatch, bad=value.format(stem=robot_file.stem), good="toy_point:ENVIRONMENT")
    with pytest.warns(UserWarning, match=f"skipped the .* of entry point 'bad' .*: .*{reason}"):
        found = list(environments())
    assert found == [*OURS, "toy"], "ours and the others' are there"
    assert get_environment("cube").spec.observation_dim == 28


def save_own(tmp_path: Path) -> None:
    walks = np.cumsum(np.random.default_rng(0).normal(0, 0.1, (3, 50, 2)), axis=1).astype(np.float32)
    np.savez(tmp_path / "mine.npz", observations=walks.reshape(-1, 2), episode_ends=[50, 100, 150])
    save_dataset(import_dataset("mine", str(tmp_path / "mine.npz"), goal_dims=(0,), T_max=40))


def test_imported_data_is_an_environment_without_a_simulator(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"mine.*maze2d-umaze"):
        get_environment("mine")
    save_own(tmp_path)
    environment = get_environment("mine")
    assert environment.simulator is None
    assert (environment.spec.goal_dims, environment.spec.T_max) == ((0,), 40)
    assert environment.horizons == (10, 20, 40)
    assert "mine" in known_names()
    assert "mine" not in environments(), "it is known by its data alone"
    assert vhdiffuser.load_dataset("mine").spec == environment.spec
    with pytest.raises(VhdError, match="mine has data but no simulator"):
        environment.make()


def test_what_is_registered_is_more_than_what_was_imported(tmp_path: Path) -> None:
    save_own(tmp_path)
    saved = get_environment("mine").spec
    register(replace(ENVIRONMENT, spec=replace(saved, epsilon=0.02)))
    assert get_environment("mine").simulator is not None
    assert vhdiffuser.load_dataset("mine").spec.epsilon == 0.02, "today's contract, whatever the file was saved with"


def test_data_that_is_missing_is_got_or_imported(tmp_path: Path) -> None:
    register(ENVIRONMENT)
    with pytest.raises(DataError, match="vhd data import toy"):
        vhdiffuser.load_dataset("toy")
    register(vhdiffuser.make_maze("#####\n#OOO#\n#####", name="corridor"))
    with pytest.raises(DataError, match="vhd data get corridor"):
        vhdiffuser.load_dataset("corridor")
    np.savez(tmp_path / "a.npz", observations=np.zeros((5, 3)), actions=np.zeros((5, 2)), episode_ends=[5])
    with pytest.raises(DataError, match="observation and .* action columns"):
        import_dataset("toy", str(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", observations=np.zeros((70, 2)), actions=np.zeros((70, 2)), episode_ends=[70])
    dataset = import_dataset("toy", str(tmp_path / "b.npz"))
    assert isinstance(dataset, Dataset)
    assert dataset.spec == SPEC, "a registered environment brings its own settings"
