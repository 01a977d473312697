"""States visited by an inverse dynamics model itself, to be labelled by a teacher (DAgger, Ross et al. 2011).

An imitating model may stop where its data never does. So it follows recorded paths in the simulator, by index and by
path, and also trains on the states it visits. The paths come from the data; no test instance is used.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from vhdiffuser.control.inverse_dynamics import InverseDynamicsController
from vhdiffuser.envs.environment import Environment
from vhdiffuser.execution.recorded import RecordedStart, recorded_windows
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.streams import stream
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import Episodes, FloatArray, Instance


def own_rollouts(model: Path, environment: Environment, episodes: Episodes, number: int, n: int) -> Episodes:
    """n rollouts of 3 `window_steps` steps along recorded paths; those that end in a fall are dropped."""
    rng = np.random.default_rng(stream("own rollouts", 0, number))
    windows = recorded_windows(environment, episodes, rng, n, 3 * environment.window_steps + 1)
    slots = min(environment.simulators, n)
    visited: list[FloatArray] = []
    with Simulators(partial(RecordedStart, environment), slots, workers=0) as simulators:
        for begin in range(0, n, slots):
            part = windows[begin : begin + slots]
            by_path = environment.controller == "path_following" or (begin // slots) % 2 == 1
            controller = InverseDynamicsController.load(model, by_path=by_path)
            visited += list(_follow(controller, simulators, environment, part))
    kept = [states for states in visited if not environment.has_fallen(states).any()]
    actions = np.zeros((len(kept[0]) - 1, environment.spec.action_dim), np.float32)
    return Episodes.from_parts([(states, actions) for states in kept])


def _follow(
    controller: InverseDynamicsController, simulators: Simulators, environment: Environment, windows: FloatArray
) -> FloatArray:
    """(n, L, o) observations of the model following (n, L, o) recorded windows."""
    spec = environment.spec
    plans = [Plan(states, spec.goal_of(states[-1])) for states in spec.planning_state(windows).astype(np.float32)]
    slots = list(range(len(plans)))
    starts = [Instance(window[0], plan.goal, 0) for window, plan in zip(windows, plans, strict=True)]
    observations = [simulators.reset(slots, starts)]
    for index in range(windows.shape[1] - 1):
        actions = controller.act(observations[-1], plans, np.full(len(plans), index))
        observations.append(simulators.step(slots, actions))
    return np.stack(observations, axis=1)
