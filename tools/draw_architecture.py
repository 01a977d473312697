"""Draw docs/images/architecture.svg: the data flow, and the modules in the layers of the import contract.

python tools/draw_architecture.py          (Python 3.11 or newer)
"""

from __future__ import annotations

from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/images/architecture.svg"
CONTRACT = "modules import downwards only"

MODULES = {
    "cli": "the command vhd",
    "web": "web page and JSON API",
    "analysis": "the paper's analyses",
    "report": "tables, figures",
    "benchmark": "methods, evaluation",
    "recipes": "hyperparameters",
    "training": "one resumable loop, export",
    "execution": "the control loop: Agent, executor",
    "planner": "Planner: start and goal to plan",
    "control": "controllers: plan to actions",
    "length": "the Length Predictor",
    "diffusion": "U-Net, samplers, curve",
    "trajectories": "Plan, Rollout",
    "drawing": "walls, axes",
    "painting": "frames of films",
    "envs": "Environment, registry, families",
    "data": "datasets, crops, builders, readers",
    "results": "rows, cells, statistics",
    "normalizer": "units to [-1, 1]",
    "runtime": "networks as ONNX graphs",
    "torch_network": "networks in torch",
    "types": "EnvSpec, Episodes, Instance",
    "weights": "model files, where they are",
    "locks": "one process at a time",
    "reading": "reading files safely",
    "cluster": "Ray",
    "arguments": "argument checks",
    "devices": "torch devices",
    "files": "atomic I/O",
    "streams": "randomness",
    "threads": "torch threads",
    "extensions": "registries",
    "imports": "lazy imports",
    "console": "terminal",
    "signals": "stopping",
    "workers": "processes",
    "cancel": "cancelled work",
    "errors": "errors, warnings",
}
"""What each module does."""

FLOW = (
    (("log or simulator", "data, envs"),),
    (("episodes", "data"),),
    (("crops", "data"), ("pairs", "length")),
    (("planner network", "diffusion"), ("Length Predictor", "length")),
    (("plan of L states", "planner"),),
    (("actions", "control"),),
    (("rollout", "execution"),),
    (("rows, table", "results, report"),),
)
"""Columns of boxes, from a log to results: text, and the modules that do it."""

WIDTH, MARGIN, BAR, GAP = 960, 20, 26, 5
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1b1f24; }
  .title { font-weight: 600; font-size: 14px; }
  .name { font-size: 11px; }
  .by { font-size: 10px; }
  .module { font-weight: 600; }
  .note { fill: #57606a; }
  .page { fill: #ffffff; }
  .step { fill: #dbe9ff; stroke: #3f6fb5; }
  .layer { fill: #eef1f4; stroke: #a5afba; }
  .arrow { stroke: #57606a; stroke-width: 1.5; fill: none; marker-end: url(#head); }
  .head { fill: #57606a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note { fill: #9da7b3; }
    .page { fill: #0d1117; }
    .step { fill: #16305a; stroke: #6ea0ea; }
    .layer { fill: #1c232c; stroke: #4b5663; }
    .arrow { stroke: #9da7b3; }
    .head { fill: #9da7b3; }
  }
"""


def read_layers() -> list[list[str]]:
    """The modules of each layer, from the top."""
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["name"] == CONTRACT]
    return [layer.split(" | ") for layer in layers]


def draw(layers: list[list[str]]) -> str:
    """The picture as SVG."""
    top = 216
    height = top + len(layers) * (BAR + GAP) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>Data flow, and the modules in their layers</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
        _text(MARGIN, 30, "Data flow", "title"),
        *_flow(48),
        _text(MARGIN, top - 12, "Modules: each imports only from the layers below", "title"),
    ]
    for number, modules in enumerate(layers):
        y = top + number * (BAR + GAP)
        width = (WIDTH - 2 * MARGIN - (len(modules) - 1) * GAP) / len(modules)
        for place, module in enumerate(modules):
            x = MARGIN + place * (width + GAP)
            parts.append(_box(x, y, width, BAR, "layer"))
            parts.append(_text(x + 10, y + 17, module, "module"))
            parts.append(_text(x + 100, y + 17, MODULES[module], "note"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _flow(top: int) -> list[str]:
    step = (WIDTH - 2 * MARGIN + 18) / len(FLOW)
    width, parts = step - 18, []
    for column, boxes in enumerate(FLOW):
        x = MARGIN + column * step
        for row, (name, modules) in enumerate(boxes):
            y = top + row * 66 + (33 if len(boxes) == 1 else 0)
            parts += [
                _box(x, y, width, 48, "step"),
                _text(x + width / 2, y + 20, name, "name", middle=True),
                _text(x + width / 2, y + 37, modules, "note by", middle=True),
            ]
            after = len(FLOW[column + 1]) if column + 1 < len(FLOW) else 0
            rows = [row] if after == len(boxes) else range(after)  # in parallel, or to each of them
            ends = [top + other * 66 + (33 if after == 1 else 0) + 24 for other in rows]
            parts += [f'<path class="arrow" d="M{x + width:g} {y + 24} L{x + step - 2:g} {end}"/>' for end in ends]
    return parts


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>'


def _text(x: float, y: float, text: str, kind: str, middle: bool = False) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}"{anchor}>{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw(read_layers()), encoding="utf-8")
