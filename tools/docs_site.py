"""Hooks of the documentation site (mkdocs.yml): offline mathematics, notebooks as pages, links to source files.

- `$x$` and `$$x$$` become MathML when the site is built, so no page loads a script for them.
- A page that says `<!-- notebook: NAME.ipynb -->` is followed by that notebook of `examples/notebooks`, with outputs.
- A link to a file of the repository outside of docs/ leads to a page that shows the file;
  `process.py#Process.noised` to the place where that name is defined.
"""

from __future__ import annotations

import ast
import base64
import html
import json
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "examples/notebooks"
_LINK = re.compile(r"(?<=\]\()((?:\.\./)+[\w./-]+)(?:#([\w.]+))?(?=\))")
_MATH = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_LANGUAGES = {".py": "python", ".toml": "toml", ".lock": "text", ".ipynb": "json", ".md": "markdown", "": "make"}


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each file of the repository that a page links to, and the pictures of notebooks."""
    from mkdocs.structure.files import File

    shown: set[Path] = set()
    for file in list(files):
        if not file.src_uri.endswith(".md"):
            continue
        text = Path(file.abs_src_path).read_text(encoding="utf-8")
        shown |= {path for link, _ in _LINK.findall(text) if (path := outside(file.src_uri, link)) is not None}
        for name in re.findall(r"<!-- notebook: (\S+) -->", text):
            for picture, content in pictures(NOTEBOOKS / name).items():
                files.append(File.generated(config, picture, content=content))
    for path in sorted(shown):
        files.append(File.generated(config, page_of(path), content=source_page(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put notebooks in, and point links at the pages of source files."""
    source = page.file.src_uri
    markdown = re.sub(r"<!-- notebook: (\S+) -->", lambda found: notebook_page(NOTEBOOKS / found[1]), markdown)

    def point(found: re.Match[str]) -> str:
        path = outside(source, found[1])
        if path is None:
            return found[0]
        target = os.path.relpath(page_of(path), str(PurePosixPath(source).parent))
        return f"{target}#{found[2]}" if found[2] else target

    return _LINK.sub(point, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """TeX to MathML."""

    def mathml(found: re.Match[str]) -> str:
        display = "block" if found[1] == "div" else "inline"
        tex = re.sub(r"\\tag\{(\w+)\}", r"\\qquad (\1)", html.unescape(found[2]))
        return str(convert(tex.strip(), display=display))

    return _MATH.sub(mathml, content)


def outside(source: str, link: str) -> Path | None:
    """The repository's file that a link on a page of docs/ leads to, if it is not in docs/."""
    path = Path(os.path.normpath(ROOT / "docs" / PurePosixPath(source).parent / link))
    if path.is_dir() and (path / "README.md").exists():
        path = path / "README.md"
    inside = path.is_relative_to(ROOT / "docs") or not path.is_relative_to(ROOT)
    return None if inside or not path.is_file() else path


def page_of(path: Path) -> str:
    return f"source/{path.relative_to(ROOT).as_posix()}.md"


def source_page(path: Path) -> str:
    """A page that shows a file: a Python file class by class and function by function, with an anchor for each name."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    page = f"---\nsearch: {{exclude: true}}\n---\n# {name}\n"
    lines = text.splitlines()
    pieces = sections(text) if path.suffix == ".py" else [(1, "", [])]
    language = _LANGUAGES.get(path.suffix, "text")
    for (first, title, names), (end, *_) in zip(pieces, [*pieces[1:], (len(lines) + 1, "", [])], strict=True):
        anchors = "".join(f'<a id="{item}"></a>' for item in names)
        heading = f"## {title} {{ #{title} }}\n\n" if title else ""
        shown = "\n".join(lines[first - 1 : end - 1]).rstrip()
        page += f'\n{heading}{anchors}\n\n````{language} linenums="{first}"\n{shown}\n````\n'
    return page


def sections(text: str) -> list[tuple[int, str, list[str]]]:
    """First line, title and further names of each part of a Python file: what stands before the first class or
    function, then each of them, with the methods of a class and the constants after it."""
    parts: list[tuple[int, str, list[str]]] = [(1, "", [])]
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
            known = {*methods} if isinstance(node, ast.ClassDef) else set()
            parts.append((first, node.name, [f"{node.name}.{item}" for item in sorted(known)]))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts[-1][2].extend(target.id for target in targets if isinstance(target, ast.Name))
    return parts


def notebook_page(path: Path) -> str:
    """A notebook's cells as Markdown: text, code, and what the code printed and drew."""
    parts: list[str] = []
    number = 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = re.sub(r"^# .*\n?", "", text)  # the page has a title of its own
            parts.append(text.replace("](../../docs/", "](../"))
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            printed = "".join(output.get("text", data.get("text/plain", [])))
            if "image/png" in data:
                parts.append(f"![output](images/{path.stem}-{number}.png)")
                number += 1
            elif printed:
                parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts)


def pictures(path: Path) -> dict[str, bytes]:
    """The figures of a notebook, by where the site has them."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found = [
        output["data"]["image/png"]
        for cell in cells
        if cell["cell_type"] == "code"
        for output in cell["outputs"]
        if "image/png" in output.get("data", {})
    ]
    return {f"tutorials/images/{path.stem}-{n}.png": base64.b64decode(png) for n, png in enumerate(found)}
