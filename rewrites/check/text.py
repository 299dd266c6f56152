"""Findings as text: `path:line:col CODE [*] message`, then the line with a caret."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from fullgraph.rewrites.check.finding import CheckResult, Finding
from fullgraph.rewrites.check.sources import CannotRead, read_source

RED, CYAN, BOLD, END = "\x1b[31m", "\x1b[36m", "\x1b[1m", "\x1b[0m"


def render(result: CheckResult, *, color: str = "auto", stream: TextIO | None = None) -> None:
    """Print the findings and a line of counts; `color` is "auto", "always" or "never"."""
    out = stream or sys.stdout
    colored = color == "always" or (color == "auto" and out.isatty())
    for finding in result.findings:
        for line in text_lines(finding, colored):
            print(line, file=out)
    print(verdict(result), file=out)


def text_lines(finding: Finding, colored: bool = False) -> Iterator[str]:
    """Yield the lines of a finding: message, source line, and carets under the expression."""
    cell = f":cell {finding.cell}" if finding.cell is not None else ""
    mark = " [*]" if finding.fix and finding.fix.edits else ""
    likely = " (likely)" if finding.certainty == "likely" else ""
    source = _line_of(finding)
    column = len(source.encode()[: finding.column].decode(errors="replace"))
    place = f"{finding.file}{cell}:{finding.line}:{column + 1}"
    code = finding.code
    if colored:
        place, code, mark = f"{BOLD}{place}{END}", f"{RED}{code}{END}", f"{CYAN}{mark}{END}"
    yield f"{place} {code}{mark} {finding.message}{likely}"
    if source.strip():
        end = finding.end_column if finding.end_line == finding.line else len(source.encode())
        width = len(source.encode()[finding.column : end].decode(errors="replace"))
        shown = source.expandtabs(1)
        cut = len(shown) - len(shown.lstrip())
        yield f"    {shown[cut:]}"
        caret = f"{' ' * (column - cut)}{'^' * max(1, width)}"
        yield f"    {RED}{caret}{END}" if colored else f"    {caret}"


def verdict(result: CheckResult) -> str:
    """Return the line with the number of findings and files, and the versions checked for."""
    count = len(result.findings)
    fixable = sum(bool(one.fix and one.fix.edits) for one in result.findings)
    files = f"{result.files} file{'s' * (result.files != 1)}"
    if not count:
        return f"No findings in {files} · {result.versions}"
    has_edit = f" ({fixable} with an edit)" if fixable else ""
    return f"{count} finding{'s' * (count != 1)}{has_edit} in {files} · {result.versions}"


def _line_of(finding: Finding) -> str:
    """Return the source line of a finding's first line; "" if the file cannot be read."""
    lines, cells = _read(finding.file)
    line = finding.line + (cells[finding.cell - 1] if finding.cell and cells else 0)
    return lines[line - 1] if line <= len(lines) else ""


@lru_cache(maxsize=8)
def _read(file: str) -> tuple[list[str], tuple[int, ...]]:
    try:
        source = read_source(Path(file))
    except CannotRead:
        return [], ()
    return source.lines, source.cells
