"""Which rows may be put together: all that both files record agrees, and what one does not was not changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vhdiffuser.benchmark.methods import load_method
from vhdiffuser.errors import DataError
from vhdiffuser.results.cells import pool
from vhdiffuser.results.configs import differences
from vhdiffuser.results.rows import open_results, read_folder, read_results

ROOT = Path(__file__).resolve().parents[2]
NEW = {"gamma": 1.3, "stretch": 1.5, "as_saved": ["gamma", "stretch"], "models": {"planner": "a"}}
OLD = {"gamma": 1.3, "models": {"planner": "a"}}


def test_an_option_that_an_older_file_does_not_name_agrees_as_saved() -> None:
    assert differences(OLD, NEW) == differences(NEW, OLD) == differences(NEW, NEW) == {}
    changed = {**NEW, "stretch": 2.0, "as_saved": ["gamma"]}
    assert differences(OLD, changed) == {"stretch": ("not recorded", "2.0")}
    assert differences(NEW, changed) == {"stretch": ("1.5", "2.0")}
    assert differences(OLD, {**NEW, "gamma": 1.0}) == {"gamma": ("1.3", "1.0")}
    assert differences(NEW, {**NEW, "models": {}}, but=("models",)) == {}
    assert differences({**NEW, "risk": 0.05}, {**NEW, "gamma": 1.0, "risk": 0.05}) == {}, "a risk does not use gamma"
    assert set(differences(NEW, {**NEW, "gamma": 1.0, "risk": 0.05})) == {"gamma", "risk"}
    assert set(differences({**OLD, "walls": []}, NEW)) == {"walls"}


@pytest.mark.parametrize("option", [{}, {"stretch": 2.0}])
def test_published_rows_are_continued_and_pooled_with_the_same_options_only(option: dict, tmp_path: Path) -> None:
    published = ROOT / "results/gamma-1.25/maze2d-umaze/vhd-ss-100.jsonl"
    lines = published.read_text(encoding="utf-8").splitlines(keepends=True)
    old = tmp_path / "vhd-ss-100.jsonl"
    old.write_text("".join(lines[:3]), encoding="utf-8")
    config = read_results(published).config
    assert "stretch" not in config
    choice = load_method("vhd", "maze2d-umaze", "shipped", gamma=1.25, **option)
    assert choice.describe()["stretch"] == option.get("stretch", 1.0)
    now = {**config, **choice.describe()}
    with open_results(tmp_path / "vhd-ss-101.jsonl", {**now, "seed": 101}) as writer:
        (row,) = read_results(ROOT / "results/gamma-1.25/maze2d-umaze/vhd-ss-101.jsonl").rows[:1]
        writer.write(row)
    if not option:
        with open_results(old, now) as writer:
            assert set(writer.present) == {json.loads(line)["instance"] for line in lines[1:3]}
        (cell,) = pool(read_folder(tmp_path))
        assert cell.seeds == (100, 101)
        return
    with pytest.raises(DataError, match=r"stretch: not recorded there, 2\.0 now"), open_results(old, now):
        pass
    with pytest.raises(DataError, match=r"stretch: not recorded and 2\.0"):
        pool(read_folder(tmp_path))
