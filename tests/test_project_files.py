"""Citation, changelog, workflows and templates are valid and agree with pyproject.toml and the Makefile."""

from __future__ import annotations

import re
import shutil
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = [path for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
GROUPS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
"""Keep a Changelog's headings of a version's parts."""

sys.path.append(str(ROOT / "tools"))
from release_notes import notes  # noqa: E402


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def load(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def project() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib", reason="pyproject.toml is read with Python 3.11 or newer")
    return tomllib.loads(read("pyproject.toml"))["project"]


def pythons() -> list[str]:
    """Supported versions, as pyproject.toml's classifiers name them."""
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', read("pyproject.toml"))


def test_the_citation_names_this_version_and_the_paper() -> None:
    cited = load(ROOT / "CITATION.cff")
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert cited["version"] == project()["version"]
    assert cited["license"] == project()["license"]
    assert isinstance(cited["date-released"], date)
    paper = cited["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Liu", "Hou", "Li", "Yin"]
    assert paper["title"].startswith("VH-Diffuser: Variable Horizon Diffusion Planner")
    assert paper["url"] == project()["urls"]["Paper"]
    assert "independent" in cited["message"]


def test_the_repository_has_one_address() -> None:
    """It is set in pyproject.toml; every other file repeats it."""
    home = project()["urls"]["Repository"]
    assert load(ROOT / "CITATION.cff")["repository-code"] == home
    assert all(url.startswith(home) for name, url in project()["urls"].items() if name != "Paper")
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "CITATION.cff", ROOT / "pyproject.toml"]
    for page in pages:
        for owner in re.findall(r"https://github\.com/([\w.-]+)/vhdiffuser\b", page.read_text(encoding="utf-8")):
            assert owner == "YOUR-NAME" or f"https://github.com/{owner}/vhdiffuser" == home, page.name


def test_the_changelog_keeps_its_form() -> None:
    text = read("CHANGELOG.md")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    released = [re.fullmatch(r"\[?(\d+\.\d+\.\d+)\]? - (\d{4}-\d\d-\d\d)", heading) for heading in versions[1:]]
    assert all(released), versions
    dates = [date.fromisoformat(found[2]) for found in released if found]
    assert dates == sorted(dates, reverse=True)
    assert released[0] is not None
    assert released[0][1] == project()["version"]
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= GROUPS
    for name in re.findall(r"^## \[(.+?)\]", text, re.MULTILINE):
        assert f"\n[{name}]: https://" in text, f"[{name}] has no link"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A copy of the files that a release is checked by."""
    for name in ("pyproject.toml", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_release_notes_are_the_section_of_the_tag(release: Path) -> None:
    version = load(ROOT / "CITATION.cff")["version"]
    text = notes(f"v{version}", release)
    assert text.startswith("### ")
    assert "## [" not in text
    assert "]: https://" not in text
    assert text in read("CHANGELOG.md")


def test_a_tag_that_is_not_ready_is_refused(release: Path) -> None:
    version = load(ROOT / "CITATION.cff")["version"]
    with pytest.raises(SystemExit, match=f"the tag must be v{version}"):
        notes("v99.0.0", release)
    edit(release / "CITATION.cff", f"version: {version}", "version: 0.0.1")
    with pytest.raises(SystemExit, match="Make them agree"):
        notes(f"v{version}", release)
    edit(release / "CHANGELOG.md", f"## [{version}] - ", f"## [{version}], unreleased ")
    with pytest.raises(SystemExit, match="Write it before you tag"):
        notes(f"v{version}", release)


def test_the_security_policy_supports_this_version() -> None:
    major_minor = ".".join(project()["version"].split(".")[:2])
    assert f"| {major_minor}.x | yes |" in read("SECURITY.md")


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    return load(path)["jobs"]


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job.get("steps", [])]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_well_formed_and_has_few_rights(path: Path) -> None:
    workflow = load(path)
    assert {"name", True, "permissions", "jobs"} <= set(workflow), "YAML reads the key `on` as true"
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in jobs(path).items():
        assert ("uses" in job) != ("runs-on" in job), name
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file(), job["uses"]
        else:
            assert job["timeout-minutes"] <= 90, name
        for other in job.get("needs", []):
            assert other in jobs(path), other
    for step in steps(path):
        assert ("uses" in step) != ("run" in step), step
        if "uses" in step:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+)", step["uses"]), step["uses"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_exists(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    for step in steps(path):
        for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
            assert target in targets, target
        for file in re.findall(r"\b(?:tools|tests)/[\w/]+\.py", step.get("run", "")):
            assert (ROOT / file).is_file(), file


def test_ci_covers_the_supported_pythons_on_linux_and_macos() -> None:
    matrix = jobs(ROOT / ".github/workflows/ci.yml")["test"]["strategy"]["matrix"]
    assert matrix["python"] == pythons()
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]


def test_ci_tries_the_oldest_and_the_newest_dependencies() -> None:
    trials = jobs(ROOT / ".github/workflows/ci.yml")["versions"]["strategy"]["matrix"]["include"]
    ends = (pythons()[0], pythons()[-1])
    assert sorted((trial["versions"], trial["python"]) for trial in trials) == sorted(
        (versions, python) for versions in ("oldest", "newest") for python in ends
    )


def test_ci_audits_dependencies_and_a_release_has_a_bill_of_materials() -> None:
    run = [step.get("run", "") for step in jobs(ROOT / ".github/workflows/ci.yml")["audit"]["steps"]]
    assert {"make audit PYTHON=python", "make sbom PYTHON=python"} <= set(run)
    package = " ".join(step.get("run", "") for step in steps(ROOT / ".github/workflows/package.yml"))
    assert re.search(r"cyclonedx-py environment .* --output-file sbom\.cdx\.json", package)
    assert "release/sbom.cdx.json" in read(".github/workflows/release.yml")


def test_only_the_job_that_publishes_may_ask_pypi_for_a_token() -> None:
    found = jobs(ROOT / ".github/workflows/release.yml")
    assert load(ROOT / ".github/workflows/release.yml")[True] == {"push": {"tags": ["v*"]}}
    assert found["pypi"]["permissions"] == {"id-token": "write"}
    assert {"notes", "package"} <= set(found["pypi"]["needs"])
    assert [name for name, job in found.items() if "id-token" in job.get("permissions", {})] == ["pypi"]
    text = read(".github/workflows/release.yml")
    assert "secrets." not in text
    assert "password" not in text


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_asks_questions_with_ids_of_their_own(path: Path) -> None:
    form = load(path)
    assert {"name", "description", "labels", "body"} <= set(form)
    questions = [item for item in form["body"] if item["type"] != "markdown"]
    assert {item["type"] for item in questions} <= {"input", "textarea", "dropdown", "checkboxes"}
    names = [item["id"] for item in questions]
    assert len(names) == len(set(names)) > 0
    assert all(item["attributes"]["label"] for item in questions)
    assert any(item.get("validations", {}).get("required") for item in questions)


def test_pre_commit_runs_the_tools_of_make_check() -> None:
    [repo] = load(ROOT / ".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"] for hook in repo["hooks"]]
    for tool in re.findall(
        r"\$\(BIN\)/(\S+(?: format| check)?)", read("Makefile").split("\ncheck:")[1].split("\n\n")[0]
    ):
        assert any(entry.startswith(f".venv/bin/{tool}") for entry in entries), tool


def test_the_walk_through_in_contributing_is_the_code() -> None:
    """Its snippets are lines of the repository, so that they cannot go stale."""
    code = read("src/vhdiffuser/trajectories/rollout.py") + read("tests/trajectories/test_plan.py")
    snippets = re.findall(r"^```py\n(.*?)^```", read("CONTRIBUTING.md"), re.MULTILINE | re.DOTALL)
    assert len(snippets) == 2
    assert all(snippet in code for snippet in snippets)


def test_make_setup_installs_every_extra() -> None:
    """So no test is skipped for want of a package after `make setup`."""
    recipe = read("Makefile").split("\n$(STAMP):")[1].split("\n\n")[0]
    found = re.search(r"-e '\.\[([^\]]+)\]'", recipe)
    assert found is not None
    ogbench = {"ogbench", "walker"}  # only where labmaze has wheels
    assert set(found[1].replace("$(OGBENCH)", "").split(",")) | ogbench == set(project()["optional-dependencies"])
