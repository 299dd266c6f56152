"""One HTML view for every result: a verdict, tables, and sections that open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Template

from fullgraph.compiler.display.html import jinja_environment, style


@dataclass(frozen=True)
class Table:
    """A table of prose; parts of a cell between backticks are code."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Section:
    """A part below the tables, closed until it is clicked."""

    title: str
    prose: Sequence[str] = ()
    """Paragraphs."""
    code: str = ""
    is_diff: bool = False
    is_open: bool = False


@dataclass(frozen=True)
class View:
    """What a result shows in a notebook."""

    title: str
    """The verdict in one sentence."""
    mood: str
    """ "good", "mixed" or "bad"."""
    tables: Sequence[Table] = ()
    sections: Sequence[Section] = ()
    notes: Sequence[str] = ()
    footer: str = ""


def mimebundle(text: str, view: View) -> dict[str, str]:
    """Return a result by MIME type: plain text, and HTML without JavaScript."""
    return {"text/plain": text, "text/html": _template().render(view=view, css=style())}


@cache
def _template() -> Template:
    """Return the template of every view."""
    return jinja_environment(Path(__file__).parent).get_template("view.html")
