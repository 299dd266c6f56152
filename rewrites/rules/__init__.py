"""Rules: one file each, whose docstring is its page."""

from fullgraph.rewrites.rules.registry import all_rules, rules_of_topics, select_rules

__all__ = ["all_rules", "rules_of_topics", "select_rules"]
