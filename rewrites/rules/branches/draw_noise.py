"""A way that draws random tensors: `torch.cond` draws where it is taken, `torch.where` chooses.

Before:

    if t > 0:
        return mean + sigma * torch.randn_like(x)
    return mean

After:

    return torch.where(
        t > 0,
        mean + sigma * torch.cond(t > 0, torch.randn_like, torch.zeros_like, (x.detach(),)),
        mean,
    )

The numbers come from the same stream: nothing is
drawn where the other way is taken. FG302 keeps whole ways in the graph; but where a way learns, its
backward would draw again.

Unsafe where `torch.where` is (see FG301).

Refuses: what draws in another way than `torch.randn`, `rand`, `randn_like` and `rand_like`, or with
a generator; draws in a part of a way; and what FG301 refuses.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.rules.branches import use_where
from fullgraph.rewrites.source import Replacement
from fullgraph.rewrites.transforms.branches.predicate import Predicate
from fullgraph.rewrites.transforms.branches.random_tensors import branch_draws, replace_calls
from fullgraph.rewrites.transforms.branches.use_where import WhereWriter
from fullgraph.rewrites.transforms.branches.whole_branch import (
    Node,
    edits_for_branch,
    rewrite_conditional,
)

_WHY = "`torch.cond` draws where the way is taken, and `torch.where` chooses."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    selection = WhereWriter(site, random=True)

    def edits(node: Node, condition: Predicate) -> dict[cst.CSTNode, Replacement] | None:
        """Return the edits of an `if` whose branch draws random numbers; None if none does."""
        calls = branch_draws(site, node, condition)
        if not calls:
            return None
        WhereWriter(site).choice(condition).require_pure(condition.tensor)
        return replace_calls(edits_for_branch(selection, node, condition), calls)

    return rewrite_conditional(site, selection, _WHY, edits)


RULE = Rule("FG306", "draw-noise", use_where.RULE.categories, rewrite)
