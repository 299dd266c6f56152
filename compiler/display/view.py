"""One HTML view for every result: a verdict, tables, and sections that open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fullgraph.compiler.display.html import jinja_environment, style

if TYPE_CHECKING:
    from jinja2 import Template

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


@dataclass(frozen=True)
class Table:
    """Table of a notebook view: column names, rows of text, and optional text under each row.

    The parts of a cell that are between backticks are shown as code.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    below: Sequence[str] = ()
    """Prose under each row, "" for none; empty if no row has any."""

    def rows_with_prose(self) -> list[tuple[tuple[str, ...], str]]:
        """Return each row with the prose under it."""
        return list(zip(self.rows, self.below or [""] * len(self.rows), strict=True))


@dataclass(frozen=True)
class NumberedLine:
    """A line of a diff: its sign ("+", "-" or " "), its text, and its number in the old file."""

    sign: str
    number: int | None
    """Its 1-based number in the old file; None for a new line."""
    text: str


@dataclass(frozen=True)
class Section:
    """Part of a notebook view below the tables: a title, and paragraphs or code.

    Unless `is_open`, the notebook shows only the title until the user clicks it.
    """

    title: str
    prose: Sequence[str] = ()
    """Paragraphs."""
    code: str = ""
    is_diff: bool = False
    is_open: bool = False

    def diff_lines(self) -> Iterator[NumberedLine]:
        """Yield the lines of `code`, a unified diff, without its headers."""
        number = 0
        for line in self.code.split("\n"):
            if header := _HUNK.match(line):
                if number:
                    yield NumberedLine("…", None, "")
                number = int(header[1])
            elif number and line[:1] in ("-", "+", " "):
                old = line[0] != "+"
                yield NumberedLine(line[0], number if old else None, line[1:].rstrip("\r"))
                number += old


@dataclass(frozen=True)
class View:
    """What a notebook shows for a result: a verdict, sentences, tables, sections and notes."""

    title: str
    """The verdict in one sentence."""
    mood: str
    """ "good", "mixed" or "bad"."""
    lead: Sequence[str] = ()
    """Sentences below the title."""
    tables: Sequence[Table] = ()
    sections: Sequence[Section] = ()
    notes: Sequence[str] = ()
    footer: str = ""


def mimebundle(text: str, view: View) -> dict[str, str]:
    """Return a result by MIME type: `text` as "text/plain", and `view` as "text/html".

    The HTML contains no JavaScript.
    """
    return {"text/plain": text, "text/html": _template().render(view=view, css=style())}


@cache
def _template() -> Template:
    """Return the one template that renders every view."""
    return jinja_environment(Path(__file__).parent).get_template("view.html")
