"""Barriers, object collectives and asynchronous handles are not traced; functional ones are.

Before:

    dist.broadcast(x, src=0)
    work = dist.all_reduce(x, async_op=True)
    work.wait()

After:

    x = funcol.broadcast(x, 0, dist.group.WORLD)
    x = funcol.all_reduce(x, "sum", dist.group.WORLD)

with `import torch.distributed._functional_collectives as funcol`. They give a new tensor instead
of changing their argument, so everyone who holds the old one must be told: this is an idea, not an
edit. A barrier and a collective of Python objects belong before or after the compiled region.

Refuses: nothing; it never edits.
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule

_OUTSIDE = ("barrier", "object", "monitored")


def rewrite(site: Site) -> Rewrite | None:
    called = site.document.code(site.node)
    if any(word in called for word in _OUTSIDE):
        why = "call it before or after the compiled region: it moves no tensor of the graph"
    else:
        why = "use the functional collective, which gives a new tensor and stays in the graph"
    return Rewrite({}, why, Applicability.DISPLAY)


RULE = Rule("FG501", "use-functional", frozenset({Category.COLLECTIVE.value}), rewrite)
