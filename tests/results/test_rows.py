from __future__ import annotations

import errno
import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from vhdiffuser.errors import DataError
from vhdiffuser.results.rows import Row, RowWriter, open_results, read_folder, read_results

SHARED = {"environment": "toy", "method": "vhd", "protocol": "ss", "seed": 0}
CONFIG = {**SHARED, "gamma": 1.0, "horizons": (1, 2)}
HEADER = json.dumps({"format": 1, "config": SHARED}) + "\n"


def row(instance: int, success: bool = True, steps: int = 10, **changes) -> Row:
    values = {
        "environment": "toy", "method": "vhd", "protocol": "ss", "seed": 0, "instance": instance,
        "start": [0.1, 0.2], "goal": [0.3, 0.4], "predicted_length": 11, "planned_length": 11, "plan_lengths": [11],
        "replans": 0, "success": success, "steps": steps, "final_distance": 0.01, "planning_seconds": 0.5,
        "control_seconds": 0.25,
    }  # fmt: skip
    return Row(**{**values, **changes})


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a" / "rows.jsonl"
    with open_results(path, CONFIG) as writer:
        writer.write(row(3))
    with open_results(path, CONFIG) as writer:
        assert writer.present == {3: row(3)}
        writer.write(row(1, success=False))
    found = read_results(path)
    assert found.rows == [row(3), row(1, success=False)]
    assert found.config == {**SHARED, "gamma": 1.0, "horizons": [1, 2]}
    assert [item.path for item in read_folder(tmp_path)] == [path]


def test_another_configuration_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with open_results(path, CONFIG) as writer:
        writer.write(row(0))
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"gamma: 1\.0 there, 1\.5 now"), open_results(path, {**CONFIG, "gamma": 1.5}):
        pass
    assert path.read_bytes() == before


def test_a_file_in_which_nothing_was_computed_takes_the_new_configuration(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for gamma in (1.0, 1.5):
        with open_results(path, {**CONFIG, "gamma": gamma}) as writer:
            assert writer.present == {}
    assert read_results(path).config["gamma"] == 1.5


@pytest.mark.parametrize("kept", [1, 2])
def test_a_line_cut_short_is_dropped(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "rows.jsonl"
    with open_results(path, CONFIG) as writer:
        for number in range(kept):
            writer.write(row(number))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"environment": "to')
    assert len(read_results(path).rows) == kept
    with open_results(path, CONFIG) as writer:
        assert set(writer.present) == set(range(kept))
        writer.write(row(kept))
    assert len(read_results(path).rows) == kept + 1


def test_nothing_is_written_twice_and_by_one_writer_only(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with open_results(path, CONFIG) as writer:
        writer.write(row(0))
        with pytest.raises(DataError, match="already"):
            writer.write(row(0))
        with pytest.raises(DataError, match="another run"), open_results(path, CONFIG):
            pass


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    writer = RowWriter(tmp_path / "rows.jsonl", Full(), CONFIG, {})
    with pytest.raises(DataError, match=r"No space left.*Earlier rows are kept"):
        writer.write(row(0))
    assert writer.present == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ('{"format": 99, "config": {}}\n', "not a results file"),
        ('{"format": 1, "config": {"method": "vhd"}}\n', "lacks environment, protocol, seed"),
        (HEADER + '{"method": \n', "line 2: damaged.*Delete that line"),
        (HEADER + "[1]\n", "line 2: damaged"),
        (HEADER + '{"method": "vhd"}\n', "line 2: not a result row"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        read_results(tmp_path / "rows.jsonl")


def test_a_row_that_is_there_twice_is_refused_and_both_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with open_results(path, CONFIG) as writer:
        for number in range(3):
            writer.write(row(number))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines) + 10 * lines[2])
    with pytest.raises(DataError, match=r"line 5: instance 1 is already in line 3.*Delete that line"):
        read_results(path)
    with pytest.raises(DataError, match="already"), open_results(path, CONFIG):
        pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"environment": "other"}, "`environment` is 'other', but the file's configuration says 'toy'"),
        ({"method": "fh-h1"}, "`method`"),
        ({"protocol": "rp"}, "`protocol`"),
        ({"seed": 1}, "`seed` is 1"),
        ({"seed": False}, "`seed` is False"),
        ({"instance": -1}, "`instance` must be a whole number >= 0"),
        ({"instance": 1.0}, "`instance`"),
        ({"success": 1}, "`success` must be true or false, not 1"),
        ({"success": "yes"}, "`success`"),
        ({"steps": -3}, "`steps`"),
        ({"steps": 10.5}, "`steps`"),
        ({"steps": True}, "`steps`"),
        ({"start": []}, "`start` must be a list of finite numbers"),
        ({"goal": [0.1, float("nan")]}, "`goal`"),
        ({"goal": "here"}, "`goal`"),
        ({"final_distance": float("inf")}, "`final_distance`"),
        ({"planning_seconds": -0.1}, "`planning_seconds`"),
        ({"control_seconds": None}, "`control_seconds`"),
        ({"geodesic": float("nan")}, "`geodesic`"),
        ({"score": "good"}, "`score`"),
        ({"score": 10**400}, "`score`"),
        ({"task": 0}, "`task`"),
        ({"predicted_length": 0}, "`predicted_length`"),
        ({"plan_lengths": []}, "`plan_lengths`"),
        ({"plan_lengths": [11, 1]}, "`plan_lengths`"),
        ({"planned_length": 12}, "`planned_length` is 12, but the first of `plan_lengths` is 11"),
        ({"replans": 1}, "`replans` is 1, but there are 1 plans"),
    ],
)
def test_rows_that_cannot_be_are_refused_with_their_line(tmp_path: Path, changes: dict, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    values = [asdict(row(7)), asdict(row(**{"instance": 8, **changes}))]
    path.write_text(HEADER + "".join(json.dumps(value) + "\n" for value in values))
    with pytest.raises(DataError, match=f"line 3: .*{message}"):
        read_results(path)
    with open_results(tmp_path / "new.jsonl", CONFIG) as writer, pytest.raises(DataError, match=message):
        writer.write(row(**{"instance": 8, **changes}))


def test_what_may_be_left_open_may_be(tmp_path: Path) -> None:
    full = row(1, geodesic=0.0, score=-12.5, task=1, steps=0, plan_lengths=[11, 4, 2], replans=2)
    with open_results(tmp_path / "rows.jsonl", CONFIG) as writer:
        writer.write(full)
        writer.write(row(2, predicted_length=None))
    assert read_results(tmp_path / "rows.jsonl").rows[0] == full


def test_a_folder_without_results_says_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="vhd bench"):
        read_folder(tmp_path)
