"""Rules: one file each, whose docstring is its page."""

from fullgraph.rewrites.rules.registry import all_rules, select_rules

__all__ = ["all_rules", "select_rules"]
