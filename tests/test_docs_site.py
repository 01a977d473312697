"""The documentation site: built offline, no broken links, every public name, mathematics without scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vhdiffuser

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def test_every_public_name_has_its_place_in_the_reference() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: vhdiffuser\.(\w+)$", text, re.MULTILINE)
    assert set(vhdiffuser.__all__) <= set(shown)
    assert len(shown) == len(set(shown))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every warning an error: pages without a place, and links and anchors that lead nowhere."""
    pytest.importorskip("mkdocs", reason="the extra 'docs' is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra 'docs' is not installed")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        env={
            **os.environ,
            "NO_MKDOCS_2_WARNING": "1",
            "http_proxy": "http://127.0.0.1:9",
            "https_proxy": "http://127.0.0.1:9",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.slow
def test_the_site_has_every_page_and_every_public_name(site: Path) -> None:
    pages = [page.relative_to(DOCS) for page in DOCS.rglob("*.md")]
    missing = [page for page in pages if not (site / page.with_suffix(".html")).exists()]
    assert {page.name for page in missing} <= {"README.md"}, missing  # decisions/README.md is decisions/index.html
    reference = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    anchors = set(re.findall(r'id="(vhdiffuser[\w.]*)"', reference))
    assert {f"vhdiffuser.{name}" for name in vhdiffuser.__all__} <= anchors


@pytest.mark.slow
def test_equations_are_mathml_and_lead_to_code(site: Path) -> None:
    page = (site / "how_it_works.html").read_text(encoding="utf-8")
    assert page.count('display="block"') >= 14, "the paper's equations"
    assert "arithmatex" not in page, "TeX is left"
    assert "source/src/vhdiffuser/diffusion/process.py.html#Process.noised" in page
    source = (site / "source/src/vhdiffuser/diffusion/process.py.html").read_text(encoding="utf-8")
    assert 'id="Process.noised"' in source


@pytest.mark.slow
def test_notebooks_are_shown_with_their_outputs(site: Path) -> None:
    page = (site / "tutorials/1-plan-and-execute.html").read_text(encoding="utf-8")
    shown = re.findall(r'src="(images/plan_and_execute-\d+.png)"', page)
    assert len(shown) >= 4
    assert all((site / "tutorials" / picture).stat().st_size > 1000 for picture in shown)


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r'<(?:script|img|iframe|source)[^>]*src="(https?:[^"]+)|<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="(https?:)'
    )
    found = {str(page): loads.findall(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    assert len(found) > 50
    assert not {page: urls for page, urls in found.items() if urls}
