"""No page shows a command that does not exist: all are parsed by the real parsers, and the quick ones are run.

A page is read as a script: its commands and its Python blocks run in order, in a folder and a cache of their own. Where
the page's own command takes long, it runs with a tiny size (`tiny`); what needs hours, a server or a file that we
do not have is parsed only.
"""

from __future__ import annotations

import argparse
import functools
import io
import itertools
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from vhdiffuser import cli
from vhdiffuser.envs import registry
from vhdiffuser.weights.places import shipped_environments

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples/README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "report.md"),
]
SOURCES = [
    *sorted((ROOT / "src/vhdiffuser/cli").glob("*.py")),
    *sorted((ROOT / "examples").glob("*.py")),
    *sorted((ROOT / "examples/planners").glob("*.py")),
]
"""Their docstrings show commands, too."""

PREFIXES = ("vhd ", "python benchmarks/", "python examples/", "make ")
SHELLS = ("", "sh", "bash", "shell", "console", "text")
PLACEHOLDERS = {
    "ENV": "maze2d-umaze",
    "NAME": "mine",
    "FILE": "mine.npz",
    "DIR": "results",
    "N": "10",
    "S": "1",
    "H": "64",
    "P": "8000",
}
TRAINED = ("maze2d-umaze", "maze2d-large")
LOOP = ["--updates", "2", "--log-every", "1", "--warmup", "1", "--threads", "1", "--quiet"]
UNET = ["--dim", "8", "--batch-size", "2"]


@dataclass(frozen=True)
class Step:
    """One command, or one block of Python, on a page."""

    page: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def steps_of(path: Path) -> list[Step]:
    """Commands in indented and fenced blocks, and Python blocks, in order."""
    page, steps, fence, block, first = str(path.relative_to(ROOT)), [], None, [], 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            if fence == "python":
                steps.append(Step(page, first, "python", "\n".join(block)))
            fence, block, first = (line[3:].strip() if fence is None else None), [], number
        elif fence is not None:
            block.append(line)
        if fence in SHELLS or (fence is None and line.startswith("    ")):
            text = line.strip().removeprefix("$ ")
            if text.startswith(PREFIXES):
                steps.append(Step(page, number, "command", text))
    return steps


def inline_of(path: Path) -> list[Step]:
    """Commands in running text: `vhd envs --json`."""
    text, page = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
    found = re.finditer(r"(?<!`)`((?:vhd|make|python) [^`\n]+)`(?!`)", text)
    return [
        Step(page, text[: match.start()].count("\n") + 1, "command", match[1])
        for match in found
        if match[1].startswith(PREFIXES) and "{" not in match[1]
    ]


def shown_in(path: Path) -> list[Step]:
    """Commands in a source file's docstrings and help texts."""
    page = str(path.relative_to(ROOT))
    return [
        Step(page, number, "command", match[1].strip())
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (match := re.fullmatch(r'\s+(?:Example: )?((?:vhd|python examples/)[ \w].*?)(?:""")?', line))
        and match[1].startswith(PREFIXES)
    ]


def variants(text: str) -> list[list[str]]:
    """The command lines that a shown command stands for: comments cut, placeholders filled, a|b as two."""
    shown = re.split(r"\s{2,}|\s#\s|\s>\s|\s&$", text)[0].replace("[", "").replace("]", "")
    words = [word for word in shlex.split(shown) if word != "..."]
    choices = [[PLACEHOLDERS.get(choice, choice) for choice in word.split("|")] for word in words]
    return [list(line) for line in itertools.product(*choices)]


def is_usage(text: str) -> bool:
    """Whether a command is a pattern, not one to type."""
    return any(mark in text for mark in "[]|") or any(word in PLACEHOLDERS for word in text.split())


def check(words: list[str]) -> None:
    """Have the command's own parser accept it, without running it."""
    program, *rest = words
    if program == "vhd":
        if rest[0] in ("--help", "--version"):
            return
        assert rest[0] in cli.COMMANDS, f"no command '{rest[0]}'"
        assert parses(rest), "refused by its parser"
    elif program == "make":
        done = subprocess.run(["make", "--dry-run", *rest], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    else:
        script, *options = rest
        assert (ROOT / script).is_file(), f"no file '{script}'"
        if options and script.startswith("benchmarks/"):
            check_script(ROOT / script, options)


def parses(words: list[str]) -> bool:
    """Whether a command's parser takes these words; `--env REF` is taken before it, unless it is the command's own."""
    own = re.search(r"(?m)^\W*--env\b", help_text((words[0],)))
    try:
        cli.parse(words[0], words[1:] if own else without(words[1:], "--env"))
    except SystemExit as stop:
        return not stop.code
    return True


def check_mention(words: list[str], help_of: Callable[[list[str]], str]) -> None:
    """A mention in running text may leave out what a command needs, but not name what there is not."""
    if words[0] != "vhd" or words[1].startswith("-") or parses(words[1:]):
        check(words)
        return
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), words[1:]))
    text = help_of([*names, "--help"])
    unknown = [word for word in words if word.startswith("--") and word not in text]
    assert not unknown, f"{' '.join(names)} has no {', '.join(unknown)}"


