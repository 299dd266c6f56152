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
requires.

Refuses: ways that print or change anything, such as the running statistics of a batch norm; values
of different shapes; numbers, strings and None as values.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.branches import early
from fullgraph.rewrites.branches.conditional import Conditional
from fullgraph.rewrites.branches.predicate import Escape, decision, predicate
from fullgraph.rewrites.branches.selection import in_place
from fullgraph.rewrites.document import Replacement
from fullgraph.rewrites.facts.flow import walk
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.rules.branches import use_where
from fullgraph.rewrites.site import Site

_WHY = "`torch.cond` keeps both ways in the graph and runs the one that is taken."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    node = decision(site)
    if not isinstance(node, cst.If | cst.IfExp) or any(
        isinstance(one, cst.Raise | cst.Break | cst.Continue) for one in walk(node)
    ):
        return None
    conditional = Conditional(site)
    try:
        test = predicate(site, node.test)
        if test is None:
            return None
        edits: dict[cst.CSTNode, Replacement]
        if isinstance(node, cst.IfExp):
            edits = {node: conditional.ternary(node, test)}
        elif early.is_early(node):
            edits = conditional.early(node, test)
        else:
            lines = conditional.branch(node, test)
            edits = {node: in_place(node, lines, site.document.parent(node))}
    except Escape as escape:
        return Refusal(str(escape))
    return Rewrite(
        edits,
        _WHY,
        Applicability.UNSAFE if conditional.assumes else Applicability.SAFE,
        tuple(conditional.assumes),
        ("torch",),
        (node.test,),
    )


RULE = Rule("FG302", "use-cond", use_where.RULE.categories, rewrite)
