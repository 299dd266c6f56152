"""Breaks that are Dynamo giving up on a frame for good."""

from __future__ import annotations

import re

from fullgraph.compiler.events import Break
from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.diagnose.taxonomy.keywords import by_keywords


def describe_limit(brk: Break) -> str | None:
    """The sentence for a frame that hit a recompile limit; None for any other break."""
    if by_keywords(brk.gb_type) is not Category.RECOMPILE_LIMIT:
        return None
    name = f"`{brk.frame.function}`" if brk.frame.function else "This frame"
    found = re.search(r"currently set to (\d+)", brk.explanation)
    times = f"{found[1]} times" if found else "too often"
    if "accumulated" in brk.context:
        times += " in all its copies"
    return f"{name} was compiled {times}; from now on it runs eager."