def check_script(path: Path, options: list[str]) -> None:
    """Start a script of ours, and stop it when it has parsed its options."""

    class Parsed(Exception):
        pass

    def parse_and_stop(self, args=None, namespace=None):
        parse(self, args, namespace)
        raise Parsed

    parse = argparse.ArgumentParser.parse_args
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
        patch.setattr(sys, "argv", [str(path), *options])
        patch.syspath_prepend(str(path.parent))  # as Python does for a script
        with pytest.raises(Parsed):
            runpy.run_path(str(path), run_name="__main__")


def tiny(words: list[str], folder: Path) -> list[str] | None:
    """The same command in seconds; None for one that is not run here."""
    command, rest = words[1], words[2:]
    here = any(name in rest for name in TRAINED) or ("walks" in rest and (folder / "home/data/walks").exists())
    here |= any(":" in word and (folder / word.split(":")[0]).is_file() for word in rest)  # a file of the page's
    if "--ray" in rest and find_spec("ray") is None:
        return None
    if "--planner" in rest and not any((folder / word.partition(":")[0]).is_file() for word in rest if ":" in word):
        return None
    match command, rest[:1]:
        case "envs" | "completion" | "--help" | "--version" | "report", _:
            return words[1:]
        case _, _ if "--help" in rest:
            return words[1:]
        case "data", ["get"] if here:
            return [*words[1:], *([] if "--source" in rest else ["--source", "build"]), "--size", "4000", "--quiet"]
        case "data", ["info" | "draw"] if here:
            return words[1:]
        case "data", ["import"] if (folder / rest[2]).exists():
            return words[1:]
        case "train", ["planner"] if here:
            return [*without(words[1:], "--updates", "--minutes"), *UNET, *LOOP]
        case "train", ["length" | "dynamics"] if here:
            return [*without(words[1:], "--updates", "--minutes"), *LOOP]
        case "plan", _ if here:
            return [*words[1:], *([] if "--steps" in rest else ["--steps", "2"])]
        case "bench", _ if here and "fh-lp" not in rest:
            methods = [] if "--methods" in rest else ["--methods", "vhd"]
            quick = ["--steps", "2", "--n", "2", "--keep", "1", "--workers", "1", "--quiet"]
            return [*without(words[1:], "--n", "--gamma"), *methods, *quick]
        case "reproduce", _:
            return [*words[1:], "--dry-run"]
        case "eval-length", _ if here and "--runs" not in rest:
            return [*words[1:], "--pairs", "20", "--goals", "1"]
        case "models", ["export", *_] if here:
            given = words[1:] != without(words[1:], "--out")  # otherwise it writes to out/models, here
            return [*without(words[1:], "--out"), *(("--out", str(folder / "exported")) if given else ())]
        case "models", _:
            return words[1:] if "export" not in rest else None
        case "demo", _ if (rest[0] if rest else "maze2d-large") in shipped_environments():
            return [*without(words[1:], "--n"), "--n", "2", "--workers", "1", "--quiet"]
    return None


def without(words: list[str], *options: str) -> list[str]:
    """The command less these options and their values."""
    dropped = {index + offset for index, word in enumerate(words) if word in options for offset in (0, 1)}
    return [word for index, word in enumerate(words) if index not in dropped]


def runs_here(code: str, folder: Path) -> bool:
    """Whether a Python block is whole, and needs no server and no weights but shipped ones and the page's own."""
    needed = set(re.findall(r'load_planner\("([\w-]+)"', code)) - set(shipped_environments())
    trained = all((folder / "home/runs" / name).is_dir() for name in needed)
    return code.startswith(("import", "from")) and "http" not in code and trained


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A folder with a cache of tiny datasets and models, and results of two instances."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(folder / "home"))
        patch.chdir(folder)
        for name in TRAINED:
            assert cli.run(["data", "get", name, "--source", "build", "--size", "4000", "--quiet"]) == 0
            assert cli.run(["train", "planner", name, *UNET, *LOOP]) == 0
            assert cli.run(["train", "length", name, *LOOP]) == 0
        bench = tiny(["vhd", "bench", "maze2d-umaze"], folder)
        assert bench is not None
        assert cli.run(bench) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_shown_is_accepted_by_its_parser(path, capsys):
    def help_of(words: list[str]) -> str:
        capsys.readouterr()
        assert cli.run(words) == 0, "no such command"
        return capsys.readouterr().out

    for step in steps_of(path) if path.suffix == ".md" else shown_in(path):
        if step.kind == "python":
            compile(step.text, str(step), "exec")
            continue
        for words in variants(step.text):
            try:
                check(words)
            except AssertionError as error:
                pytest.fail(f"{step}: {error}\n{capsys.readouterr().err}")
    for step in inline_of(path) if path.suffix == ".md" else []:
        for words in variants(step.text):
            try:
                check_mention(words, help_of)
            except AssertionError as error:
                pytest.fail(f"{step}: {error}")


