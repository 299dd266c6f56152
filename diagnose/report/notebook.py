"""Notebook renderer."""

from __future__ import annotations

from fullgraph.diagnose.explanation_data import ExplanationData
from fullgraph.diagnose.report.html import fragment
from fullgraph.diagnose.report.terminal import plain


def mimebundle(explanation: ExplanationData) -> dict[str, str]:
    """Return `explanation` by MIME type: plain text, and HTML without JavaScript."""
    return {"text/plain": plain(explanation), "text/html": fragment(explanation)}


def next_step(explanation: ExplanationData) -> str:
    """Return what `explain` does after this partial explanation, for a progress line."""
    tried = explanation.fullgraph.ok is not None
    return "Looking for hidden causes …" if tried else "Tracing with fullgraph=True …"
