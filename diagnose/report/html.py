"""HTML renderer without JavaScript: a whole page, or a fragment for a notebook."""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from fullgraph.diagnose.explanation_data import ExplanationData, GraphInfo
from fullgraph.diagnose.report import layout, rows, wording
from fullgraph.diagnose.report.cause_table import place_of
from fullgraph.diagnose.report.edit_diff import diff_lines
from fullgraph.diagnose.report.marked_source import source_lines

_HERE = Path(__file__).parent
_STRIP_GRAPHS = 200


def page(explanation: ExplanationData) -> str:
    """Return a complete, self-contained page."""
    body = _render_explanation(explanation, "fullgraph")
    return _jinja_environment().get_template("page.html").render(e=explanation, body=body)


def fragment(explanation: ExplanationData) -> str:
    """Return one element with its own style and anchors, to embed in a page."""
    return str(_render_explanation(explanation, f"fullgraph-{secrets.token_hex(4)}"))


def _render_explanation(explanation: ExplanationData, name: str) -> Markup:
    """Render an explanation; `name` makes its anchors unique on a page."""
    anchors = {cause.id: f"{name}-{i}" for i, cause in enumerate(explanation.causes, 1)}
    text = (
        _jinja_environment()
        .get_template("explanation.html")
        .render(
            e=explanation,
            anchors=anchors,
            css=Markup((_HERE / "explanation.css").read_text(encoding="utf-8")),
            strips=layout.graph_strips(explanation, _STRIP_GRAPHS),
            table=rows.cause_rows(explanation),
            causes=layout.order_causes(explanation.causes),
            mood=wording.mood_of(explanation),
            tried=explanation.fullgraph.ok is not None,
        )
    )
    return Markup(text)


@cache
def _jinja_environment() -> Environment:
    """Return the environment of the HTML templates."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        finalize=_escape_invisible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _format_prose
    environment.globals.update(
        words=wording,
        layout=layout,
        rows=rows,
        place_of=place_of,
        source_lines=source_lines,
        diff_lines=diff_lines,
        is_graph=_is_graph,
    )
    return environment


def _format_prose(text: str) -> Markup:
    """Return `text` escaped, with the parts between backticks as code."""
    parts = wording.printable(text).split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(p) if i % 2 else escape(p) for i, p in enumerate(parts))


def _is_graph(piece: object) -> bool:
    return isinstance(piece, GraphInfo)


def _escape_invisible(value: object) -> object:
    """Make every character of a text visible; leave markup unchanged."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return wording.printable(value)
    return value