@functools.cache
def help_text(command: tuple[str, ...]) -> str:
    """A command's own help; empty for words that are no command."""
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()):
        known = cli.run([*command, "--help"]) == 0
    return printed.getvalue() if known else ""


def options_of(command: tuple[str, ...]) -> set[str]:
    """The options that a command's own help names."""
    return set(re.findall(r"--[a-z][\w-]*", help_text(command)))


def commands_on(path: Path) -> set[tuple[str, ...]]:
    """The `vhd` commands that a page shows: ("train", "planner")."""
    found = set()
    for step in (*steps_of(path), *inline_of(path)):
        if step.kind == "command" and step.text.startswith("vhd "):
            for words in variants(step.text):
                depth = 2 if words[1] in ("data", "train") or words[1:3] == ["models", "export"] else 1
                found.add(tuple(words[1 : 1 + depth]))
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_option_named_alone_is_one_of_a_command_on_its_page(path):
    """`--smoothing 0` in running text: some `vhd` command that the page shows must have it."""
    known = {"--env"}.union(*(options_of(command) for command in commands_on(path)))
    text = path.read_text()
    for match in re.finditer(r"(?<!`)`(--[a-z][^`\n]*)`(?!`)", text):
        unknown = set(re.findall(r"--[a-z][\w-]*", match[1])) - known
        line = text[: match.start()].count("\n") + 1
        assert not unknown, f"{path.name}:{line}: no command on this page has {', '.join(sorted(unknown))}"


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_quick_commands_of_a_page_run(path, prepared, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "work"
    shutil.copytree(prepared, folder)
    monkeypatch.setenv("VHD_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    for step in steps_of(path):
        if step.kind == "python":
            if file := re.match(r"# (\w+\.py)\n", step.text):  # the page shows a file
                (folder / file[1]).write_text(step.text, encoding="utf-8")
            elif runs_here(step.text, folder):
                exec(compile(step.text, str(step), "exec"), {"__name__": "page"})
            continue
        (words, *_) = variants(step.text)
        command = tiny(words, folder) if words[0] == "vhd" and not is_usage(step.text) else None
        if command is not None:
            if command[0] == "bench":  # rows of models that the page has trained again since would be refused
                shutil.rmtree(folder / "results", ignore_errors=True)
            with pytest.MonkeyPatch.context() as patch:  # a command is a process: it leaves no registration behind
                patch.setattr(registry._environments, "_values", dict(registry._environments._values))
                assert cli.run(command) == 0, f"{step}\nran as: vhd {shlex.join(command)}\n{capsys.readouterr().err}"
            if "--ray" in command:  # started in this process, and of no use to other tests
                import ray

                ray.shutdown()


def test_the_pages_hold_commands_to_check():
    """So that a change of style does not quietly empty the tests above."""
    assert sum(len(steps_of(path)) for path in PAGES) > 30
    assert sum(len(shown_in(path)) for path in SOURCES) > 20
    assert variants("vhd data get ENV [--source auto|build]   text") == [
        ["vhd", "data", "get", "maze2d-umaze", "--source", choice] for choice in ("auto", "build")
    ]
    with pytest.raises(AssertionError, match="refused"):
        check(["vhd", "envs", "--colour"])


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_json_quiet_and_examples(name, capsys):
    """`--json` wherever there is a result; `--quiet` wherever there is progress; an example in every help."""
    parts = {
        "data": ("get", "build", "info", "import", "draw", "walker"),
        "train": ("planner", "length", "dynamics"),
        "recipes": ("show",),
        "analyse": ("crops", "strides", "mismatch", "lengths", "terms", "seeds", "curve"),
    }
    long = {
        "get",
        "build",
        "walker",
        "planner",
        "length",
        "dynamics",
        "bench",
        "demo",
        "eval-length",
        "reproduce",
        "serve",
    }
    for part in parts.get(name, ("",)):
        assert cli.run([name, *([part] if part else []), "--help"]) == 0
        text = capsys.readouterr().out
        assert re.search(r"Examples?:", text), f"{name} {part}: no example"
        assert "--json" in text or name == "completion", f"{name} {part}: no --json"
        assert "--quiet" in text or (part or name) not in long, f"{name} {part}: no --quiet"
