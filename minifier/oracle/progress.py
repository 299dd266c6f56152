"""How far a reduction is, as its progress callback is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """State of a running reduction."""

    phase: str
    """ "bisect", "graph", "inputs", "modules", "source", "script"."""
    before: int
    now: int
    """Size at the start and now: operators, or lines of source."""
    calls: int
    cached: int
    text: str = ""
    """The best script so far; "" if it has not changed."""
