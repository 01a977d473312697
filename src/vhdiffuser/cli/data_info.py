"""`vhd data info`: describe a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from vhdiffuser.console import out, print_json
from vhdiffuser.data.store import Dataset, summary
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.types import EnvSpec

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Info:
    """Describe a dataset.

    Example: vhd data info maze2d-umaze --json
    """

    env: Positional[Name]
    """Environment, or the name of an imported dataset."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        """Print the summary."""
        dataset = load_dataset(self.env)
        facts = summary(dataset)
        if self.json:
            print_json(facts)
            return
        from rich.table import Table

        out.print(str(dataset))
        for line in _spec_lines(dataset.spec, facts):
            out.print(line)
        table = Table()
        for column in ("observation", "mean", "std", "min", "max"):
            table.add_column(column, justify="right")
        names = dict(zip(dataset.spec.state_dims, dataset.spec.state_names, strict=True))
        for dim in range(dataset.spec.observation_dim):
            row = (facts[f"observation_{key}"][dim] for key in ("mean", "std", "min", "max"))
            table.add_row(f"{dim} {names.get(dim, '')}", *(f"{value:.4f}" for value in row))
        out.print(table)
        actions = [round(value, 4) for value in facts["action_std"]]
        out.print(f"action std {actions}" if actions else "no actions")
        out.print(f"fingerprint {facts['fingerprint']}")


def print_dataset(dataset: Dataset, as_json: bool, before: str = "") -> None:
    """One line, or one JSON object."""
    if as_json:
        print_json(summary(dataset))
    else:
        out.print(f"{before}{dataset}")


def _spec_lines(spec: EnvSpec, facts: dict[str, Any]) -> list[str]:
    """The spec of a dataset, as lines of text."""
    goal, velocities = (
        " ".join(spec.state_names[dim] for dim in dims or ()) or "none" for dims in (spec.goal_dims, spec.velocity_dims)
    )
    lengths = " / ".join(f"{facts[f'episode_states_{key}']:,}" for key in ("min", "median", "max"))
    return [
        f"planning state {' '.join(spec.state_names)}; goal {goal}; velocities {velocities}",
        f"control_dt {spec.control_dt:g}, epsilon {spec.epsilon:g}, L_min {spec.L_min}, T_max {spec.T_max}",
        f"states in an episode, min / median / max: {lengths}",
    ]
