"""`vhd envs`."""

from __future__ import annotations

from dataclasses import dataclass

from vhdiffuser.console import out, print_json
from vhdiffuser.envs.registry import environments


@dataclass(frozen=True)
class Envs:
    """List the environments: planning state, goal, tolerance, horizons, controller, budget, instances.

    Example: vhd envs --json
    """

    json: bool = False
    """Print a JSON list of objects instead of a table."""

    def run(self) -> None:
        """Print the environments."""
        known = environments()
        if self.json:
            print_json([environment.to_json() for environment in known.values()])
            return
        rows = [("name", "planning state", "goal", "epsilon", "H1/H2/H3", "L_min..T_max", "budget", "control")]
        for environment in known.values():
            spec = environment.spec
            rows.append(
                (
                    spec.name,
                    " ".join(spec.state_names),
                    " ".join(spec.state_names[dim] for dim in spec.goal_dims),
                    f"{spec.epsilon:g}",
                    "/".join(map(str, environment.horizons)),
                    f"{spec.L_min}..{spec.T_max}",
                    str(environment.step_budget),
                    f"{environment.controller}, {spec.control_dt:g} s",
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            out.print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        out.print(
            "\nepsilon is an infinity norm on normalised goal dimensions; lengths are in states, budgets in steps."
        )
        out.print("\nrandom instances:")
        for text in dict.fromkeys(environment.instances for environment in known.values()):
            names = [name for name, environment in known.items() if environment.instances == text]
            out.print(f"  {', '.join(_shortened(names, list(known)))}: {text}")


def _shortened(names: list[str], known: list[str]) -> list[str]:
    """Names, with `word-*` in place of all names that begin with the same word."""
    short = []
    for name in names:
        alike = [other for other in known if other.partition("-")[0] == name.partition("-")[0]]
        short.append(f"{name.partition('-')[0]}-*" if len(alike) > 1 and set(alike) <= set(names) else name)
    return list(dict.fromkeys(short))
