"""The picture of the architecture shows the layers that the import contract has, and every module there is."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tools/draw_architecture.py"))


def test_the_picture_is_what_the_contract_says() -> None:
    pytest.importorskip("tomllib", reason="pyproject.toml is read with Python 3.11 or newer")
    drawn = TOOL["draw"](TOOL["read_layers"]())
    assert TOOL["PICTURE"].read_text(encoding="utf-8") == drawn, "run python tools/draw_architecture.py"


def test_every_module_is_in_the_picture_once() -> None:
    source = ROOT / "src/vhdiffuser"
    modules = {path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    picture = ElementTree.fromstring(TOOL["PICTURE"].read_text(encoding="utf-8"))
    shown = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text") if text.get("class") == "module"]
    assert sorted(filter(None, shown)) == sorted(modules - {"__init__"})
