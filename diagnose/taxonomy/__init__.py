"""From a break to what a person must know: its category, a sentence, and what to try."""

from fullgraph.diagnose.taxonomy.advice import advise
from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.diagnose.taxonomy.classify import (
    classify,
    is_consequence,
    is_handle,
    is_looked_up_early,
)
from fullgraph.diagnose.taxonomy.guards import describe_guard
from fullgraph.diagnose.taxonomy.limits import describe_limit
from fullgraph.diagnose.taxonomy.sentences import quote, sentence
from fullgraph.diagnose.taxonomy.skips import describe_skip

__all__ = [
    "Category",
    "advise",
    "classify",
    "describe_guard",
    "describe_limit",
    "describe_skip",
    "is_consequence",
    "is_handle",
    "is_looked_up_early",
    "quote",
    "sentence",
]
