"""`fix`: rewrites that remove the causes of an explanation, each proved."""

from fullgraph.rewrites.fix.edits import explain
from fullgraph.rewrites.fix.fix_report import format_place, render, render_diff
from fullgraph.rewrites.fix.fixes import Fixes, source_files
from fullgraph.rewrites.fix.offers import apply_offers, places_to_observe, propose
from fullgraph.rewrites.fix.patched import patched
from fullgraph.rewrites.fix.pipeline import FixStep, fix
from fullgraph.rewrites.fix.results import FixResult, Suggestion, Unfixed
from fullgraph.rewrites.fix.run_facts import record_facts

__all__ = [
    "FixResult",
    "FixStep",
    "Fixes",
    "Suggestion",
    "Unfixed",
    "apply_offers",
    "explain",
    "fix",
    "format_place",
    "patched",
    "places_to_observe",
    "propose",
    "record_facts",
    "render",
    "render_diff",
    "source_files",
]
