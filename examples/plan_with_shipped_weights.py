"""Load, plan, execute: the whole library in ten lines. No data and no training needed.

python examples/plan_with_shipped_weights.py
python examples/plan_with_shipped_weights.py path/to/folder      weights that `vhd models export` wrote
"""

import sys

import numpy as np

import vhdiffuser

planner = vhdiffuser.load_planner(sys.argv[1] if len(sys.argv) > 1 else "maze2d-large")
env = vhdiffuser.get_environment(planner.spec.name).make()
instance = env.sample_instance(np.random.default_rng(7))  # or your own start and goal

steps = planner.predict_steps(instance.start, instance.goal)
plan = planner.plan(instance.start, instance.goal)
chance = planner.horizon(instance.start, instance.goal, plan.length).probability  # None without a calibration
said = "" if chance is None else f", arrives with probability {chance:.2f}"
print(f"{planner.spec.name}: {steps:.0f} steps predicted, a plan of {plan.length} states{said}")

for protocol, name in (("ss", "single-shot"), ("rp", "replan-on-deviation")):
    rollout = vhdiffuser.execute(planner, instance.start, instance.goal, protocol)
    outcome = "reached the goal" if rollout.success else "missed the goal"
    print(f"{name}: {outcome} after {rollout.steps} steps and {rollout.replans} replans")
