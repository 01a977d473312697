"""Try the package on every Python of this machine, with the oldest versions it allows and with the newest.

    python tools/check_versions.py                      every Python from 3.10 to 3.14 that is found
    python tools/check_versions.py --pythons 3.12 --versions newest

For each Python a virtual environment is made with uv (`pip install uv`), the core and the extras `web` and
`minari` are installed without building anything from source, and the tests run. What needs the extra
`ogbench` is skipped (`--ogbench` installs it too), and so are the browser and the tests marked slow. The
table at the end says what passed. A CPU build of torch is taken where PyTorch's own index can be reached;
elsewhere every environment has some 5 GB until it is deleted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
"""What is tried, by uv's names: the lower bounds of pyproject.toml, or what is published today."""
EXTRAS = ("web", "minari")
SHOWN = ("torch", "numpy", "scipy", "mujoco", "gymnasium")
TESTS = ("-m", "not slow", "--ignore", "tests/web/test_web_page.py")
UV = (sys.executable, "-m", "uv")


@dataclass(frozen=True)
class Trial:
    """One row of the table."""

    python: str
    """Major and minor version."""
    versions: str
    """`oldest` or `newest`."""
    installed: str
    """Versions of the main packages."""
    outcome: str
    """pytest's last line, or what went wrong before it."""
    passed: bool | None
    """None where it could not be tried."""


def find_python(version: str) -> str | None:
    """Path of an interpreter of that version, from the PATH, uv or pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in sorted(pyenv.glob(f"{version}.*/bin/python")):
        return str(path)
    done = _run([*UV, "python", "find", "--no-python-downloads", "--no-project", version])
    return done.stdout.strip() if done.returncode == 0 else None


def torch_backend() -> list[str]:
    """uv's option for CPU builds, where their index can be reached."""
    option = ["--torch-backend", "cpu"]
    done = _run([*UV, "pip", "compile", "--quiet", *option, "-"], given="torch")
    return option if done.returncode == 0 else []


def attempt(
    version: str, versions: str, extras: tuple[str, ...], hold: list[str], backend: list[str], tests: list[str]
) -> Trial:
    """Install and test in a virtual environment of its own, which is deleted afterwards."""
    python = find_python(version)
    if python is None:
        return Trial(version, versions, "", "no such Python on this machine", None)
    with tempfile.TemporaryDirectory(prefix="vhd-versions-") as folder:
        venv, wanted, held = Path(folder) / "venv", Path(folder) / "wanted.txt", Path(folder) / "held.txt"
        held.write_text("\n".join(hold))
        inside = str(venv / ("Scripts" if os.name == "nt" else "bin") / "python")
        what = ["pyproject.toml", "--constraint", str(held), *(part for extra in extras for part in ("--extra", extra))]
        how = ["--resolution", RESOLUTIONS[versions], "--only-binary", ":all:", "--python", inside, *backend]
        install = [*UV, "pip", "install", "--python", inside, *backend]
        steps = [
            [*UV, "venv", "--python", python, str(venv)],
            [*UV, "pip", "compile", *what, *how, "--output-file", str(wanted)],
            [*install, "--requirement", str(wanted)],
            # The tools of the tests are today's; they may not move what is tried.
            [*install, "--constraint", str(wanted), "--editable", f".[{','.join((*extras, 'dev'))}]"],
        ]
        for step in steps:
            done = _run(step)
            if done.returncode != 0:
                print(done.stderr, file=sys.stderr)
                return Trial(version, versions, "", f"not installed: {_last_line(done.stderr)}", False)
        freeze = dict(line.split("==") for line in wanted.read_text().splitlines() if line[:1].isalnum())
        installed = ", ".join(f"{name} {freeze[name].split()[0]}" for name in SHOWN if name in freeze)
        done = _run([inside, "-m", "pytest", *TESTS, *tests])
        if done.returncode != 0:
            print(done.stdout, done.stderr, file=sys.stderr)
        verdict = _last_line(done.stdout or f"ended by signal or crash ({done.returncode})").strip("= ")
        return Trial(version, versions, installed, verdict, done.returncode == 0)


def table(trials: list[Trial]) -> str:
    """The trials as a Markdown table."""
    words = {True: "passed", False: "FAILED", None: "not tried"}
    rows = [f"| {t.python} | {t.versions} | {words[t.passed]} | {t.outcome} | {t.installed} |" for t in trials]
    return "\n".join(["| Python | versions | | tests | with |", "| --- | --- | --- | --- | --- |", *rows])


def _run(command: list[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was said"])[-1].strip()


def main() -> int:
    """0 if everything that could be tried passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", nargs="+", default=list(PYTHONS), choices=PYTHONS)
    parser.add_argument("--versions", nargs="+", default=list(RESOLUTIONS), choices=list(RESOLUTIONS))
    parser.add_argument("--ogbench", action="store_true", help="with antmaze and cube (Python 3.10 to 3.12)")
    parser.add_argument("--hold", nargs="+", default=[], metavar="torch==2.6.0", help="versions that are not varied")
    parser.add_argument("tests", nargs="*", help="for pytest, after --: for example -- tests/planner -x")
    options = parser.parse_args()
    if _run([*UV, "--version"]).returncode != 0:
        sys.exit("uv is needed: pip install uv")
    extras = (*EXTRAS, "ogbench", "walker") if options.ogbench else EXTRAS
    backend = torch_backend()
    trials = []
    for version in options.pythons:
        for versions in options.versions:
            trials.append(attempt(version, versions, extras, options.hold, backend, options.tests))
            print(table(trials[-1:]).splitlines()[-1], flush=True)
    print("\n" + table(trials))
    return int(any(trial.passed is False for trial in trials))


if __name__ == "__main__":
    sys.exit(main())
