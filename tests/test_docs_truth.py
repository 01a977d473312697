"""What the pages claim about the code is so: names and files exist, links lead somewhere, quoted errors are real."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "vhdiffuser"
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples/README.md",
    ROOT / "examples/my_robot_package/README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "report.md"),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".py":
            assert anchor in names_in(file), f"{page.name}: {target}"
        elif anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings], target


@pytest.mark.parametrize("page", [ROOT / "docs/architecture.md", *DECISIONS], ids=lambda page: page.name)
def test_files_of_the_architecture_are_there(page: Path) -> None:
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", page.read_text(encoding="utf-8")):
        if "FAMILY" not in name:
            assert (SOURCE / name).exists() or (ROOT / name).exists(), name


def test_every_decision_is_listed_and_has_its_parts() -> None:
    listed = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    for page in DECISIONS:
        text = page.read_text(encoding="utf-8")
        if page.name != "README.md":
            assert f"({page.name})" in listed
            assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences")), page.name


def test_every_name_beside_an_equation_is_in_the_file_named() -> None:
    rows = [
        line
        for line in (ROOT / "docs/how_it_works.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    checked = 0
    for row in rows:
        files = re.findall(r"`([\w/]+\.py)`", row)
        if not files:
            continue
        known = set().union(*(names_in(SOURCE / file) for file in files))
        names = re.findall(r"`([A-Za-z_][\w.]*)`", row.split("|")[-2])
        assert names, row
        assert not [name for name in names if name not in known], row
        checked += len(names)
    assert checked > 50


def names_in(file: Path) -> set[str]:
    """Functions, classes, methods (`Class.method`) and constants of a file."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@cache
def messages() -> tuple[list[re.Pattern[str]], set[str]]:
    """Every f-string of the source as a pattern, and every plain string."""
    patterns, plain = [], set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [re.escape(v.value) if isinstance(v, ast.Constant) else "(.+?)" for v in node.values]
                if sum(len(part) for part in parts) > 20:  # enough words to tell one message from another
                    patterns.append(re.compile("".join(parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                plain.add(node.value)
    return patterns, plain


def is_real(quote: str) -> bool:
    patterns, plain = messages()
    if quote in plain or any(pattern.fullmatch(quote) for pattern in patterns):
        return True
    heads = (pattern.match(quote) for pattern in patterns)
    return any(head is not None and quote[head.end() :] in plain - {""} for head in heads)


def test_quoted_errors_are_what_the_code_says() -> None:
    quotes = re.findall(
        r"^> (?:vhd: )?(?:warning: )?(.+)$",
        (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(quotes) > 20
    assert not [quote for quote in quotes if not is_real(quote)]
    assert not is_real("the flux capacitor is empty. Fill it.")
    assert not is_real(quotes[0] + " Or not.")
