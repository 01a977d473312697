"""The house rules that a machine can keep."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = [path for folder in ("src", "examples", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]
PICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
ERRORS = {"PickleError", "UnpicklingError"}
"""What may be used of a pickle module: the errors of those who refuse pickles."""


def test_rooms_import_downwards_only():
    program = Path(sys.executable).with_name("lint-imports")
    if not program.exists():
        pytest.fail("import-linter is not installed; run `make setup`")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_benchmarks_use_the_library_and_not_the_command_line(path: Path) -> None:
    found = [
        f"{node.module}.{item.name}" if isinstance(node, ast.ImportFrom) else item.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for item in node.names
    ]
    assert found
    assert not [name for name in found if name.startswith("vhdiffuser.cli")]


INNER = (
    "data.official", "data.readers", "diffusion.sampler", "envs.antmaze", "envs.cube", "execution.executor",
    "execution.loop", "execution.simulators", "length.network", "planner.denoising", "training.checkpoint",
    "weights.format",
)  # fmt: skip
"""What the library is made of: a command that needs these does work of its own."""


@pytest.mark.parametrize("path", sorted((ROOT / "src/vhdiffuser/cli").glob("*.py")), ids=lambda path: path.stem)
def test_a_command_calls_the_library_and_holds_no_logic_of_its_own(path: Path) -> None:
    imported = [
        node.module.removeprefix("vhdiffuser.")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vhdiffuser.")
    ]
    allowed = ("envs.antmaze.walker_training",)  # `vhd data walker` trains that ant's walker
    inner = [name for name in imported if name.startswith(INNER) and name not in allowed]
    assert not inner
    shared = ("cli.data_", "cli.options")  # the parts of `vhd data`; how options look in a help text
    others = [name for name in imported if name.startswith("cli.") and not name.startswith(shared)]
    assert not others, "what two commands need is the library's"


def full_name(node: ast.expr, aliases: dict[str, str]) -> str:
    """`np.load` as `numpy.load`; "" for what is not a name."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{full_name(node.value, aliases)}.{node.attr}"
    return ""


def unsafe(source: str) -> Iterator[str]:
    """Each place where the source could run code that it reads: pickles of any kind, YAML objects, eval and exec."""
    tree = ast.parse(source)
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:  # `import a.b` binds a; `import a.b as c` binds a.b
                first = item.name.split(".")[0]
                aliases[item.asname or first] = item.name if item.asname else first
        elif isinstance(node, ast.ImportFrom):
            aliases |= {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            module, _, attribute = full_name(node, aliases).partition(".")
            if module in PICKLERS and attribute and attribute not in ERRORS:
                yield f"line {node.lineno}: {module}.{attribute}"
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PICKLERS:
            yield from (f"line {node.lineno}: {item.name}" for item in node.names if item.name not in ERRORS)
        if not isinstance(node, ast.Call):
            continue
        name = full_name(node.func, aliases)
        given = {item.arg: item.value for item in node.keywords}

        def is_true(option: str, given: dict[str | None, ast.expr] = given) -> bool:
            return isinstance(value := given.get(option), ast.Constant) and value.value is True

        if name in ("eval", "exec", "builtins.eval", "builtins.exec"):
            yield f"line {node.lineno}: {name}"
        elif name in ("torch.load", "torch.serialization.load") and not is_true("weights_only"):
            yield f"line {node.lineno}: torch.load without weights_only=True"
        elif name in ("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"):
            yield f"line {node.lineno}: {name}"
        elif "allow_pickle" in given and not (
            isinstance(value := given["allow_pickle"], ast.Constant) and value.value is False
        ):
            yield f"line {node.lineno}: allow_pickle"
        elif name in ("numpy.load", "numpy.lib.npyio.load") and len(node.args) > 2:
            yield f"line {node.lineno}: numpy.load with options that are not named"


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_pickles_are_read_and_no_text_is_run(path: Path) -> None:
    assert list(unsafe(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle\npickle.load(file)",
        "import pickle as p\ndef f(file):\n    return p.loads(file)",
        "from pickle import load",
        "from pickle import Unpickler as Reader",
        "import pickle\nread = pickle.Unpickler",
        "import joblib\njoblib.load(path)",
        "import dill, shelve\nshelve.open(path)",
        "import torch\ntorch.load(path)",
        "import torch as t\nt.load(path, weights_only=False)",
        "from torch import load\nload(path, weights_only=safe)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "from numpy import load\nload(path, allow_pickle=anything)",
        "import numpy\nnumpy.load(path, None, True)",
        "import yaml\nyaml.load(file, Loader=yaml.Loader)",
        "eval(text)",
        "def f(text):\n    exec(text)",
    ],
)
def test_the_search_for_pickles_finds_them(source: str) -> None:
    assert len(list(unsafe(source))) == 1


def test_the_search_for_pickles_lets_pass_what_is_safe() -> None:
    source = """
import pickle, numpy as np, torch, yaml
try:
    torch.load(path, weights_only=True)
except pickle.UnpicklingError:
    np.load(path), np.load(path, allow_pickle=False), network.eval(), yaml.safe_load(file)
"""
    assert list(unsafe(source)) == []


def bare_arrays(source: str) -> Iterator[str]:
    """Each annotation of an array that does not say what numbers it holds."""
    for node in ast.walk(ast.parse(source)):
        annotations = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):  # an alias of a type
            annotations.append(node.value)
        for annotation in annotations:
            for part in ast.walk(annotation) if isinstance(annotation, ast.expr) else ():
                if isinstance(part, ast.Attribute) and ast.unparse(part) in ("np.ndarray", "numpy.ndarray"):
                    yield f"line {part.lineno}: {ast.unparse(annotation)}"


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.stem)
def test_arrays_say_what_numbers_they_hold(path: Path) -> None:
    assert list(bare_arrays(path.read_text(encoding="utf-8"))) == []


