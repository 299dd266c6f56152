"""Static check: graph breaks and recompiles from the source alone, without torch."""

from fullgraph.rewrites.check.cache import cache_folder
from fullgraph.rewrites.check.check import check
from fullgraph.rewrites.check.finding import (
    Certainty,
    CheckResult,
    Finding,
    Fix,
    TextEdit,
    Unreadable,
)
from fullgraph.rewrites.check.workers import usable_cpus
from fullgraph.rewrites.check.writing import FixedFiles, fix_until_stable, fixed_files

__all__ = [
    "Certainty",
    "CheckResult",
    "Finding",
    "Fix",
    "FixedFiles",
    "TextEdit",
    "Unreadable",
    "cache_folder",
    "check",
    "fix_until_stable",
    "fixed_files",
    "usable_cpus",
]
