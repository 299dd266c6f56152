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
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule

_IDEAS = {
    Category.GENERATOR: "let a compiled function use the generator up and return a list or tuple",
    Category.ITERATOR: "make a list before the compiled region, or loop over what has a length",
    Category.CONTEXT_MANAGER: "enter it around the compiled call",
    Category.COPY: "make the copy before the compiled region, in `__init__` if it is of the model",
    Category.CLASS: "define the class at the top of the file",
    Category.DATACLASS: "make the object before the compiled region, or use a tuple",
    Category.INTROSPECTION: "ask before the compiled region, and keep the answer",
    Category.PARAMETER: "make parameters in `__init__`",
    Category.MODULE: "make and change modules in `__init__`, or before the compiled region",
    Category.SIDE_EFFECT: "return the new value, and let the caller keep it",
}


def rewrite(site: Site) -> Rewrite | None:
    return Rewrite({}, _IDEAS[Category(site.category)], Applicability.DISPLAY)


RULE = Rule("FG819", "move-out", frozenset(one.value for one in _IDEAS), rewrite)
