"""Print the changelog section of a release, and refuse a tag that is not ready to be published.

    python tools/release_notes.py v0.2.0

The tag must be `v` and the version in pyproject.toml; the changelog must have a dated section for that version, with
something in it; CITATION.cff must name the same version and date. The release workflow runs this before it builds.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes(tag: str, root: Path = ROOT) -> str:
    """The text of the changelog's section for a tag."""
    version = _field(root / "pyproject.toml", r'^version = "(.+)"$')
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, but pyproject.toml has version {version}: the tag must be v{version}.")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$(.*?)(?=^## |^\[.+\]: |\Z)",
        changelog,
        re.MULTILINE | re.DOTALL,
    )
    if found is None or not found[2].strip():
        sys.exit(f"CHANGELOG.md has nothing under a heading '## [{version}] - YYYY-MM-DD'. Write it before you tag.")
    cited = [_field(root / "CITATION.cff", rf"^{name}: (.+)$") for name in ("version", "date-released")]
    if cited != [version, found[1]]:
        sys.exit(f"CITATION.cff has version and date {cited}, the changelog {[version, found[1]]}. Make them agree.")
    return found[2].strip()


def _field(path: Path, pattern: str) -> str:
    found = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        sys.exit(f"{path.name}: no line that matches {pattern}")
    return found[1]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(notes(sys.argv[1]))
