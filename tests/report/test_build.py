from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from pictures import BLUE, RED, picture, pixels_of
from toy_point import ENVIRONMENT, WALLS, ToyController, ToyEnv, ToyPlanner

from vhdiffuser.benchmark.methods import METHODS, PlannerChoice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.drawing import axis_labels
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.painting import write_gif
from vhdiffuser.report import figures
from vhdiffuser.report.analyses import MISMATCH
from vhdiffuser.report.build import CASE_METHODS, write_report
from vhdiffuser.report.figures import choose_case
from vhdiffuser.report.tracks import differences_table
from vhdiffuser.report.video import replay_frames, top_view_frames
from vhdiffuser.results.cells import pool
from vhdiffuser.results.paths import plans_path, result_path, rollout_path
from vhdiffuser.results.rollout_files import load_plans, load_rollout
from vhdiffuser.results.rows import read_folder

CONFIG = BenchConfig(ENVIRONMENT, n=30, threshold=0.05, check_every=3, keep=4, workers=1, simulators=30)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")

    def source(gamma: float, retime: float | None = None):
        planner = ToyPlanner(noise=0.05)
        return lambda method, environment: PlannerChoice(planner, PlanningOptions(gamma=gamma, retime=retime), {})

    run_benchmark(CONFIG, folder, source(1.0), ToyController())
    for gamma in (0.8, 1.2):
        config = replace(CONFIG, methods=("vhd",), keep=0)
        run_benchmark(config, folder / "toy" / f"gamma-{gamma}", source(gamma), ToyController())
    # Retimed plans are another planner's: no part of the sweep.
    run_benchmark(config, folder / "toy" / "gamma-1.6-retimed", source(1.6, retime=1.2), ToyController())
    return folder


@pytest.mark.slow
def test_the_report_holds_every_table_and_figure(results: Path, tmp_path: Path) -> None:
    written = write_report(results, tmp_path)
    names = {path.name for path in written}
    assert names == {
        "report.md", "report.html", "toy-mismatch.png", "toy-case.png", "toy-horizon.png", "toy-gamma.png",
        "toy-distance-ss.png", "toy-distance-rp.png", "pipeline.png",
    }  # fmt: skip
    for path in written:
        if path.suffix == ".png":
            assert min(picture(path).shape[:2]) > 300
            shows = path.name == "pipeline.png" or len(pixels_of(picture(path), BLUE)) > 20
            assert shows, f"{path.name} shows VHD's path or line"
    for page in ("report.md", "report.html"):
        text = (tmp_path / page).read_text()
        for needed in ("VHD (SS)", "FH-H3 (RP)", "ddim, 5 steps", "figures/toy-case.png", "error &gt; 0.05"):
            assert needed in text or needed.replace("&gt;", ">") in text
    # 30 rows each: the sweep of gamma does not enter the table.
    assert "| toy | VHD (SS) | reset | 30 |" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
def test_the_figures_show_the_rows(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = {}
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: drawn.setdefault(path, figure) and path)
    write_report(results, tmp_path)
    shown = {path.name: figure.axes for path, figure in drawn.items()}
    rows = [row for item in read_folder(results) for row in item.rows if "gamma" not in str(item.path)]
    found = [item for item in read_folder(results) if "gamma" not in str(item.path)]
    cells = {(cell.method, cell.protocol): cell for cell in (item.summary() for item in pool(found))}
    values = (lambda cell: 100 * cell.success_rate, lambda cell: cell.average_executed_steps)

    def curves(axes) -> dict[str, np.ndarray]:
        return {bars.get_label(): np.stack(bars[0].get_data(orig=False)) for bars in axes.containers}

    for axes, value in zip(shown["toy-horizon.png"], values, strict=True):
        for protocol in ("ss", "rp"):
            fixed = [value(cells[f"fh-h{number}", protocol]) for number in (1, 2, 3)]
            np.testing.assert_allclose(curves(axes)[f"FH ({protocol.upper()})"], [ENVIRONMENT.horizons, fixed])
            assert curves(axes)[f"VHD ({protocol.upper()})"][1] == pytest.approx(value(cells["vhd", protocol]))
    for axes, value in zip(shown["toy-gamma.png"], values, strict=True):
        gammas, heights = curves(axes)["VHD (RP)"]
        np.testing.assert_allclose(gammas, [0.8, 1.0, 1.2])
        assert heights[1] == pytest.approx(value(cells["vhd", "rp"]))
    for protocol in ("ss", "rp"):
        (axes,) = shown[f"toy-distance-{protocol}.png"]
        labels = {text.get_text() for text in axes.get_legend().get_texts()}
        assert labels == {"VHD", "FH-H1", "FH-H2", "FH-H3", "FH+LP"}

    sheet = load_plans(plans_path(results, "toy"))
    for axes, places in zip(shown["toy-mismatch.png"], sheet.plans, strict=True):
        assert axes.get_title() == f"FH-{len(places)}"
        np.testing.assert_allclose(axes.lines[0].get_xydata(), places)
        np.testing.assert_allclose(axes.lines[-1].get_xydata(), [sheet.goal])
    number = choose_case(rows, CASE_METHODS, [0, 1, 2, 3])
    assert number is not None
    for axes, method in zip(shown["toy-case.png"], CASE_METHODS, strict=True):
        kept = load_rollout(rollout_path(result_path(results, "toy", method, "rp", 0), number))
        assert f"{len(kept.actions)} steps" in axes.get_title()
        np.testing.assert_allclose(axes.lines[len(kept.plans)].get_xydata(), kept.states)


