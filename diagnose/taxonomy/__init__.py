"""Categories of graph breaks, and the sentence and advice of each, as data."""

from fullgraph.compiler.categories import Category
from fullgraph.diagnose.taxonomy.advice import FIXES, advise, advise_on_fake
from fullgraph.diagnose.taxonomy.classify import (
    classify,
    is_consequence,
    is_hook_handle,
    is_looked_up_early,
    registers_hook,
)
from fullgraph.diagnose.taxonomy.guards import describe_guard
from fullgraph.diagnose.taxonomy.keywords import category_of_gb_type
from fullgraph.diagnose.taxonomy.known_functions import find_known_function
from fullgraph.diagnose.taxonomy.roots import Root, RootKind, root_of_guard
from fullgraph.diagnose.taxonomy.sentences import describe_break, describe_limit, quote
from fullgraph.diagnose.taxonomy.skips import describe_skip
from fullgraph.diagnose.taxonomy.switches import SWITCHES
from fullgraph.diagnose.taxonomy.usage import Usage

__all__ = [
    "FIXES",
    "SWITCHES",
    "Category",
    "Root",
    "RootKind",
    "Usage",
    "advise",
    "advise_on_fake",
    "category_of_gb_type",
    "classify",
    "describe_break",
    "describe_guard",
    "describe_limit",
    "describe_skip",
    "find_known_function",
    "is_consequence",
    "is_hook_handle",
    "is_looked_up_early",
    "quote",
    "registers_hook",
    "root_of_guard",
]
