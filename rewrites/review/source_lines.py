"""Lines of the files that findings are in."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from fullgraph.rewrites.check import Finding, TextEdit
from fullgraph.rewrites.check.sources import CannotRead, read_source, read_text


class SourceLines:
    """Lines of files, each read once; `texts` maps files to texts used instead of their content."""

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._lines = {name: text.split("\n") for name, text in (texts or {}).items()}
        self._cells: dict[str, tuple[int, ...]] = {}

    def of(self, finding: Finding) -> list[str]:
        """Return the lines of a finding's file; in a notebook, those from the start of its cell."""
        lines = self._read(finding.file)
        cells = self._cells.get(finding.file, ())
        return lines[cells[finding.cell - 1] :] if finding.cell and cells else lines

    def line(self, finding: Finding, number: int) -> str:
        """Return a line by its 1-based number; "" if the file has no such line."""
        lines = self.of(finding)
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def expression(self, finding: Finding) -> str:
        """Return the source text of a finding's expression."""
        return self.span(
            finding, finding.line, finding.column, finding.end_line, finding.end_column
        )

    def span(self, finding: Finding, line: int, column: int, end_line: int, end_column: int) -> str:
        """Return the text of a span; columns count UTF-8 bytes from 0."""
        lines = [one.encode() for one in self.of(finding)[line - 1 : end_line]]
        if not lines:
            return ""
        lines[-1] = lines[-1][:end_column]
        lines[0] = lines[0][column:]
        return b"\n".join(lines).decode(errors="replace")

    def merged_edit(self, finding: Finding) -> TextEdit | None:
        """Return the edits of a finding's fix merged into one; None if it has none."""
        edits = finding.fix.edits if finding.fix else ()
        if not edits:
            return None
        first, last = edits[0], edits[-1]
        parts = [first.text]
        for before, after in pairwise(edits):
            parts.append(
                self.span(finding, before.end_line, before.end_column, after.line, after.column)
            )
            parts.append(after.text)
        return TextEdit(first.line, first.column, last.end_line, last.end_column, "".join(parts))

    def _read(self, file: str) -> list[str]:
        if file not in self._lines:
            try:
                if file.endswith(".ipynb"):
                    source = read_source(Path(file))
                    self._lines[file], self._cells[file] = source.lines, source.cells
                else:
                    self._lines[file] = read_text(Path(file)).split("\n")
            except CannotRead:
                self._lines[file] = []
        return self._lines[file]
