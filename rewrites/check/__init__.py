"""Static check: graph breaks and recompiles from the source alone, without torch."""

from fullgraph.rewrites.check.check import check
from fullgraph.rewrites.check.finding import (
    Certainty,
    CheckResult,
    Finding,
    Fix,
    TextEdit,
    Unreadable,
)

__all__ = ["Certainty", "CheckResult", "Finding", "Fix", "TextEdit", "Unreadable", "check"]
