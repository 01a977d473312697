"""Which of several tasks is nearest? By predicted steps, by straight line, and by true distance (paths around walls).

python examples/choose_among_tasks.py
"""

import numpy as np

from vhdiffuser import get_environment, load_planner
from vhdiffuser.benchmark.geodesic import make_geodesic

maze = get_environment("maze2d-large")
predictor, truth, rng = load_planner(maze.name).length_predictor, make_geodesic(maze), np.random.default_rng(0)
simulator = maze.make()


def tour(steps: np.ndarray) -> list[int]:
    """Greedy: always the nearest task that is left. Place 0 is the robot."""
    order, left = [0], set(range(1, len(steps)))
    while left:
        order.append(min(left, key=lambda task: steps[order[-1], task]))
        left.remove(order[-1])
    return order


names, right, lengths = ("straight line", "predicted steps", "true distance"), np.zeros(3), np.zeros(3)
for _ in range(20):
    places = np.array([simulator.sample_instance(rng).goal for _ in range(7)])  # the robot and six tasks
    states = np.concatenate([places, 0 * places], axis=1)  # at rest
    straight = np.linalg.norm(places[:, None] - places, axis=-1)
    true = truth.distance(np.repeat(places, 7, axis=0), np.tile(places, (7, 1))).reshape(7, 7)
    learned = predictor.predict_steps(states[:, None], places)  # (7, 7) in one call
    for number, steps in enumerate((straight, learned, true)):
        order = tour(steps)
        right[number] += order[1] == tour(true)[1]
        lengths[number] += true[order[:-1], order[1:]].sum() / 20
for name, share, length in zip(names, right / 20, lengths, strict=True):
    print(f"by {name:16} nearest task {share:4.0%} right, tours of {length:.1f} units")
