"""Edits of whole lines, as review comments suggest them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fullgraph.rewrites.check import TextEdit

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_FENCE = re.compile(r"`{3,}")


@dataclass(frozen=True)
class LineEdit:
    """Replacement of the lines `first` to `last` of a file, counted from 1, by the lines `new`."""

    first: int
    last: int
    """`first - 1` if the edit only inserts lines before `first`."""
    old: tuple[str, ...]
    new: tuple[str, ...]

    def is_within(self, lines: Collection[int]) -> bool:
        """Return whether the edit only replaces lines in `lines`; a comment can then suggest it."""
        return self.first <= self.last and all(
            number in lines for number in range(self.first, self.last + 1)
        )

    def suggestion(self) -> str:
        """Return a Markdown block that GitHub offers to commit."""
        return _fenced("suggestion", self.new)

    def diff(self) -> str:
        """Return the edit as a Markdown block with a diff."""
        return _fenced("diff", [*(f"-{one}" for one in self.old), *(f"+{one}" for one in self.new)])


def edit_of(lines: Sequence[str], edit: TextEdit) -> LineEdit:
    """Return an edit of characters as the edit of the fewest whole lines.

    `lines` are the lines of the file.
    """
    old = tuple(lines[edit.line - 1 : edit.end_line])
    head = old[0].encode()[: edit.column].decode(errors="replace")
    tail = old[-1].encode()[edit.end_column :].decode(errors="replace")
    return _shortest(edit.line, old, tuple(f"{head}{edit.text}{tail}".split("\n")), lines)


def edits_in(diff: str, lines: Sequence[str]) -> list[LineEdit]:
    """Return the edits in a unified diff of one file.

    `lines` are the lines of the file before the edits.
    """
    found: list[LineEdit] = []
    first, left = 0, [0, 0]
    old: list[str] = []
    new: list[str] = []
    for line in diff.split("\n"):
        sign, text = line[:1], line[1:]
        if any(left) and sign in ("-", "+", " "):
            if sign != "+":
                old.append(text)
                left[0] -= 1
            if sign != "-":
                new.append(text)
                left[1] -= 1
            if not any(left):
                found.append(_shortest(first, tuple(old), tuple(new), lines))
        elif hunk := _HUNK.match(line):
            left = [int(hunk[2] or "1"), int(hunk[3] or "1")]
            first = int(hunk[1]) + (left[0] == 0)
            old, new = [], []
    return found


def _shortest(
    first: int, old: tuple[str, ...], new: tuple[str, ...], lines: Sequence[str]
) -> LineEdit:
    """Return the edit that replaces `old` by `new`, without equal lines at the start and end.

    `old` starts at line `first` of the file, whose lines are `lines`. A pure insertion includes the
    line before it, because a comment needs a line.
    """
    while old and new and old[0] == new[0]:
        first, old, new = first + 1, old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    if not old and first > 1:  # a comment needs a line to stand at
        before = lines[first - 2]
        first, old, new = first - 1, (before,), (before, *new)
    return LineEdit(first, first + len(old) - 1, old, new)


def _fenced(language: str, lines: Sequence[str]) -> str:
    """Return lines as a Markdown code block, with a fence longer than any in the lines."""
    longest = max((len(one) for line in lines for one in _FENCE.findall(line)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence])
