"""What pyproject.toml and the lock file say: declared is used, used is declared, extras are optional."""

from __future__ import annotations

import ast
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from vhdiffuser import errors
from vhdiffuser.errors import MissingExtraError, needs_extra

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
from constraints import without_hashes

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
DISTRIBUTIONS = {
    "PIL": "pillow",
    "gymnasium_robotics": "gymnasium-robotics",
    "huggingface_hub": "huggingface-hub",
    "stable_baselines3": "stable-baselines3",
    "typing_extensions": "typing-extensions",
    "yaml": "pyyaml",
}
"""Where the name that is imported is not the name that is installed."""
BEHIND_OTHERS = {"httptools": "uvicorn", "shtab": "tyro", "httpx": "fastapi.testclient"}
"""What is declared for the sake of a module that imports it itself."""
TOOLS = {"pytest", "pytest-xdist", "setuptools", "ruff", "mypy", "import-linter", "mkdocs-material", "mkdocstrings"}
"""Run, not imported."""

WORKSHOP = {"dev", "docs", "robotics"}
"""Extras of those who work on the project, and of examples: the package itself uses nothing of them."""


def required() -> list[tuple[str, Requirement]]:
    """Every (extra, requirement) of pyproject.toml; the core's extra is ''."""
    tomllib = pytest.importorskip("tomllib", reason="pyproject.toml is read with Python 3.11 or newer")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    found = [(extra, Requirement(text)) for extra, texts in groups.items() for text in texts]
    return [(extra, requirement) for extra, requirement in found if requirement.name != "vhdiffuser"]


def declared() -> dict[str, set[str]]:
    """Distribution -> the extras that bring it ('' is the core)."""
    found: dict[str, set[str]] = {}
    for extra, requirement in required():
        found.setdefault(requirement.name, set()).add(extra)
    return found


def imported(folder: str) -> set[str]:
    """Distributions whose modules the files of a folder import, and modules in `BEHIND_OTHERS`."""
    modules: set[str] = set()
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
                modules.add(ast.literal_eval(node.args[0]))
    ours = {path.stem for path in (ROOT / folder).rglob("*.py")} | {"vhdiffuser"}
    roots = {name.split(".")[0] for name in modules} - set(sys.stdlib_module_names) - ours
    behind = {name for name, module in BEHIND_OTHERS.items() if module in modules}
    return {DISTRIBUTIONS.get(name, name).lower() for name in roots} | behind


def test_what_the_package_imports_is_declared() -> None:
    core_and_extras = {name for name, extras in declared().items() if not extras <= WORKSHOP}
    assert imported("src") <= core_and_extras


def test_what_is_declared_is_used() -> None:
    inside = imported("src")
    anywhere = (
        inside | TOOLS | {name for part in ("tests", "tools", "benchmarks", "examples") for name in imported(part)}
    )
    for name, extras in declared().items():
        assert name in (anywhere if extras <= WORKSHOP else inside), f"{name} is declared and not used"


def lock() -> list[Requirement]:
    lines = without_hashes((ROOT / "requirements.lock").read_text()).splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_one_allowed_version_of_everything_declared(python: str) -> None:
    here = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    pinned = [line for line in lock() if line.marker is None or line.marker.evaluate(here)]
    names = [line.name for line in pinned]
    assert len(names) == len(set(names))
    versions = {line.name: Version(next(iter(line.specifier)).version) for line in pinned}
    for _, requirement in required():
        assert versions[requirement.name] in requirement.specifier, requirement


def test_the_lock_has_hashes_of_everything() -> None:
    joined = (ROOT / "requirements.lock").read_text().replace("\\\n", " ").splitlines()
    assert [line.split()[0] for line in joined if "--hash=sha256:" not in line] == []
    assert without_hashes("a==1 \\\n    --hash=sha256:0 \\\n    --hash=sha256:1\nb==2 ; x\n") == "a==1\nb==2 ; x\n"


def test_the_lock_leaves_cuda_to_torch() -> None:
    assert not [line.name for line in lock() if line.name.startswith(("nvidia", "cuda", "triton"))]


WITHOUT = """
import sys
extras = ("ogbench", "dm_control", "fastapi", "uvicorn", "minari", "stable_baselines3", "huggingface_hub")
sys.modules.update(dict.fromkeys(extras))
from vhdiffuser.cli import run
sys.exit(run(sys.argv[1:]))
"""


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process in which no extra can be imported."""
    return subprocess.run([sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["envs"], ["models"], ["plan", "maze2d-umaze", "--start", "1", "1", "--goal", "3", "1", "--json"]],
    ids=lambda arguments: arguments[0],
)
def test_the_core_works_without_extras(arguments: list[str]) -> None:
    done = without_extras(*arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["demo", "antmaze-medium", "--n", "1"], "ogbench"),
        (["plan", "cube", "--start", "0", "0", "2", "--goal", "1", "1", "2"], "ogbench"),
        (["bench", "cube", "--methods", "vhd", "--n", "1"], "ogbench"),
        (["data", "get", "antmaze-medium", "--source", "build", "--size", "1000"], "ogbench"),
        (["data", "get", "cube", "--source", "build", "--size", "1000"], "ogbench"),
        (["data", "walker"], "walker"),
        (["serve", "--no-browser"], "web"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else value,
)
def test_a_missing_extra_is_named_with_its_command(arguments: list[str], extra: str) -> None:
    done = without_extras(*arguments)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("vhd: ")
    assert f"needs the extra '{extra}': pip install 'vhdiffuser[{extra}]'" in last
    assert "Traceback" not in done.stderr


def test_an_extra_that_this_python_cannot_have_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(errors.NEWEST_PYTHON, "ogbench", (3, 9))
    assert str(MissingExtraError("ogbench", "cube")).endswith("[ogbench]' (in Python 3.9 or older)")
    monkeypatch.setitem(errors.NEWEST_PYTHON, "ogbench", sys.version_info[:2])
    assert str(MissingExtraError("ogbench", "cube")).endswith("[ogbench]'")


def test_only_a_missing_module_is_a_missing_extra() -> None:
    with pytest.raises(ImportError, match="libGL"), needs_extra("ogbench", "cube"):
        raise ImportError("libGL.so.1: cannot open shared object file")
    with pytest.raises(MissingExtraError, match="cube needs"), needs_extra("ogbench", "cube"):
        raise ModuleNotFoundError("No module named 'ogbench'")


def test_the_lock_has_what_its_packages_need_in_turn() -> None:
    """Of every locked package that is installed here, the lock has its own requirements, too."""
    locked = {canonicalize_name(line.name) for line in lock()}
    missing = set()
    for name in locked:
        with suppress(metadata.PackageNotFoundError):
            for text in metadata.requires(name) or ():
                needed = Requirement(text)
                cuda = needed.name.startswith(("nvidia", "cuda", "triton"))  # torch's own affair
                applies = needed.marker is None or needed.marker.evaluate({"extra": ""})
                if applies and not cuda and canonicalize_name(needed.name) not in locked:
                    missing.add(f"{name} needs {needed.name}")
    assert missing == set()