def test_a_report_is_made_of_what_there_is(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "only"
    (folder / "toy").mkdir(parents=True)
    (folder / "toy" / "vhd-ss-0.jsonl").write_bytes((results / "toy" / "vhd-ss-0.jsonl").read_bytes())
    names = {path.name for path in write_report(folder)}
    assert names == {"report.md", "report.html", "pipeline.png", "toy-distance-ss.png"}
    with pytest.raises(DataError, match="vhd bench"):
        write_report(tmp_path / "none")
    with pytest.raises(DataError, match="directly in"):
        write_report(tmp_path)


def test_old_rows_beside_new_ones_are_marked_and_stand_back(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    for method, protocol, streams in (("vhd", "ss", 1), ("vhd", "ss", 2), ("fh-h1", "ss", 1)):
        header, *rows = (results / "toy" / f"{method}-{protocol}-0.jsonl").read_text().splitlines()
        value = json.loads(header)
        assert value["config"].pop("streams") == 2
        if streams == 2:
            value["config"]["streams"] = 2
        (folder / "toy").mkdir(parents=True, exist_ok=True)
        name = f"{method}-{protocol}.jsonl" if streams == 1 else f"{method}-{protocol}-0.jsonl"
        (folder / "toy" / name).write_text("\n".join([json.dumps(value), *rows]) + "\n")
    write_report(folder)
    text = (folder / "report.md").read_text()
    vhd, _, fixed, *_ = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert vhd.startswith("| VHD (SS) | SR |")
    assert "†" not in vhd
    assert fixed.startswith("| FH-H1 (SS) | SR |")
    assert "†" in fixed
    assert "★" not in vhd + fixed
    assert "different streams" in text
    assert "Left out" in text
    assert "toy/vhd-ss.jsonl" in text


@pytest.mark.slow
def test_uniform_instances_have_a_table_of_their_own(tmp_path: Path) -> None:
    choice = PlannerChoice(ToyPlanner(noise=0.05), PlanningOptions(gamma=1.0), {})
    for distribution, seeds in (("reset", (100, 101)), ("uniform", (100,))):
        config = replace(CONFIG, methods=("vhd", "fh-h3"), n=5, keep=0, distribution=distribution, seeds=seeds)
        run_benchmark(config, tmp_path, lambda *_: choice, ToyController())
    write_report(tmp_path)
    own, rest = (tmp_path / "report.md").read_text().split("Uniform instances\n")
    uniform = rest.split("## ")[0]
    assert "| toy |" in own
    assert "toy paper" not in own, "the paper has no such environment"
    assert "paper" not in uniform
    assert "VHD (RP)" in uniform
    seeds_section = rest.split("## Seeds")[1].split("## ")[0]
    assert seeds_section.count("100: ") == 4, "two methods, two protocols; uniform ones have one seed"


def test_the_case_is_the_farthest_pair_whatever_came_of_it(results: Path) -> None:
    rows = [row for item in read_folder(results) for row in item.rows if "gamma" not in str(item.path)]
    far = {0: 1.0, 1: 3.0, 2: 3.0, 3: 2.0}
    placed = [replace(row, geodesic=far.get(row.instance, 9.0)) for row in rows]
    assert choose_case(placed, CASE_METHODS, [0, 1, 2, 3]) == 1, "the first of equals"
    assert choose_case([replace(row, success=False) for row in placed], CASE_METHODS, [0, 2, 3]) == 2
    assert choose_case(placed, CASE_METHODS, []) is None
    assert choose_case([row for row in placed if row.method != "fh-h1"], CASE_METHODS, [0, 1]) is None


def test_tracks_and_analyses_have_sections_of_their_own(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tracks"
    (folder / "toy").mkdir(parents=True)
    text = (results / "toy" / "vhd-ss-0.jsonl").read_text()
    (folder / "toy" / "vhd-ss-0.jsonl").write_text(text)
    (folder / "toy" / "vhd-paper-ss-0.jsonl").write_text(text.replace('"method": "vhd"', '"method": "vhd-paper"'))
    row = {"environment": "toy", "protocol": "ss", "n": 10, "success_rate": 0.5, "low": 0.3, "high": 0.7, "spl": 0.4}
    for scale in (1.0, 2.0):
        MISMATCH.table(folder).put({**row, "arm": "VHD", "scale": scale})
    written = {path.name for path in write_report(folder)}
    assert "toy-analysis-mismatch.png" in written
    report = (folder / "report.md").read_text()
    own, papers = report.split("## Track paper")
    assert "| VHD (SS) | SR |" in own
    assert "recipe paper" not in own
    assert "| VHD, recipe paper (SS) | SR |" in papers
    assert "| toy | VHD | ss | 2.00 | 10 | 50.0% |" in papers
    assert papers.count("Robustness to length mismatch") == 1
    (folder / "toy" / "fh-h2-ss-0.jsonl").write_text((results / "toy" / "fh-h2-ss-0.jsonl").read_text())
    assert "toy-horizon.png" not in {path.name for path in write_report(folder)}  # one horizon makes no curve


def test_the_table_of_tracks_says_what_the_recipes_say() -> None:
    table = differences_table(["maze2d-umaze", "maze2d-large"])
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["planner predicts"] == ("epsilon", "v_prediction")
    assert rows["control steps between knots"] == ("1", "8; maze2d-large 16")
    assert rows["crops per update"] == ("2 x 32", "1 x 128")
    assert rows["optimiser"] == ("Adam, 0.0002 constant", "muon, 0.001, cosine")
    assert rows["Length Predictor's goals"] == ("whole states, one encoder", "places")
    assert all(paper != default for paper, default in rows.values())
    assert differences_table(["toy"]).rows == ()


def test_a_gif_has_the_rollouts_frames(results: Path, tmp_path: Path) -> None:
    kept = next(
        item
        for item in (
            load_rollout(rollout_path(result_path(results, "toy", "vhd", "rp", 0), number)) for number in range(4)
        )
        if len(item.actions) >= 4
    )
    frames = list(top_view_frames(kept, WALLS, [0, 1], every=2, size=120))
    steps = len(kept.actions)
    assert len(frames) == steps // 2 + 1 + steps % 2
    assert max(frames[0].shape[:2]) in (120, 121)
    assert not np.array_equal(frames[0], frames[-1])
    assert len(imageio.imread(write_gif(frames, tmp_path / "top.gif"), index=None)) == len(frames)

    # Grey levels of the toy's picture are its x coordinate: the replay is the rollout.
    levels = [int(frame[0, 0, 0]) for frame in replay_frames(ToyEnv(), kept, size=8)]
    np.testing.assert_allclose(levels, 255 * np.clip(kept.states[:, 0], 0, 1), atol=1.01)


def test_a_view_without_walls_shows_all_of_the_path(results: Path) -> None:
    kept = load_rollout(rollout_path(result_path(results, "toy", "vhd", "rp", 0), 0))
    *_, frame = top_view_frames(kept, np.zeros((0, 4)), [0, 1], size=100)
    places = np.concatenate([kept.states, kept.instance.goal[None], *(planned for _, planned in kept.plans)])
    low, high = places.min(axis=0), places.max(axis=0)
    drawn = np.argwhere((frame != frame[0, 0]).any(axis=2))
    assert (drawn.min(axis=0) > 0).all(), "nothing is cut off"
    assert (drawn.max(axis=0) < np.array(frame.shape[:2]) - 1).all()
    # Where the goal is in the frame is where it is in the path's box, give or take the margin.
    row, column = pixels_of(frame, RED).mean(axis=0) / frame.shape[:2]
    across, up = (kept.instance.goal - low) / (high - low)
    assert column == pytest.approx(across, abs=0.15)
    assert 1 - row == pytest.approx(up, abs=0.15)


def test_axes_name_their_units() -> None:
    assert axis_labels("maze2d-large")[:2] == ["x [cells]", "y [cells]"]
    assert axis_labels("antmaze-medium", ("x", "y")) == ["x [m]", "y [m]"]
    assert axis_labels("nowhere", ("s0",)) == ["s0"]


def test_no_frames_no_file(tmp_path: Path) -> None:
    with pytest.raises(VhdError, match="no frames"):
        write_gif([], tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_all_methods_are_drawn() -> None:
    assert set(CASE_METHODS) <= set(METHODS)
