"""A branch on a tensor ends the graph; `torch.cond` keeps both ways in it and runs one.

Before:

    if x.mean() > 0:
        y = self.a(x)
    else:
        y = self.b(x)

After:

    y = torch.cond(x.mean() > 0, lambda: self.a(x), lambda: self.b(x))

Only the way that is taken is computed, so nothing is asked of the values of the other. Ways of
several statements become local functions. A way that gives a tensor that was there before gives a
copy of it, because `torch.cond` allows no aliases.

Unsafe where it is not known that both values have the same dtype and shape, which `torch.cond`
requires, and where something that only one way uses gets a gradient of zero, and got none when the
other way was taken.

Refuses: ways that print or change anything, such as the running statistics of a batch norm; values
of different shapes; numbers, strings and None as values.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.branches.conditional import Conditional
from fullgraph.rewrites.branches.decided import decided
from fullgraph.rewrites.branches.predicate import Escape, predicate, tested
from fullgraph.rewrites.branches.ways import jumps
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.rules.branches import use_where
from fullgraph.rewrites.site import Site

_WHY = "`torch.cond` keeps both ways in the graph and runs the one that is taken."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = tested(site)
    node = found.decision if found is not None else None
    if found is None or not isinstance(node, cst.If | cst.IfExp) or jumps(site, node):
        return None
    conditional = Conditional(site)
    try:
        test = predicate(site, found.expression)
        if test is None:
            return None
        edits = decided(conditional, node, test)
    except Escape as escape:
        return Refusal(str(escape))
    if found.gone is not None:
        edits[found.gone] = cst.RemoveFromParent()
    return Rewrite(
        edits,
        _WHY,
        Applicability.UNSAFE if conditional.assumes else Applicability.SAFE,
        tuple(conditional.assumes),
        ("torch",),
        (node.test,),
    )


RULE = Rule("FG302", "use-cond", use_where.RULE.categories, rewrite)
