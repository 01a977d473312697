"""When to replan: as soon as the predicted steps exceed those left in the plan. During the execution,
the ball is carried to another corner.

python examples/replan_timing.py
"""

import gymnasium
import numpy as np

import vhdiffuser
from vhdiffuser.control.base import default_controller

planner = vhdiffuser.load_planner("maze2d-large")
predictor, controller, goal = planner.length_predictor, default_controller(planner.spec), np.array([7.0, 9.0])
robot = gymnasium.make("vhdiffuser/Maze2d-large-v1", max_episode_steps=2000)


def drive(rule: str) -> tuple[int, int, bool]:
    """(steps, plans, whether it arrived) with one rule of replanning."""
    state, _ = robot.reset(options={"start": [1, 1]})
    plan, index, plans = planner.plan(state, goal), 0, 1
    for step in range(1, 1500):
        action = controller.act(state[None], [plan], np.array([index]))[0]
        state = robot.reset(options={"start": [1, 10]})[0] if step == 150 else robot.step(action)[0]
        index += 1
        if np.abs(state[:2] - goal).max() < 0.1:
            return step, plans, True
        late = predictor.predict_steps(state, goal) > plan.length - 1 - index
        if (rule == "when late" and late and step % 10 == 0) or (rule == "every 10 steps" and step % 10 == 0):
            plan, index, plans = planner.plan(state, goal), 0, plans + 1
    return step, plans, False


for rule in ("never", "every 10 steps", "when late"):
    steps, plans, arrived = drive(rule)
    print(f"replan {rule}: {'arrived' if arrived else 'missed'} after {steps} steps with {plans} plans")
