"""Jinja environment and style that every HTML view shares."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fullgraph.compiler.display.text import printable

if TYPE_CHECKING:  # loaded when the first view is drawn
    from jinja2 import Environment
    from markupsafe import Markup

_HERE = Path(__file__).parent


@cache
def style() -> Markup:
    """Return the CSS for elements of class `fullgraph`; it affects no other element."""
    from markupsafe import Markup

    return Markup((_HERE / "report.css").read_text(encoding="utf-8"))


def jinja_environment(folder: Path) -> Environment:
    """Return an environment for the templates in `folder`.

    It escapes HTML in text, and makes invisible characters visible.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=_escape_invisible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _format_prose
    return environment


def _format_prose(text: str) -> Markup:
    """Return `text` as escaped HTML, with the parts between backticks in `<code>`."""
    from markupsafe import Markup, escape

    parts = printable(text).split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(p) if i % 2 else escape(p) for i, p in enumerate(parts))


def _escape_invisible(value: object) -> object:
    """Return `value` with its invisible characters escaped if it is a str.

    Markup, which is HTML already, and objects of other types are returned unchanged.
    """
    from markupsafe import Markup

    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value
