"""PointMaze of Gymnasium-Robotics with the shipped maze2d-umaze weights: the same maze in another frame.

pip install 'vhdiffuser[robotics]'
python examples/pointmaze.py
"""

import gymnasium
import gymnasium_robotics
import numpy as np
from gymnasium.wrappers import TransformAction, TransformObservation

import vhdiffuser


def in_our_frame(seen):  # PointMaze: x to the right, y up, zero in the middle; D4RL's maze: x down, y to the right
    (x, y, vx, vy), (goal_x, goal_y) = seen["observation"], seen["desired_goal"]
    return {"observation": [1.8 - y, 1.8 + x, -vy, vx], "desired_goal": [1.8 - goal_y, 1.8 + goal_x]}


gymnasium.register_envs(gymnasium_robotics)
env = TransformObservation(gymnasium.make("PointMaze_UMaze-v3"), in_our_frame, None)
env = TransformAction(env, lambda action: np.array([action[1], -action[0]]), None)
print(vhdiffuser.drive(vhdiffuser.load_planner("maze2d-umaze"), env))
