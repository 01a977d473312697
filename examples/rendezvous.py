"""Two robots meet at a given control step: each plan arrives at that step, not earlier.

python examples/rendezvous.py
"""

import vhdiffuser
from vhdiffuser.planner.forwarding import BeginsWith

MEETING, PLACE = 220, [3, 2]  # when, in control steps, and where

planner = vhdiffuser.load_planner("maze2d-umaze")
for start in ([1, 1, 0, 0], [3, 3, 0, 0]):
    fastest = planner.horizon(start, PLACE)
    plan = planner.plan(start, PLACE, deadline=MEETING, arrive="at")
    rollout = vhdiffuser.execute(BeginsWith(planner, plan), start, PLACE, "ss")
    print(
        f"from {start[:2]}: {fastest.length} steps would be enough, {'there' if rollout.success else 'not there'} ",
        end="",
    )
    print(f"after {rollout.steps} steps")
