"""Run a notebook's cells in order, in one process and without Jupyter, and save what they print and draw.

python tools/run_notebook.py examples/notebooks/from_log_to_closed_loop.ipynb
"""

from __future__ import annotations

import ast
import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def run_notebook(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the code cells of a notebook (nbformat 4), put their outputs in place, and return the variables they made.

    An output is what a cell prints, the value of its last expression, and the figures that are open after it.
    """
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("agg")
    pyplot.close("all")  # what was open before is no output of a cell
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, start=1):
        with redirect_stdout(io.StringIO()) as printed:
            value = _run("".join(cell["source"]), f"cell {number}", names)
        cell["execution_count"] = number
        cell["outputs"] = []
        if printed.getvalue():
            cell["outputs"].append(
                {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
            )
        if value is not None:
            result = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
            cell["outputs"].append({**result, "data": {"text/plain": repr(value).splitlines(keepends=True)}})
        cell["outputs"] += [
            {"output_type": "display_data", "metadata": {}, "data": {"image/png": png}} for png in _figures()
        ]
    return names


def _run(source: str, title: str, names: dict[str, Any]) -> Any:
    """Run one cell; as Jupyter shows it, the value of a last expression that no semicolon ends."""
    tree = ast.parse(source, title)
    shown = bool(tree.body) and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";")
    last = tree.body.pop() if shown else None
    exec(compile(tree, title, "exec"), names)
    return eval(compile(ast.Expression(last.value), title, "eval"), names) if isinstance(last, ast.Expr) else None


def _figures() -> list[str]:
    """The open figures as PNG in base64; they are closed."""
    from matplotlib import pyplot

    pictures = []
    for number in pyplot.get_fignums():
        buffer = io.BytesIO()
        pyplot.figure(number).savefig(buffer, format="png", dpi=72, bbox_inches="tight")
        pictures.append(base64.b64encode(buffer.getvalue()).decode())
    pyplot.close("all")
    return pictures


def main() -> None:
    """Run the notebooks named and save them."""
    for path in map(Path, sys.argv[1:]):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        run_notebook(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
