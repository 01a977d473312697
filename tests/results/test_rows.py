from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest

from vhdiffuser.errors import DataError
from vhdiffuser.results.rows import Row, RowWriter, open_results, read_folder, read_results

CONFIG = {"environment": "toy", "gamma": 1.0, "horizons": (1, 2)}


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
    assert found.config == {"environment": "toy", "gamma": 1.0, "horizons": [1, 2]}
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

    writer = RowWriter(tmp_path / "rows.jsonl", Full(), {})
    with pytest.raises(DataError, match=r"No space left.*Rows before it are kept"):
        writer.write(row(0))
    assert writer.present == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ('{"format": 99, "config": {}}\n', "not a results file"),
        ('{"format": 1, "config": {}}\n{"method": \n', "line 2: damaged"),
        ('{"format": 1, "config": {}}\n[1]\n', "line 2: damaged"),
        ('{"format": 1, "config": {}}\n{"method": "vhd"}\n', "line 2: not a result row"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        read_results(tmp_path / "rows.jsonl")


def test_a_folder_without_results_says_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="vhd bench"):
        read_folder(tmp_path)
