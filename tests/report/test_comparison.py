from __future__ import annotations

import json
from pathlib import Path

import pytest

from vhdiffuser.errors import DataError
from vhdiffuser.report.comparison import Column, Comparison

COLUMNS = (Column("name", "recipe"), Column("rate", "SR", ".1%"), Column("steps", "AES", ".1f"))


def table(path: Path) -> Comparison:
    return Comparison(path, ("env", "name"), COLUMNS, "Heading.")


def test_rows_are_on_disk_after_each_and_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "table.json"
    first = table(path)
    first.put({"env": "a", "name": "x", "rate": 0.123, "steps": 10})
    second = table(path)
    assert second.find(env="a", name="x") == {"env": "a", "name": "x", "rate": 0.123, "steps": 10}
    assert second.find(env="b", name="x") is None
    second.put({"env": "b", "name": "x", "rate": 1.0, "steps": None})
    assert len(json.loads(path.read_text())) == 2


def test_a_row_of_the_same_key_is_replaced_where_it_stands(tmp_path: Path) -> None:
    growing = table(tmp_path / "table.json")
    for name, rate in (("x", 0.1), ("y", 0.2), ("x", 0.3)):
        growing.put({"env": "a", "name": name, "rate": rate})
    assert [(row["name"], row["rate"]) for row in table(tmp_path / "table.json").rows] == [("x", 0.3), ("y", 0.2)]


def test_the_markdown_has_a_line_a_row_and_dashes_for_what_is_missing(tmp_path: Path) -> None:
    growing = table(tmp_path / "table.json")
    growing.put({"env": "a", "name": "x", "rate": 0.9876})
    lines = growing.markdown_path.read_text().splitlines()
    assert lines[0] == "Heading."
    assert lines[2] == "| recipe | SR | AES |"
    assert lines[4] == "| x | 98.8% | - |"


@pytest.mark.parametrize("text", ["{", "{}", '[{"env": "a"}]', "[1]"])
def test_other_files_are_refused_and_left_as_they_are(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"table\.json"):
        table(path)
    assert path.read_text() == text
