"""Files are written whole or not at all, never in place of what is not ours; names are one rule for all."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from vhdiffuser.cli import run
from vhdiffuser.data.store import dataset_path
from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path, checked_name
from vhdiffuser.weights.places import run_folder


def write(path: Path, text: str = "new") -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text)


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".part")]


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    def fail():
        with atomic_path(tmp_path / "a") as temporary:
            temporary.write_text("new")
            raise RuntimeError("half way")

    (tmp_path / "a").write_text("old")
    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(Path("elsewhere") / "real")
    write(link)
    assert link.is_symlink()
    assert real.read_text() == "new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "elsewhere" / "made")
    write(dangling)
    assert dangling.is_symlink()
    assert (tmp_path / "elsewhere" / "made").read_text() == "new"


def test_what_is_no_regular_file_is_refused_and_stays(tmp_path):
    folder, pipe, door, loop = (tmp_path / name for name in ("folder", "pipe", "door", "loop"))
    folder.mkdir()
    os.mkfifo(pipe)
    listening = socket.socket(socket.AF_UNIX)
    short = os.path.relpath(door)  # a socket's address must be short
    listening.bind(short if len(short) < 100 else str(door))
    loop.symlink_to(loop)
    to_device = tmp_path / "null"
    to_device.symlink_to("/dev/null")
    for path in (folder, pipe, door, loop, to_device, Path("/dev/null")):
        before = os.lstat(path)
        with pytest.raises(DataError, match=r"choose another file|Choose another file"):
            write(path)
        assert os.lstat(path).st_ino == before.st_ino
        assert stat.S_IFMT(os.lstat(path).st_mode) == stat.S_IFMT(before.st_mode)
    listening.close()
    assert not leftovers(tmp_path)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_umask_s_mode_and_an_old_one_keeps_its_own(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write(tmp_path / "new")
        (tmp_path / "old").touch()
        (tmp_path / "old").chmod(0o640)
        write(tmp_path / "old")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o640


BAD = ["", ".", "..", "../up", "a/b", "/absolute", "a\\b", ".hidden", "-option", "a\nb", "a\x00b", "a b", "ä", "a."]
BAD += ["x" * 65, "a:b", "~", "a*"]


@pytest.mark.parametrize("name", BAD)
def test_one_rule_for_every_name(name):
    for make in (
        lambda: checked_name("run", name),
        lambda: run_folder("maze2d-umaze", name),
        lambda: run_folder(name, "vhd"),
    ):
        with pytest.raises(DataError, match="cannot name a .*letters, digits, dots, dashes"):
            make()
    with pytest.raises(DataError, match="cannot name a dataset"):
        dataset_path(name)


@pytest.mark.parametrize("name", ["vhd", "fh-128", "My_run.v2", "0", "x" * 64])
def test_ordinary_names_are_allowed(name):
    assert checked_name("run", name) == name


def test_restart_touches_no_foreign_folder(tmp_path, vhd_home, capsys):
    """`--name /some/folder --restart` deleted that folder whole, and `--name ..` every environment's runs."""
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "2000", "--quiet"]) == 0
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("years")
    other = vhd_home / "runs" / "maze2d-large" / "vhd" / "model.safetensors"
    other.parent.mkdir(parents=True)
    other.write_text("weeks")
    loop = ["--updates", "1", "--quiet", "--device", "cpu"]
    for name in (str(tmp_path / "precious"), "..", "../maze2d-large", "../../.."):
        assert run(["train", "length", "maze2d-umaze", "--name", name, "--restart", *loop]) == 1
        assert "cannot name a run" in capsys.readouterr().err
    assert (tmp_path / "precious" / "thesis.tex").read_text() == "years"
    assert other.read_text() == "weeks"


def test_restart_on_a_missing_device_keeps_the_finished_model(vhd_home, capsys):
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "2000", "--quiet"]) == 0
    train = ["train", "length", "maze2d-umaze", "--updates", "1", "--quiet", "--threads", "1", "--device"]
    assert run([*train, "cpu"]) == 0
    model = run_folder("maze2d-umaze", "length") / "model.safetensors"
    before = model.read_bytes()
    assert run([*train, "warp9", "--restart"]) == 1
    assert "device 'warp9' is not available" in capsys.readouterr().err
    assert model.read_bytes() == before
