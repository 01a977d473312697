"""A table that grows row by row, saved after each row as JSON (to resume from) and Markdown (to read)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path
from vhdiffuser.report.tables import Table


@dataclass(frozen=True)
class Column:
    """One column of the Markdown table."""

    key: str
    """Key of the value in a row."""
    title: str
    """Heading."""
    form: str = ""
    """Number format, as in `format(value, form)`."""

    def text(self, row: dict[str, Any]) -> str:
        """Cell text for a row; a dash if it has no value."""
        value = row.get(self.key)
        return "-" if value is None else format(value, self.form)


class Comparison:
    """Rows of a comparison, one per key, saved in `path` (JSON) and next to it (Markdown)."""

    def __init__(self, path: Path, key: tuple[str, ...], columns: Sequence[Column], heading: str = "") -> None:
        """`key` lists the fields that identify a row; rows already in the file are kept."""
        self.path, self.key, self.columns, self.heading = path, key, tuple(columns), heading
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            self.rows = _read(path, key)

    @property
    def markdown_path(self) -> Path:
        """Path of the Markdown table."""
        return self.path.with_suffix(".md")

    def find(self, **values: Any) -> dict[str, Any] | None:
        """The row with these values; None if there is none."""
        return next((row for row in self.rows if all(row.get(k) == v for k, v in values.items())), None)

    def put(self, row: dict[str, Any]) -> None:
        """Add a row, or replace the one with its key, and write both files."""
        same = [self._key(old) == self._key(row) for old in self.rows]
        if any(same):
            self.rows[same.index(True)] = row
        else:
            self.rows.append(row)
        with atomic_path(self.path) as temporary:
            temporary.write_text(json.dumps(self.rows, indent=1) + "\n")
        with atomic_path(self.markdown_path) as temporary:
            temporary.write_text(self.markdown())

    def table(self) -> Table:
        """The rows as a table."""
        body = tuple(tuple(column.text(row) for column in self.columns) for row in self.rows)
        return Table(tuple(column.title for column in self.columns), body)

    def markdown(self) -> str:
        """Heading and table."""
        table = self.table().markdown()
        return f"{self.heading}\n\n{table}" if self.heading else table

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in self.key)


def _read(path: Path, key: tuple[str, ...]) -> list[dict[str, Any]]:
    mend = "Delete it, or write to another file."
    try:
        rows = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a readable comparison ({error}). {mend}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(key) <= set(row) for row in rows):
        raise DataError(f"{path}: not a comparison by {', '.join(key)}. {mend}")
    return rows
