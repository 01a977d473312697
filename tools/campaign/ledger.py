"""What was tried and how it ended: one JSON line per trial, so that a stopped campaign goes on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Trial:
    """One trial, or a batch of inputs."""

    part: str
    """Part of the campaign, e.g. `kill -9`."""
    case: str
    """What was tried, e.g. `build`."""
    number: int
    """Number of the trial of that case."""
    fault: str = ""
    """What went wrong; empty if nothing did."""
    tried: int = 1
    """Inputs in the batch."""
    failed: int = 0
    """Of them, those that ended in a traceback, a hang or too much memory."""
    seconds: float = 0.0
    """Time it took to end, where that is limited."""


class Ledger:
    """The file of trials."""

    def __init__(self, path: Path, fresh: bool = False, again: bool = False) -> None:
        """Those of `path`: none of them (`fresh`), or without those that had a fault (`again`)."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # the last line may be cut
        self.trials = [Trial(**json.loads(line)) for line in whole.splitlines()]
        if again:
            self.trials = [trial for trial in self.trials if not trial.fault]
        path.write_text("".join(_line(trial) for trial in self.trials), encoding="utf-8")

    def has(self, part: str, case: str, number: int) -> bool:
        """Whether that trial is done."""
        return any((trial.part, trial.case, trial.number) == (part, case, number) for trial in self.trials)

    def add(self, trial: Trial) -> None:
        """Record a trial."""
        self.trials.append(trial)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(_line(trial))

    def report(self) -> str:
        """Figures by part and case, then every fault, as Markdown."""
        lines = [
            "# Fault campaign",
            "",
            "| part | case | tried | faults | slowest |",
            "| --- | --- | --- | --- | --- |",
        ]
        tried: Counter[tuple[str, str]] = Counter()
        failed: Counter[tuple[str, str]] = Counter()
        slowest: dict[tuple[str, str], float] = {}
        for trial in self.trials:
            key = trial.part, trial.case
            tried[key] += trial.tried
            failed[key] += trial.failed or bool(trial.fault)
            slowest[key] = max(slowest.get(key, 0.0), trial.seconds)
        for key in sorted(tried):
            took = f"{slowest[key]:.1f} s" if slowest[key] else ""
            lines.append(f"| {key[0]} | {key[1]} | {tried[key]:,} | {failed[key]:,} | {took} |")
        kills = [key for key in tried if key[0] == "kill -9"]
        inputs = [key for key in tried if key[0].startswith("fuzz")]
        survived = sum(tried[key] - failed[key] for key in kills)
        lines += [
            "",
            f"Kills survived: {survived} of {sum(tried[key] for key in kills)}. Inputs tried: "
            f"{sum(tried[key] for key in inputs):,}, tracebacks, hangs or too much memory: "
            f"{sum(failed[key] for key in inputs):,}. All trials: {sum(tried.values()):,}, faults: "
            f"{sum(failed.values()):,}.",
        ]
        faults = [trial for trial in self.trials if trial.fault]
        if faults:
            lines += ["", "## Faults", ""]
            lines += [f"- {trial.part}, {trial.case} {trial.number}: {trial.fault}" for trial in faults]
        return "\n".join(lines) + "\n"

    @property
    def faults(self) -> int:
        """Trials with a fault."""
        return sum(bool(trial.fault) for trial in self.trials)


def _line(trial: Trial) -> str:
    return json.dumps(asdict(trial)) + "\n"
