"""Model cards in JSON and Markdown: data, training and measured performance of weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vhdiffuser.arguments import shown
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.length.calibration import Calibration
from vhdiffuser.planner.calibrated import FILE as CALIBRATION
from vhdiffuser.planner.calibrated import belongs, read_calibration
from vhdiffuser.planner.planner import Planner
from vhdiffuser.reading import read_json
from vhdiffuser.report.paper import PROTOCOL_LABELS, TABLE_II
from vhdiffuser.report.tables import Table
from vhdiffuser.results.cells import read_cell
from vhdiffuser.streams import STREAMS
from vhdiffuser.training.export import ShippedModel
from vhdiffuser.weights.folder import CARD, front_matter

_RECIPE = ("prediction", "stride", "clamp", "dim", "dim_mults", "diffusion_steps", "batch_size")
"""Fields of a planner's config shown in the Markdown card, plus its directness if set."""

_SAID = ("smoothing", "stretch", "candidates", "piece")
"""Planning options that a card mentions."""


def write_card(environment: str, models: Mapping[str, ShippedModel], results: Path, out: Path) -> list[str]:
    """Write `card.json` and `README.md`; returns remarks on what is missing from the card."""
    path = out / "card.json"
    earlier = _earlier_data(path) if path.exists() else {}
    calibration = read_calibration(out / CALIBRATION)
    if calibration is not None and not belongs(Planner.from_pretrained(out, outside="ignore"), calibration):
        calibration = None  # of weights that were here before
    card, remarks = make_card(environment, models, results, earlier, calibration)
    for name, text in (("card.json", json.dumps(card, indent=2) + "\n"), (CARD, card_markdown(card))):
        with atomic_path(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return remarks


def _earlier_data(path: Path) -> dict[str, Any]:
    """What a previous card says about the data."""
    data = read_json(path, "Delete it; the card will be written again.").get("data")
    kinds = {"fingerprint": str, "source": str, "details": dict, "transitions": int}
    if not isinstance(data, dict) or not all(isinstance(data.get(key, kind()), kind) for key, kind in kinds.items()):
        raise DataError(f"{path}: not a card (its 'data' is {shown(data)}). Delete it: the card will be written again.")
    return data


def make_card(
    environment: str,
    models: Mapping[str, ShippedModel],
    results: Path,
    earlier: Mapping[str, Any],
    calibration: Calibration | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """The card, and remarks on what is missing; `earlier` is what a previous card said about the data."""
    planner = models["planner"].header
    options = PlanningOptions.from_json(planner.planning)
    digests = {kind: model.sha256 for kind, model in models.items()}
    if calibration is not None:
        options = options.changed(risk=calibration.default_risk)
        digests["calibration"] = calibration.lengths_digest
    data, remarks = _data(environment, planner.data_fingerprint, earlier)
    numbers = {}
    for protocol in PROTOCOL_LABELS:
        found = measured(results, environment, protocol, digests, options)
        if isinstance(found, str):
            remarks.append(found)
        else:
            numbers[protocol] = found
    card = {
        "environment": environment,
        "licence": "MIT",
        "version": version("vhdiffuser"),
        "lengths": f"gamma {options.gamma:g}" if options.risk is None else f"risk {options.risk:g}",
        "precision": "float16",
        "bytes": sum(model.bytes for model in models.values()),
        "parameters": sum(model.parameters for model in models.values()),
        "updates": {kind: model.header.updates_in_all for kind, model in models.items() if kind != "route"},
        "minutes": {kind: model.header.notes.get("minutes") for kind, model in models.items() if kind != "route"},
        "data": data,
        "models": {kind: _model(model) for kind, model in models.items()},
        "numbers": numbers,
    }
    return card, remarks


def measured(
    results: Path, environment: str, protocol: str, digests: Mapping[str, str], options: PlanningOptions
) -> dict[str, Any] | str:
    """SR and AES of VHD's rows and how they were measured, or a remark if they belong to other models."""
    try:
        cell = read_cell(results, environment, "vhd", protocol)
    except DataError as error:
        return f"no results under {protocol}: {error}"
    files, used = f"{cell.files[0].path} (seeds {' '.join(map(str, cell.seeds))})", cell.config["models"]
    for kind, digest in used.items():
        if digest != digests.get(kind):
            return f"no results from {files}: its rows were made with another {kind} model, not with this file."
    if (risk := cell.config.get("risk")) != options.risk:
        return f"no results from {files}: its rows were made with risk {risk}, not {options.risk}."
    for name in ("gamma", "smoothing", "stretch", "piece", "wait"):
        value = getattr(options, name)
        if cell.config.get(name, value) != value:  # older rows do not record all options
            return f"no results from {files}: its rows were made with {name} {cell.config[name]}, not {value}."
    keys = ("instances", "rule", "epsilon", "sampler", "sampler_steps", "candidates", "controller")
    return {
        **cell.summary().to_json(),
        **{key: cell.config[key] for key in keys},
    }


def _data(environment: str, fingerprint: str, earlier: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Origin of the training data: the cached dataset if it is the same, otherwise an earlier card."""
    if earlier.get("fingerprint") == fingerprint and earlier.get("source", "unknown") != "unknown":
        return dict(earlier), []
    try:
        dataset = load_dataset(environment)
    except VhdError:
        dataset = None
    if dataset is None or dataset.fingerprint() != fingerprint:
        remark = (
            f"the data with fingerprint {fingerprint[:12]} is not in the cache, so the card cannot name its source."
        )
        return {"fingerprint": fingerprint, "source": "unknown"}, [remark]
    facts = {"source": dataset.source, "details": dataset.details, "transitions": dataset.episodes.transitions}
    return {"fingerprint": fingerprint, **facts}, []


def _model(model: ShippedModel) -> dict[str, Any]:
    header = model.header
    begun = header.notes.get("began_with")
    return {
        "updates": header.updates,
        "minutes": header.notes.get("minutes"),
        "parameters": model.parameters,
        "bytes": model.bytes,
        "sha256": model.sha256,
        "data_fingerprint": header.data_fingerprint,
        "recipe": header.config,
        **({"planning": PlanningOptions.from_json(header.planning).to_json()} if header.planning else {}),
        "loop": header.notes.get("loop"),
        "began_with": {"sha256": begun} if isinstance(begun, str) else begun,  # version 0.1 stored only a digest
    }


def card_markdown(card: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    name, data = card["environment"], card["data"]
    made = {
        "build": "regenerated by `vhd data get --source build`",
        "official": "the official file",
        "import": "imported from a file",
    }.get(data["source"], "Data of another environment or machine")
    details = ", ".join(f"{key} {value}" for key, value in data.get("details", {}).items())
    transitions = f"{data['transitions']:,} transitions, " if "transitions" in data else ""
    recipe, planning = card["models"]["planner"]["recipe"], card["models"]["planner"]["planning"]
    said = [*_RECIPE, *(["directness"] if recipe.get("directness") is not None else [])]
    begun = card["models"]["planner"].get("began_with")
    networks = Table(
        ("network", "file", "parameters", "updates", "minutes", "MB"),
        tuple(
            (
                kind,
                f"{kind}.safetensors",
                f"{model['parameters']:,}",
                *_training(model),
                f"{model['bytes'] / 1e6:.2f}",
            )
            for kind, model in card["models"].items()
        ),
    )
    return "\n".join(
        [
            front_matter(name),
            f"# {name}: variable-horizon planner",
            "",
            "A diffusion planner and its Length Predictor (VH-Diffuser), in half precision. Licence: MIT.",
            "",
            "```python",
            f'planner = vhdiffuser.load_planner("{name}")',
            "```",
            "",
            "## Data",
            "",
            f"{transitions}{made}{f' ({details})' if details else ''}. Fingerprint `{data['fingerprint']}`.",
            "",
            "## Recipe",
            "",
            ", ".join(f"{key} {_plain(recipe[key])}" for key in said)
            + f". Plans with {planning['sampler']} in {planning['steps']} steps, {card['lengths']}, "
            + ", ".join(
                f"{key} {planning[key]:g}" for key in _SAID if key in planning
            )  # older files do not record all options
            + (f", wait {planning['wait']}" if planning.get("wait") else "")
            + ". "
            + (f"Fine-tuned: its training began with the weights of model `{begun['sha256']}`. " if begun else "")
            + "The whole recipe is in `card.json`.",
            "",
            networks.markdown(),
            "## Numbers",
            "",
            _numbers(card),
        ]
    )


def _training(model: Mapping[str, Any]) -> tuple[str, str]:
    """Updates and minutes of a network; if it was fine-tuned, the updates before and since."""
    updates, begun = model["updates"], model.get("began_with")
    minutes = "-" if model["minutes"] is None else f"{model['minutes']:g}"
    if not begun or "updates" not in begun:
        return f"{updates:,}", minutes
    before = begun["updates"]
    return f"{before + updates:,} ({before:,} + {updates:,})", f"{minutes} (of the last {updates:,})"


def _numbers(card: Mapping[str, Any]) -> str:
    numbers = card["numbers"]
    if not numbers:
        return "Not measured yet.\n"
    lines = []
    for protocol, cell in numbers.items():
        paper = TABLE_II.get((card["environment"], "vhd", protocol))
        lines.append(
            (
                PROTOCOL_LABELS[protocol],
                str(cell["n"]),
                success_text(cell),
                steps_text(cell),
                "-" if paper is None else f"{paper[0]:.1f}",
                "-" if paper is None else f"{paper[1]:.1f}",
            )
        )
    head = ("protocol", "n", "SR % [95 %]", "AES [95 %]", "SR, paper", "AES, paper")
    notes = [
        f"{PROTOCOL_LABELS[protocol]}: instances {_plain(cell['instances'])} of {_seeds(cell)}, {cell['sampler']} "
        f"in {cell['sampler_steps']} steps, {cell['candidates']} candidate(s) per plan, controller "
        f"{cell['controller'].get('name', '?')}."
        for protocol, cell in numbers.items()
    ]
    return Table(head, tuple(lines)).markdown() + "\n" + "\n".join(f"- {note}" for note in notes) + "\n"


def _seeds(cell: Mapping[str, Any]) -> str:
    """`seeds 100, 101 (SR 98.1, 97.4)`, and whether they use the first release's streams."""
    rates = ", ".join(f"{100 * rate:.1f}" for rate in cell["success_rate_by_seed"])
    several = len(cell["seeds"]) > 1
    text = f"seed{'s' * several} {', '.join(map(str, cell['seeds']))}{f' (SR {rates})' if several else ''}"
    return text if cell["streams"] == STREAMS else f"{text} of the first release, which share streams with the data"


def success_text(cell: Mapping[str, Any]) -> str:
    """`98.5 [97.5, 99.1]`: SR in % with its interval."""
    low, high = cell["success_rate_interval"]
    return f"{100 * cell['success_rate']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def steps_text(cell: Mapping[str, Any]) -> str:
    """`107.2 [104.0, 110.3]`: AES with its interval."""
    low, high = cell["average_executed_steps_interval"]
    return f"{cell['average_executed_steps']:.1f} [{low:.1f}, {high:.1f}]"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{item}" for item in value.values())
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
