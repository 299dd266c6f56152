"""From a break to what a person must know: its category, a sentence, and what to try."""

from fullgraph.diagnose.taxonomy.advice import advise
from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.diagnose.taxonomy.classify import classify, is_consequence
from fullgraph.diagnose.taxonomy.sentences import sentence

__all__ = ["Category", "advise", "classify", "is_consequence", "sentence"]
