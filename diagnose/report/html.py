"""An `Explanation` as HTML without JavaScript: a page of its own, or a fragment of a notebook."""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from fullgraph.diagnose.explanation_data import ExplanationData, GraphInfo
from fullgraph.diagnose.report import layout, source, wording

_HERE = Path(__file__).parent
_STRIP_GRAPHS = 200


def page(explanation: ExplanationData) -> str:
    """A complete page that loads nothing from anywhere."""
    body = _fragment(explanation, "fullgraph")
    return _environment().get_template("page.html").render(e=explanation, body=body)


def fragment(explanation: ExplanationData) -> str:
    """One element to stand among others, its style and its anchors its own."""
    return str(_fragment(explanation, f"fullgraph-{secrets.token_hex(4)}"))


def _fragment(explanation: ExplanationData, name: str) -> Markup:
    anchors = {cause.id: f"{name}-{i}" for i, cause in enumerate(explanation.causes, 1)}
    text = (
        _environment()
        .get_template("explanation.html")
        .render(
            e=explanation,
            anchors=anchors,
            css=Markup((_HERE / "explanation.css").read_text(encoding="utf-8")),
            strips=layout.strips(explanation, _STRIP_GRAPHS),
            causes=layout.in_order(explanation.causes),
            tried=explanation.fullgraph.ok is not None,
        )
    )
    return Markup(text)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    environment.globals.update(words=wording, layout=layout, lines=source.lines, is_graph=_is_graph)
    return environment


def _prose(text: str) -> Markup:
    """`text`, escaped, with what stands between backticks as code."""
    parts = wording.printable(text).split("`")
    if len(parts) % 2 == 0:  # a lone backtick is just a character
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(p) if i % 2 else escape(p) for i, p in enumerate(parts))


def _is_graph(piece: Any) -> bool:
    return isinstance(piece, GraphInfo)


def _finalize(value: Any) -> Any:
    """Text of the user's with every character visible; our own markup as it is."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return wording.printable(value)
    return value
