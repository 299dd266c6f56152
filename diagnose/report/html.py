"""HTML renderer without JavaScript: a whole page, or a fragment for a notebook."""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from fullgraph.compiler.display import jinja_environment, style
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
            css=style(),
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
    environment = jinja_environment(_HERE)
    environment.globals.update(
        words=wording,
        layout=layout,
        rows=rows,
        place_of=place_of,
        source_lines=source_lines,
        diff_lines=diff_lines,
        is_graph=_is_graph,
        is_eager=_is_eager,
    )
    return environment


def _is_graph(piece: object) -> bool:
    return isinstance(piece, GraphInfo)


def _is_eager(piece: object) -> bool:
    return isinstance(piece, layout.EagerPart)