def test_the_search_for_bare_arrays_finds_them() -> None:
    found = ["def f(a: np.ndarray): ...", "def f() -> list[np.ndarray]: ...", "a: np.ndarray | None = None"]
    assert all(len(list(bare_arrays(source))) == 1 for source in [*found, "F = Callable[[int], np.ndarray]"])
    assert list(bare_arrays("def f(a: FloatArray): return isinstance(a, np.ndarray)")) == []


LONGEST = 70
"""Lines of a function, its docstring among them: about what a screen shows."""


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_function_fits_on_a_screen(path: Path) -> None:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lines = [(node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
    assert [(name, count) for name, count in lines if count > LONGEST] == []


SOURCE = ROOT / "src" / "vhdiffuser"
OURS = ("maze2d", "antmaze", "pointmaze", "locomaze", "cube")
"""Packages of `envs`, each of which knows one family of environments."""
TABLES = {"report/paper.py"}
"""Figures by name of environment: the paper's own table."""


def asks_which_environment(source: str) -> Iterator[str]:
    """Each place where code depends on an environment's name or kind, and not on what its object says."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and "family" in (
            getattr(node, "attr", ""),
            getattr(node, "id", ""),
        ):
            yield f"line {node.lineno}: family"
        if isinstance(node, ast.keyword) and node.arg == "family":
            yield f"line {node.value.lineno}: family"
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            tuple(f"vhdiffuser.envs.{package}.simulator" for package in OURS)
        ):
            yield f"line {node.lineno}: {node.module}"
        if isinstance(node, ast.Compare | ast.Dict | ast.match_case | ast.Call):
            if isinstance(node, ast.Call):
                is_test = isinstance(node.func, ast.Attribute) and node.func.attr in ("startswith", "removeprefix")
                parts: list[ast.expr] = list(node.args) if is_test else []
            elif isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.Dict):
                parts = [key for key in node.keys if key is not None]
            else:
                parts = [item for item in ast.walk(node.pattern) if isinstance(item, ast.expr)]
            texts = [item.value for part in parts for item in ast.walk(part) if isinstance(item, ast.Constant)]
            if any(isinstance(text, str) and text.startswith(OURS) for text in texts):
                yield f"line {parts[0].lineno}: {texts}"


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[:1] != ("envs",)]
    + sorted((SOURCE / "envs").glob("*.py")),
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_only_its_own_package_knows_a_family_of_environments(path: Path) -> None:
    if path.relative_to(SOURCE).as_posix() not in TABLES:
        assert list(asks_which_environment(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        'if spec.family == "own":\n    pass',
        'EnvSpec(name="toy", family="own")',
        'radius = {"maze2d": 0.1}[kind]',
        'if name == "cube":\n    pass',
        'if name in ("antmaze-medium", "cube"):\n    pass',
        'if name.startswith("maze2d-"):\n    pass',
        'match name:\n    case "cube":\n        pass',
        "from vhdiffuser.envs.maze2d.simulator import Maze2dEnv",
    ],
)
def test_the_search_for_families_finds_them(source: str) -> None:
    assert len(list(asks_which_environment(source))) == 1
    assert list(asks_which_environment('planner = load("maze2d-umaze")\nif name == "vhd":\n    pass')) == []
