"""Two gates close: which goal can still be reached in time, and with what probability?

python examples/closing_goal.py
"""

import vhdiffuser
from vhdiffuser.planner.calibrated import DeadlineError

START, GATES = [1, 1, 0, 0], {"far gate": [3, 1], "near gate": [3, 3]}
CLOSES = 130  # control steps from now

planner = vhdiffuser.load_planner("maze2d-umaze")
for name, gate in GATES.items():
    try:
        plan = planner.plan(START, gate, deadline=CLOSES, risk=0.05)
    except DeadlineError as error:
        print(f"{name}: too late, it takes {error.steps} steps (in time with probability {error.probability:.2f})")
        continue
    known = planner.horizon(START, gate, plan.length)
    rollout = vhdiffuser.execute(planner, START, gate, "ss", length=plan.length)
    low, high = known.interval
    print(
        f"{name}: probability {known.probability:.2f} within {plan.length} steps, expected {low:.0f} to {high:.0f}; ",
        end="",
    )
    print(f"{'reached' if rollout.success else 'missed'} after {rollout.steps}")
