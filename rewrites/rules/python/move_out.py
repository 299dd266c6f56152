"""Generators, iterators, classes and contexts that cannot be traced are best moved out.

Before:

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            yield x

After:

    def forward(self, x):
        return list(self.outputs(x))

    def outputs(self, x):
        for block in self.blocks:
            x = block(x)
            yield x

A generator is traced where a compiled function uses it up; it cannot be a compiled function itself.
These are ideas, not edits: what the caller expects is for a person to say.

Refuses: nothing; it never edits.
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Rewrite, Rule
from fullgraph.rewrites.transforms.ideas import idea_for

_CATEGORIES = frozenset(
    one.value
    for one in (
        Category.GENERATOR,
        Category.ITERATOR,
        Category.CONTEXT_MANAGER,
        Category.COPY,
        Category.CLASS,
        Category.DATACLASS,
        Category.INTROSPECTION,
        Category.PARAMETER,
        Category.MODULE,
        Category.SIDE_EFFECT,
    )
)


def rewrite(site: Site) -> Rewrite | None:
    return idea_for(site)


RULE = Rule("FG819", "move-out", _CATEGORIES, rewrite)
