"""CSV logs: columns mean what their names say, and what is wrong is named with its row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhdiffuser.data.csv_log import read_csv
from vhdiffuser.envs.importing import import_dataset
from vhdiffuser.errors import DataError, UnknownNameError

GOOD = """time,episode,x,volts,y,action_left,action_right
0.0,a,1,12.1,5,0.5,-0.5
0.2,a,2,12.0,6,0.25,0
0.4,a,3,11.9,7,9,9
0.0,b,4,11.8,8,0.1,0.2
0.2,b,5,11.7,9,9,9
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_mean_what_their_names_say(tmp_path: Path) -> None:
    log = read_csv(written(tmp_path, GOOD))
    assert log.names == ("x", "volts", "y")
    assert log.control_dt == 0.2
    np.testing.assert_array_equal(log.episodes.ends, [3, 5])
    np.testing.assert_array_equal(log.episodes.observations[:, [0, 2]], [[1, 5], [2, 6], [3, 7], [4, 8], [5, 9]])
    np.testing.assert_allclose(log.episodes.actions, [[0.5, -0.5], [0.25, 0], [0, 0], [0.1, 0.2], [0, 0]])


def test_a_log_without_episodes_time_or_actions_is_one_episode(tmp_path: Path) -> None:
    log = read_csv(written(tmp_path, "\ufeffx, y\r\n1, 2\r\n\r\n3, 4\r\n"))  # as spreadsheets write it
    assert (log.names, log.control_dt, log.episodes.ends.tolist()) == (("x", "y"), None, [2])
    assert log.episodes.actions.shape == (2, 0)


def test_dimensions_are_chosen_by_name_or_number(tmp_path: Path) -> None:
    path = str(written(tmp_path, GOOD))
    spec = import_dataset("mine", path, state_dims=("y", "x"), goal_dims=("x",), T_max=3, L_min=2).spec
    assert (spec.state_dims, spec.state_names, spec.goal_dims, spec.control_dt) == ((2, 0), ("y", "x"), (1,), 0.2)
    same = import_dataset("mine", path, state_dims=("2", "0"), goal_dims=(1,), T_max=3, L_min=2).spec
    assert same == spec
    with pytest.raises(UnknownNameError, match="unknown column 'z'. Known: x, volts, y"):
        import_dataset("mine", path, state_dims=("z",))
    with pytest.raises(DataError, match="2 names for 3 observation columns"):
        import_dataset("mine", path, names=("a", "b"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("2,12.0,6", "2,low,6"), "row 3: volts must be a finite number; got 'low'"),
        (("2,12.0,6", "2,nan,6"), "row 3: volts must be a finite number; got 'nan'"),
        (("0.25,0\n", "0.25\n"), "row 3: 6 cells, but 7 columns"),
        (("0.4,a", "0.9,a"), "row 4: 0.7 s after the previous row"),
        (("0.2,b", "0.2,a"), "episode 'a' are not contiguous"),
        (("0.2,b", "-0.2,b"), "row 6"),
        (("volts", "x"), "must be unique"),
        ((GOOD.splitlines()[0] + "\n", ""), "the first row contains numbers"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(DataError, match=said):
        read_csv(written(tmp_path, GOOD.replace(*change)))


def test_files_that_are_no_log(tmp_path: Path) -> None:
    for text, said in (
        ("", "not a CSV file"),
        ("1,2\n3,4\n", "first row contains numbers"),
        ("time\n1\n2\n", "no observ"),
    ):
        with pytest.raises(DataError, match=said):
            read_csv(written(tmp_path, text))
    with pytest.raises(DataError, match="no such file"):
        read_csv(tmp_path / "none.csv")
    with pytest.raises(DataError, match="no rows below the header"):
        read_csv(written(tmp_path, "x,y\n"))
