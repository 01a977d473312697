"""`vhd envs`."""

from __future__ import annotations

from dataclasses import dataclass

from vhdiffuser.cli.console import out, print_json
from vhdiffuser.envs.registry import SPECS


@dataclass(frozen=True)
class Envs:
    """List the environments: planning state, goal, tolerance, horizons, controller, budget, instances.

    Example: vhd envs --json
    """

    json: bool = False
    """Print a JSON list of objects instead of a table."""

    def run(self) -> None:
        """Print the registry."""
        if self.json:
            print_json([spec.to_json() for spec in SPECS.values()])
            return
        rows = [("name", "planning state", "goal", "epsilon", "H1/H2/H3", "L_min..T_max", "budget", "control")]
        for spec in SPECS.values():
            rows.append(
                (
                    spec.name,
                    " ".join(spec.state_names),
                    " ".join(spec.state_names[dim] for dim in spec.goal_dims),
                    f"{spec.epsilon:g}",
                    "/".join(map(str, spec.horizons)),
                    f"{spec.L_min}..{spec.T_max}",
                    str(spec.step_budget),
                    f"{spec.controller}, {spec.control_dt:g} s",
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            out.print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        out.print(
            "\nepsilon is an infinity norm on normalised goal dimensions; lengths are in states, budgets in steps."
        )
        out.print("\nrandom instances:")
        for text in dict.fromkeys(spec.instances for spec in SPECS.values()):
            names = ", ".join(spec.name for spec in SPECS.values() if spec.instances == text)
            out.print(f"  {names}: {text}")
