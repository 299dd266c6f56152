"""Pages on the web about what a code reports."""

from __future__ import annotations

_MANUAL = "https://docs.pytorch.org/docs/stable/compile/programming_model"
GRAPH_BREAKS = f"{_MANUAL}.graph_breaks_index.html"
RECOMPILES = f"{_MANUAL}.recompilation.html"


def help_uri(code: str) -> str:
    """Return the URL of PyTorch's page on graph breaks or, for an "FGR" code, on recompiles."""
    return RECOMPILES if code.startswith("FGR") else GRAPH_BREAKS
