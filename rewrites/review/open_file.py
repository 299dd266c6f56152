"""A file that is open in an editor: its text, its findings, quick fixes and hover texts."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.rewrites.check import CheckResult, Finding, TextEdit
from fullgraph.rewrites.check.check import check_text
from fullgraph.rewrites.check.sources import CannotRead
from fullgraph.rewrites.review.links import help_uri
from fullgraph.rewrites.rule import Applicability
from fullgraph.rewrites.rule_pages import rule_pages


@dataclass(frozen=True)
class QuickFix:
    """An edit that an editor offers for a finding."""

    title: str
    finding: Finding
    edits: tuple[TextEdit, ...]
    is_preferred: bool


@dataclass(frozen=True)
class OpenFile:
    """A version of a file's text with its findings."""

    version: int | None
    lines: tuple[str, ...]
    result: CheckResult | None
    """None if the text does not parse, as happens while the user types."""

    def line(self, number: int) -> str:
        """Return a line by its 1-based number; "" after the last one."""
        return self.lines[number - 1] if number <= len(self.lines) else ""

    def findings_in(self, first: int, last: int) -> Iterator[Finding]:
        """Yield the findings on lines `first` to `last`, counted from 1."""
        for finding in self.result.findings if self.result else ():
            if finding.line <= last and first <= finding.end_line:
                yield finding

    def finding_at(self, line: int, column: int) -> Finding | None:
        """Return the smallest finding around a position; None if there is none.

        `line` counts from 1, `column` UTF-8 bytes from 0.
        """
        around = [
            one
            for one in self.findings_in(line, line)
            if (one.line, one.column) <= (line, column) <= (one.end_line, one.end_column)
        ]
        return min(around, key=_extent, default=None)

    def quick_fixes(self, first: int, last: int) -> Iterator[QuickFix]:
        """Yield the fix and the `# noqa` edit of each finding on lines `first` to `last`."""
        for finding in self.findings_in(first, last):
            fix = finding.fix
            if fix is not None and fix.edits:
                assumed = f", if {'; '.join(fix.assumes)}" if fix.assumes else ""
                title = f"{fix.rule} ({fix.applicability}{assumed}): {fix.message}"
                safe = fix.applicability is Applicability.SAFE
                yield QuickFix(title, finding, fix.edits, safe)
            silence = self._noqa(finding)
            if silence is not None:
                title = f"Silence {finding.code} on this line"
                yield QuickFix(title, finding, (silence,), False)

    def _noqa(self, finding: Finding) -> TextEdit | None:
        """Return the edit that adds `# noqa: CODE` to the finding's last line.

        None if the line has a `# noqa`, or cannot end in a comment.
        """
        number = finding.end_line
        line = self.lines[number - 1]
        if line.rstrip().endswith("\\") or re.search(r"#\s*noqa\b", line, re.IGNORECASE):
            return None
        comment = f"  # noqa: {finding.code}"
        end = len(line.rstrip())
        text = "\n".join((*self.lines[: number - 1], line[:end] + comment, *self.lines[number:]))
        place = (number, end + 2)
        if not any(
            token.type == tokenize.COMMENT and token.start[0] == number and token.start <= place
            for token in _tokens(text)
        ):
            return None
        column = len(line[:end].encode())
        return TextEdit(number, column, number, column, comment)


def open_file(text: str, path: Path, version: int | None, settings: Mapping[str, Any]) -> OpenFile:
    """Check a text that is open in an editor, and return it with its findings.

    `path` is the file it belongs to. `settings` are keyword arguments of `check`. If the text does
    not parse, it has no findings yet.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        result = check_text(text, path, **settings)
    except CannotRead:
        result = None
    return OpenFile(version, tuple(text.split("\n")), result)


def hover_text(finding: Finding, result: CheckResult) -> str:
    """Return a finding's text and the page of the rule that fixes it, as Markdown."""
    kind = "recompiles" if finding.code.startswith("FGR") else "breaks the graph"
    modes = " and ".join(f"`{mode}`" for mode in finding.modes)
    parts = [
        f"**{finding.code}** {finding.category} ({finding.certainty})",
        f"{finding.message}.",
        f"It {kind} in mode {modes} on {result.versions}. "
        f"[PyTorch's manual]({help_uri(finding.code)})",
    ]
    page = rule_pages().get(finding.fix.rule) if finding.fix else None
    if page is not None:
        parts += ["---", page.markdown]
    return "\n\n".join(parts)


def _extent(finding: Finding) -> tuple[int, int]:
    return finding.end_line - finding.line, finding.end_column - finding.column


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of a text up to the first error."""
    try:
        yield from tokenize.generate_tokens(io.StringIO(text).readline)
    except (tokenize.TokenError, SyntaxError):
        return
