"""A branch on a tensor ends the graph; `torch.where` computes both ways and chooses.

Before:

    if x.sum() == 0:
        return x * 0
    return x / x.sum()

After:

    condition = x.sum() == 0
    return torch.where(condition, x * 0, x / torch.where(condition, 1, x.sum()))

It mends `if`, `elif` and `else`, early returns, conditional expressions, attributes as targets and
several targets at once; tests may be joined by `and`, `or` and `not`, and may be
`torch.equal`, `torch.allclose`, `t.item() > 0` or `bool(t)`.

Where the way that is not taken could give inf or NaN, or an infinite gradient, a second
`torch.where` gives it a harmless operand: else its gradient would be zero times infinity, NaN.

Unsafe where it is not known that both values have the same dtype and shape, and where a number
becomes a tensor.

Refuses: ways that print, draw random numbers, change tensors in place, assign to items or may
raise; values of different shapes; names that only one way assigns.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.rewrites.branches import early
from fullgraph.rewrites.branches.predicate import Escape, decision, predicate
from fullgraph.rewrites.branches.selection import Selection, in_place
from fullgraph.rewrites.document import Replacement
from fullgraph.rewrites.facts.flow import walk
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.site import Site

_WHY = "`torch.where` computes both ways and chooses, so nothing depends on the data."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    node = decision(site)
    if not isinstance(node, cst.If | cst.IfExp) or any(
        isinstance(one, cst.Raise | cst.Break | cst.Continue) for one in walk(node)
    ):
        return None
    selection = Selection(site)
    try:
        test = predicate(site, node.test)
        if test is None:
            return None
        selection.choice(test).pure(test.tensor)
        edits: dict[cst.CSTNode, Replacement]
        if isinstance(node, cst.IfExp):
            edits = {node: selection.ternary(node, test)}
        elif early.is_early(node):
            edits = early.selected(selection, node, test)
        else:
            lines = selection.branch(node, test)
            edits = {node: in_place(node, lines, site.document.parent(node))}
    except Escape as escape:
        return Refusal(str(escape))
    safe = not selection.assumes
    return Rewrite(
        edits,
        _WHY,
        Applicability.SAFE if safe else Applicability.UNSAFE,
        tuple(selection.assumes),
        ("torch",),
        tuple(selection.tests),
    )


_CATEGORIES = (Category.BRANCH, Category.COMPARISON, Category.SCALAR, Category.GUARD)

RULE = Rule("FG301", "use-where", frozenset(one.value for one in _CATEGORIES), rewrite)
