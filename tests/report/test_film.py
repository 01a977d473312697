"""Films of a planner at work: what is shown when, on a toy that draws straight lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pictures import BLUE as ROBOT_BLUE
from pictures import RED as GOAL_RED
from pictures import picture, pixels_of
from PIL import Image
from toy_point import SPEC

from vhdiffuser.envs.registry import get_spec
from vhdiffuser.painting import write_gif
from vhdiffuser.report.rollout_figures import draw_execution
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.trajectories.film import FILM_FPS, film_frames

WALLS = np.array([[-0.2, 0.0, -0.2, 1.2], [1.0, 1.2, -0.2, 1.2]])


def leg(start: tuple[float, float], goal: tuple[float, float], length: int, reverse_steps: int | None) -> Rollout:
    """A straight plan, followed exactly."""
    states = np.linspace(start, goal, length).astype(np.float32)
    noise = None
    if reverse_steps is not None:
        noise = np.repeat(states[None, ::2], reverse_steps + 1, axis=0)
    return Rollout(states, np.diff(states, axis=0), True, ((0, Plan(states, states[-1], noise, SPEC)),))


def where(frame: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    """(2,) mean (row, column) of the pixels of that colour, as a share of the frame."""
    found = pixels_of(frame, colour)
    assert len(found), f"no pixel of colour {colour}"
    return found.mean(axis=0) / frame.shape[:2]


def test_each_plan_is_denoised_then_followed_then_held() -> None:
    rollout = leg((0.2, 0.2), (0.8, 0.8), length=13, reverse_steps=3)
    frames = list(film_frames(SPEC, [rollout], WALLS, every=4, size=140))
    denoising = 3 * int(FILM_FPS / 6) + int(FILM_FPS / 2)
    executing = len([0, 4, 8, 12])
    assert len(frames) == denoising + executing + int(FILM_FPS)
    assert {frame.shape for frame in frames} == {frames[0].shape}
    begin, end = where(frames[denoising], ROBOT_BLUE), where(frames[-1], ROBOT_BLUE)
    assert end[0] < begin[0], "y runs up the page"
    assert end[1] > begin[1], "x runs to the right"


def test_without_denoising_the_film_begins_with_the_execution() -> None:
    frames = list(film_frames(SPEC, [leg((0.2, 0.2), (0.8, 0.8), 13, None)], WALLS, every=4, size=140))
    assert len(frames) == 4 + int(FILM_FPS)


def test_a_moved_goal_is_where_the_second_rollout_goes() -> None:
    legs = [leg((0.2, 0.2), (0.8, 0.2), 7, 2), leg((0.8, 0.2), (0.8, 0.9), 8, 2)]
    frames = list(film_frames(SPEC, legs, WALLS, every=1, size=140))
    first, last = where(frames[0], GOAL_RED), where(frames[-40], GOAL_RED)
    assert last[0] < first[0] - 0.2
    assert abs(last[1] - first[1]) < 0.05


def test_plans_made_on_the_way_are_shown_when_they_were_made() -> None:
    states = np.linspace((0.1, 0.1), (0.9, 0.9), 17).astype(np.float32)
    plans = ((0, Plan(states, states[-1])), (6, Plan(states[6:], states[-1])))
    frames = list(film_frames(SPEC, [Rollout(states, np.diff(states, axis=0), False, plans)], WALLS, every=3, size=140))
    assert len(frames) == len([0, 3, 6]) + len([0, 3, 6, 9, 10])
    np.testing.assert_array_equal(where(frames[2], ROBOT_BLUE), where(frames[3], ROBOT_BLUE))


def test_a_gif_keeps_pictures_and_time(tmp_path: Path) -> None:
    frames = list(film_frames(SPEC, [leg((0.2, 0.2), (0.8, 0.8), 13, 2)], WALLS, every=2, size=140))
    path = write_gif(frames, tmp_path / "film.gif", FILM_FPS)
    with Image.open(path) as film:
        seconds = 0.0
        for number in range(film.n_frames):
            film.seek(number)
            seconds += film.info["duration"] / 1000
        last = np.asarray(film.convert("RGB"))
    assert seconds == pytest.approx(len(frames) / FILM_FPS), "equal pictures are merged, not lost"
    assert np.abs(last.astype(int) - frames[-1]).mean() < 1


def test_an_execution_is_drawn_with_one_panel_a_goal(tmp_path: Path) -> None:
    umaze = get_spec("maze2d-umaze")

    def straight(start: tuple[float, float], goal: tuple[float, float]) -> Rollout:
        states = np.linspace([*start, 0, 0], [*goal, 0, 0], 9).astype(np.float32)
        return Rollout(states, np.zeros((8, 2)), True, ((0, Plan(states, states[-1, :2], spec=umaze)),))

    legs = [straight((1, 1), (1, 3)), straight((1, 3), (3, 3))]
    one = picture(draw_execution(legs[:1], tmp_path / "one.png"))
    two = picture(draw_execution(legs, tmp_path / "two.png"))
    one, two = (shown[: int(0.9 * len(shown))] for shown in (one, two))  # without the legend
    assert two.shape[1] == 2 * one.shape[1]
    first, second = two[:, : one.shape[1]], two[:, one.shape[1] :]
    for panel in (one, first, second):
        assert len(pixels_of(panel, ROBOT_BLUE)) > 100, "the executed path"
    np.testing.assert_allclose(where(first, GOAL_RED), where(one, GOAL_RED), atol=0.02)
    assert where(second, GOAL_RED)[1] > where(first, GOAL_RED)[1] + 0.3, "x, 2 larger, runs to the right"


def test_the_goal_may_move_within_a_rollout() -> None:
    """An agent's goal changes on the way: the film follows the goal of each plan, and the old one fades."""
    out, back = leg((0.1, 0.1), (0.8, 0.1), 8, None), leg((0.4, 0.1), (0.4, 0.9), 9, None)
    states = np.concatenate([out.observations[:4], back.observations])
    plans = ((0, out.plans[0][1]), (4, back.plans[0][1]))
    frames = list(film_frames(SPEC, [Rollout(states, np.diff(states, axis=0), True, plans)], WALLS, 1, 140))
    first, second = where(frames[0], GOAL_RED), where(frames[6], GOAL_RED)  # five pictures of the first plan
    assert second[0] < first[0] - 0.2, "0.8 further up"
    assert second[1] < first[1] - 0.05, "0.4 to the left"
