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
from fullgraph.rewrites.check.writing import FixedFiles, fix_until_stable, fixed_files

__all__ = [
    "Certainty",
    "CheckResult",
    "Finding",
    "Fix",
    "FixedFiles",
    "TextEdit",
    "Unreadable",
    "check",
    "fix_until_stable",
    "fixed_files",
]
