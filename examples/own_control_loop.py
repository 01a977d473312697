"""Your own control loop: you step the robot, an agent returns an action for each observation.

python examples/own_control_loop.py
"""

import gymnasium
import numpy as np

import vhdiffuser

planner = vhdiffuser.load_planner("maze2d-large")
agent = vhdiffuser.Agent(planner, rule=vhdiffuser.replan_on_deviation(threshold=0.1, check_every=10))
agent.warm_up()  # the first plan of a process is slow

robot = gymnasium.make("vhdiffuser/Maze2d-large-v1", max_episode_steps=2000)  # or your own robot
observation, _ = robot.reset(options={"start": [1, 1]})
agent.reset(goal=[7, 9])
action = agent.act(observation)
while not agent.done:
    observation, *_ = robot.step(action)
    if agent.steps == 100:
        agent.goal = [1, 10]  # the goal moves: the next act plans for it
    action = agent.act(observation)

print(agent.rollout())
slowest, typical = max(item.total for item in agent.latencies), np.median([item.total for item in agent.latencies])
print(f"goal {'reached' if agent.reached else 'missed'}; typical act {typical:.4f} s, slowest {slowest:.3f} s")
