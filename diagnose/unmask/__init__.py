"""Search for graph breaks that are hidden behind other breaks."""

from fullgraph.diagnose.unmask.trace_with_replacements import (
    UnmaskRequest,
    UnmaskResult,
    trace_with_replacements,
)
from fullgraph.diagnose.unmask.unmask import HiddenBreak, UnmaskRound, unmask

__all__ = [
    "HiddenBreak",
    "UnmaskRequest",
    "UnmaskResult",
    "UnmaskRound",
    "trace_with_replacements",
    "unmask",
]
