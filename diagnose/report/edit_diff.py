"""The lines of an edit's diff that a report shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from fullgraph.diagnose.explanation_data import Cause, Edit

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


@dataclass(frozen=True)
class DiffLine:
    """One line of a diff."""

    sign: str
    """"-", "+", " ", or "…" where lines are left out."""
    number: int | None
    """Its 1-based number in the old file; None for a new line."""
    text: str


def diff_lines(edit: Edit, cause: Cause) -> tuple[DiffLine, ...]:
    """Return the lines of the diff of `edit`, as the report of `cause` shows them.

    The report shows the lines of `cause` above the diff. Where the edit changes other lines, the
    diff has one unchanged line before and after them.
    """
    position = cause.position
    near = position.lines if edit.file == position.file else range(0)
    hunks = [_changed_lines(hunk, near) for hunk in _parse_hunks(edit)]
    shown: list[DiffLine] = []
    for hunk in hunks:
        if shown:
            shown.append(DiffLine("…", None, ""))
        shown += hunk
    return _dedent_lines(shown)


def _dedent_lines(lines: list[DiffLine]) -> tuple[DiffLine, ...]:
    """Return `lines` without their common indentation, tabs as four spaces."""
    texts = [line.text.expandtabs(4) for line in lines]
    indents = [len(text) - len(text.lstrip(" ")) for text in texts if text.strip()]
    least = min(indents, default=0)
    return tuple(replace(line, text=t[least:]) for line, t in zip(lines, texts, strict=True))


def _parse_hunks(edit: Edit) -> list[list[DiffLine]]:
    """Return the lines of each hunk of an edit's diff, with their line numbers."""
    hunks: list[list[DiffLine]] = []
    number = 0
    for line in edit.diff.split("\n"):
        header = _HUNK.match(line)
        if header:
            number = int(header[1])
            hunks.append([])
        elif hunks and line[:1] in ("-", "+", " "):
            sign = line[0]
            hunks[-1].append(DiffLine(sign, None if sign == "+" else number, line[1:].rstrip("\r")))
            number += sign != "+"
    return hunks


def _changed_lines(hunk: list[DiffLine], shown_above: range) -> list[DiffLine]:
    """Return the changed lines of a hunk, and one unchanged line before and after each change.

    `shown_above` are the line numbers that the report has already shown: if the hunk changes one of
    them, the unchanged lines are left out.
    """
    changed = [i for i, line in enumerate(hunk) if line.sign != " "]
    around = 0 if any(hunk[i].number in shown_above for i in changed) else 1
    shown: list[DiffLine] = []
    last = -1
    for i, line in enumerate(hunk):
        if any(abs(i - j) <= around for j in changed):
            if shown and i > last + 1:
                shown.append(DiffLine("…", None, ""))
            shown.append(line)
            last = i
    return shown
