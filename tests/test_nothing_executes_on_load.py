"""Nothing in a file that we read is ever executed: the abstract syntax tree of every module is walked for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = [
    path for folder in ("src", "tools", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.py"))
]
UNPICKLERS = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "jsonpickle",
    "pandas",
}
HARMLESS = {("pickle", "UnpicklingError"), ("pickle", "PicklingError")}
"""Exceptions to catch."""
EXECUTES = {"eval", "exec", "compile", "__import__", "execfile"}
NOTEBOOKS = {"tools/run_notebook.py"}
"""It runs the notebooks of docs: their code is ours."""
UNPACKS = {"extractall", "extract", "unpack_archive"}
"""They may write outside their folder; files are read from archives one by one instead."""
FOREIGN = {
    "src/vhdiffuser/envs/registry.py": "`my_robot.py:make` and entry points: code that the user names",
    "src/vhdiffuser/envs/references.py": "`my_robot.py:make`, `my_planner.py:MyPlanner`: code that the user names",
    "src/vhdiffuser/extensions.py": "entry points of installed packages",
    "src/vhdiffuser/cli/__init__.py": "our own commands, from a table",
    "src/vhdiffuser/__init__.py": "our own public names, from a table",
    "src/vhdiffuser/envs/offscreen.py": "MuJoCo's own graphics backends, from a list",
}
"""Modules that import by name, and why; the name never comes from a file (test_plan, test_registry)."""


def faults(source: str, name: str) -> Iterator[str]:
    """What in a module could execute something on load."""
    tree = ast.parse(source)
    aliases = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNPICKLERS:
            for alias in node.names:
                if (node.module, alias.name) not in HARMLESS:
                    yield f"line {node.lineno}: from {node.module} import {alias.name}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = aliases.get(node.value.id, "")
            if module.split(".")[0] in UNPICKLERS and (module, node.attr) not in HARMLESS:
                yield f"line {node.lineno}: {module}.{node.attr}"
        if isinstance(node, ast.Call):
            yield from _call_faults(node, name)


def _call_faults(call: ast.Call, name: str) -> Iterator[str]:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    where = f"line {call.lineno}: {ast.unparse(call)[:80]}"
    if called in EXECUTES and owner in ("", "builtins") and name not in NOTEBOOKS:
        yield where
    if called == "import_module" and name.startswith("src/") and name not in FOREIGN:
        yield where
    if called in UNPACKS and owner != "re":
        yield where
    if called == "load" and owner in ("torch", "th"):
        only = given.get("weights_only")
        if not (isinstance(only, ast.Constant) and only.value is True):
            yield f"{where}: without weights_only=True"
    if called in ("load", "read_array", "fromfile") and owner in ("np", "numpy", "np.lib.format"):
        allowed = given.get("allow_pickle")
        if allowed is not None and not (isinstance(allowed, ast.Constant) and allowed.value is False):
            yield f"{where}: allow_pickle"
    if called in ("load", "load_all", "unsafe_load", "full_load") and owner == "yaml":
        yield f"{where}: yaml.safe_load is the one that executes nothing"
    if any(key == "allow_pickle" and getattr(value, "value", True) for key, value in given.items()):
        yield f"{where}: allow_pickle"
    if any(key == "trust_remote_code" and getattr(value, "value", True) for key, value in given.items()):
        yield where


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_executes_nothing_that_it_reads(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    assert list(faults(path.read_text(encoding="utf-8"), name)) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle\npickle.load(file)",
        "import pickle as p\np.loads(b'')",
        "from pickle import Unpickler",
        "import joblib\njoblib.load('a')",
        "torch.load('a')",
        "torch.load('a', weights_only=False)",
        "np.load('a', allow_pickle=True)",
        "eval('1')",
        "exec(text)",
        "yaml.load(text)",
        "zipfile.ZipFile('a').extractall('b')",
        "import_module(header['module'])",
    ],
)
def test_what_could_execute_is_found(source: str) -> None:
    assert list(faults(source, "src/vhdiffuser/other.py"))


def test_what_cannot_is_not() -> None:
    source = (
        "import pickle\ntry:\n    torch.load('a', weights_only=True)\nexcept pickle.UnpicklingError:\n    np.load('a')"
    )
    assert not list(faults(source, "src/vhdiffuser/other.py"))
