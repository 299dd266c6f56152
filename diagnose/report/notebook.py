"""Notebook renderer."""

from __future__ import annotations

import sys
from collections.abc import Callable

from fullgraph.diagnose.explanation_data import ExplanationData
from fullgraph.diagnose.report.html import fragment
from fullgraph.diagnose.report.terminal import plain


def mimebundle(explanation: ExplanationData) -> dict[str, str]:
    """Return `explanation` by MIME type: plain text, and HTML without JavaScript."""
    return {"text/plain": plain(explanation), "text/html": fragment(explanation)}


def display_progress() -> Callable[[ExplanationData], None] | None:
    """Return a callback that displays partial explanations; None outside of a notebook.

    The callback clears the display for the complete one, which the cell itself then shows.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    handle = display({"text/plain": ""}, raw=True, display_id=True)
    if handle is None:
        return None

    def update_display(explanation: ExplanationData) -> None:
        """Replace the displayed explanation; clear it for the complete one."""
        empty = {"text/plain": "", "text/html": ""}
        handle.update(empty if explanation.complete else mimebundle(explanation), raw=True)

    return update_display
