"""The real command line, in this process for speed and once as a program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

import numpy as np
import pytest
from pictures import WALL, picture, pixels_of, share_in_colour

from vhdiffuser.cli import COMMANDS, load_command, run
from vhdiffuser.data.store import dataset_path


@pytest.fixture
def umaze(capsys):
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "3000", "--quiet"]) == 0
    return capsys.readouterr().out


def test_help_is_quick_to_import():
    script = (
        "import sys; from vhdiffuser.cli import run; code = run(['--help']);"
        "heavy = {'torch', 'mujoco', 'ogbench', 'diffusers', 'matplotlib'} & set(sys.modules);"
        "print(sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"
    assert all(name in done.stdout for name in COMMANDS)


def subcommands(command: type) -> dict[str, type]:
    """Subcommands of a command by name; most have none."""
    found = {}
    for hint in get_type_hints(command, include_extras=True).values():
        for part in get_args(hint):
            for mark in getattr(part, "__metadata__", ()):
                if "Subcommand" in type(mark).__name__:
                    found[mark.name] = get_args(part)[0]
    return found


def option_names(command: type) -> set[str]:
    """Fields of a command, those of its groups of options among them, as they are typed."""
    names = set()
    for field in fields(command):
        hint = get_type_hints(command)[field.name]
        names |= option_names(hint) if is_dataclass(hint) else {field.name.lower().replace("_", "-")}
    return names


def explained(text: str) -> list[tuple[str, str]]:
    """(name, what is said of it) of each option and positional argument; an entry begins at the edge of its box."""
    entries: list[tuple[str, str]] = []
    for line in re.findall(r"^[│ ] (.*?)[│ ]*$", text, re.MULTILINE):
        if re.fullmatch(r"[-─]{5,}", line):  # what stood above it is about the whole box
            entries.pop()
        elif line and not line.startswith(" "):
            shown, *words = re.split(r" {2,}", line, maxsplit=1)
            entries.append((shown.split()[0].strip(","), " ".join(words)))
        elif entries:
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")
    return [(name, re.sub(r"\((default: \S*|required)\)", "", said).strip()) for name, said in entries]


PARTS = [
    (name, *part)
    for name in COMMANDS
    for part in [(), *((sub,) for sub, inner in subcommands(load_command(name)).items() if is_dataclass(inner))]
]


@pytest.mark.parametrize("part", PARTS, ids=" ".join)
def test_every_help_explains_every_option_and_has_an_example(part, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")  # wider, a long help has two columns
    command = load_command(part[0])
    inner = subcommands(command)
    assert run([*part, "--help"]) == 0
    text = capsys.readouterr().out
    assert "{None}" not in text, "options are shown by the type of their value"
    if len(part) == 1 and inner:
        assert all(re.search(rf"• {name}\b", text) for name in inner), "every subcommand is listed"
    else:
        said = [(name, words) for name, words in explained(text) if name != "-h"]
        assert not [name for name, words in said if len(words) < 8], "not explained"
        options = {name.removeprefix("--") for name, _ in said if re.match("--[a-z]", name)}
        wanted = option_names(inner[part[1]] if len(part) > 1 else command)
        assert options <= wanted
        assert len(said) == len(wanted), "the others are positional"
    if len(part) > 1 or not inner or part[0] == "models":
        assert re.search(rf"Examples?:\s+vhd {' '.join(part)}", text), "an example of the command itself"


def test_unknown_commands_and_options_exit_with_2(capsys):
    assert run(["dataa"]) == 2
    assert "Did you mean 'data'?" in capsys.readouterr().err
    assert run(["envs", "--colour"]) == 2
    assert run(["data", "get", "maze2d-umaze", "--source", "moon"]) == 2


def test_envs_as_text_and_json(capsys):
    assert run(["envs"]) == 0
    text = capsys.readouterr().out
    assert "maze2d-large" in text
    assert "antmaze-*: the ant reset in a random free cell" in text
    assert max(map(len, text.splitlines())) <= 180
    assert run(["envs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [spec["name"] for spec in listed][3:6] == ["antmaze-medium", "cube", "pointmaze-medium-navigate"]


def test_get_info_and_draw(umaze, capsys, tmp_path):
    assert "3,000 transitions" in umaze
    assert run(["data", "info", "maze2d-umaze", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["transitions"] == 3000
    assert facts["source"] == "build"
    assert len(facts["observation_std"]) == 4
    assert len(facts["action_std"]) == 2
    assert len(facts["fingerprint"]) == 64
    assert run(["data", "info", "maze2d-umaze"]) == 0
    assert facts["fingerprint"] in capsys.readouterr().out
    assert run(["data", "draw", "maze2d-umaze", "--out", str(tmp_path / "umaze.png")]) == 0
    shown = picture(tmp_path / "umaze.png")
    walls = len(pixels_of(shown, WALL)) / shown[..., 0].size
    assert 0.5 < walls < 0.72, "18 of 25 cells"
    assert 0.01 < share_in_colour(shown) < 0.28, "paths in the other 7"


def test_get_again_keeps_what_is_there_and_refuses_to_mix(umaze, capsys):
    before = dataset_path("maze2d-umaze").read_bytes()
    assert run(["data", "get", "maze2d-umaze"]) == 0
    assert "already in the cache" in capsys.readouterr().out
    assert run(["data", "get", "maze2d-umaze", "--size", "4000"]) == 1
    assert "--replace" in capsys.readouterr().err
    assert dataset_path("maze2d-umaze").read_bytes() == before
    assert run(["data", "get", "maze2d-umaze", "--size", "4000", "--replace", "--quiet"]) == 0
    assert "4,000 transitions" in capsys.readouterr().out


def test_auto_falls_back_to_build_with_one_clear_line(capsys, monkeypatch):
    from vhdiffuser.envs import datasets
    from vhdiffuser.errors import DataError

    def unreachable(*args, **kwargs):
        raise DataError("the.host: not reached")

    monkeypatch.setattr(datasets, "get_official", unreachable)
    monkeypatch.setattr(datasets, "build", lambda *args: (_ for _ in ()).throw(DataError("built")))
    assert run(["data", "get", "maze2d-umaze", "--quiet"]) == 1
    errors = capsys.readouterr().err
    assert "not reached); building it instead" in errors.replace("\n", " ")
    assert errors.strip().endswith("built")
    assert run(["data", "get", "maze2d-umaze", "--source", "official", "--quiet"]) == 1
    assert "use --source build" in capsys.readouterr().err


def test_errors_name_the_cause_and_exit_with_1(capsys, tmp_path):
    assert run(["data", "get", "maze3d"]) == 1
    assert "maze2d-umaze" in capsys.readouterr().err
    assert run(["data", "info", "cube"]) == 1
    assert "vhd data get cube" in capsys.readouterr().err
    assert run(["data", "import", "mine", str(tmp_path / "none.npz")]) == 1
    assert "no such file" in capsys.readouterr().err


def test_own_data_from_file_to_info(capsys, tmp_path):
    np.savez(tmp_path / "a.npz", observations=np.random.default_rng(0).normal(size=(90, 5)), episode_ends=[40, 90])
    command = ["data", "import", "robot", str(tmp_path / "a.npz"), "--goal-dims", "0", "1", "--t-max", "32"]
    assert run(command) == 0
    assert run(command) == 1
    assert "already exists" in capsys.readouterr().err
    assert run(["data", "info", "robot", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["transitions"] == 88
    assert facts["source"] == "import"


def test_import_says_its_time_step_and_info_shows_what_planning_takes_the_data_for(capsys, tmp_path):
    velocity = np.cumsum(np.random.default_rng(0).normal(size=(150, 2)), axis=0)
    place = np.cumsum(0.05 * velocity, axis=0)
    np.savez(tmp_path / "cart.npz", observations=np.hstack([place, velocity]), episode_ends=[30, 70, 150])
    command = ["data", "import", "cart", str(tmp_path / "cart.npz"), "--goal-dims", "0", "1", "--t-max", "32"]
    moving = [*command, "--velocity-dims", "2", "3"]
    assert run([*moving, "--control-dt", "1"]) == 1
    assert "control_dt is 1 s, but positions and velocities give 0.05 s" in capsys.readouterr().err
    assert run(moving) == 0
    said = capsys.readouterr().err
    assert "control_dt: 0.05 s, consistent with positions and velocities" in said
    assert "planning state s0 s1 s2 s3; goal s0 s1; no action columns" in said
    assert "next: `vhd train length cart`, then `vhd train planner cart`" in said
    assert run(["data", "info", "cart", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    names = ("goal_dims", "velocity_dims", "control_dt", "epsilon", "L_min", "T_max")
    assert [facts[name] for name in names] == [[0, 1], [2, 3], 0.05, 0.05, 8, 32]
    assert [facts[f"episode_states_{key}"] for key in ("min", "median", "max")] == [30, 40, 80]
    assert run(["data", "info", "cart"]) == 0
    text = capsys.readouterr().out
    assert "planning state s0 s1 s2 s3; goal s0 s1; velocities s2 s3" in text
    assert "control_dt 0.05, epsilon 0.05, L_min 8, T_max 32" in text
    assert "min / median / max: 30 / 40 / 80" in text
    assert run([*command, "--replace"]) == 0
    assert "time is counted in control steps" in capsys.readouterr().err


@pytest.mark.slow
def test_training_from_the_command_line_resumes(umaze, capsys, vhd_home):
    options = ["--dim", "8", "--batch-size", "4", "--log-every", "2", "--warmup", "1", "--threads", "1", "--quiet"]
    command = ["train", "planner", "maze2d-umaze", *options]
    assert run([*command, "--updates", "4", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["update"] == 4
    assert run([*command, "--updates", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["update"] == 8
    log = (vhd_home / "runs/maze2d-umaze/vhd/log.jsonl").read_text().splitlines()
    assert [json.loads(line)["update"] for line in log] == [2, 4, 6, 8]
    assert run([*command, "--updates", "8", "--stride", "2"]) == 1
    assert "belongs to another run: config.stride was 8, now 2" in capsys.readouterr().err
    assert run([*command, "--updates", "2", "--horizon", "64", "--json"]) == 0
    assert "fh-64" in json.loads(capsys.readouterr().out)["model"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish"])
def test_completion_scripts(shell, capsys):
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "eval-length" in script
    assert "sampler" in script
    assert run(["completion", "sh"]) == 2
