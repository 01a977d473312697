"""Write a plan and its executions to a file: an image, JSON, CSV or GIF, depending on the suffix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vhdiffuser.drawing import walls_of
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.registry import find_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.painting import write_gif
from vhdiffuser.report.plan_figures import denoising_frames, draw_plans
from vhdiffuser.report.rollout_figures import draw_execution
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.trajectories.film import write_film
from vhdiffuser.types import EnvSpec, Episodes

FORMATS = (".png", ".json", ".csv", ".gif")


def check_format(path: Path, executed: bool) -> None:
    """Raise `VhdError` if a plan, or one with executions, cannot be written to a file with this name."""
    if path.suffix not in FORMATS:
        raise VhdError(f"--out {path}: the suffix must be .png, .json, .csv or .gif.")
    if executed and path.suffix == ".csv":
        raise VhdError(f"--out {path}: a .csv file holds a single plan. With --execute, use .png, .json or .gif.")


def write_plan(path: Path, plan: Plan, rollouts: Sequence[Rollout], spec: EnvSpec) -> None:
    """Write a plan, or the executions that began with it; a GIF needs plans that kept their denoising."""
    check_format(path, bool(rollouts))
    if path.suffix == ".png":
        if rollouts:
            draw_execution(rollouts, path)
        else:
            draw_plans([plan], path, data=_log(spec))
    elif path.suffix == ".gif":
        if rollouts:
            write_film(spec, rollouts, walls_of(spec), path)
        else:
            write_gif(denoising_frames(spec, plan), path, fps=8)
    elif rollouts:
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(plan_json(plan, rollouts, spec)))
    else:
        plan.save(path)


def plan_json(plan: Plan, rollouts: Sequence[Rollout], spec: EnvSpec) -> dict[str, Any]:
    """The plan and its executions, if any, as a JSON-serialisable dict."""
    result: dict[str, Any] = plan.to_json()
    if rollouts:
        result["executions"] = [
            {
                "goal": rollout.plans[0][1].goal.tolist(),
                "success": rollout.success,
                "steps": rollout.steps,
                "plans": [{"step": made, "length": each.length} for made, each in rollout.plans],
                "states": spec.planning_state(rollout.observations).tolist(),
            }
            for rollout in rollouts
        ]
    return result


def _log(spec: EnvSpec) -> Episodes | None:
    """Imported data to draw behind a plan: without a simulator, it is all that is known about free space."""
    environment = find_environment(spec.name)
    if environment is None or environment.recorded is None or environment.spec != spec:
        return None
    return load_dataset(spec.name).episodes
