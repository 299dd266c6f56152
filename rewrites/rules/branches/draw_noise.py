"""A branch that draws random tensors: `torch.cond` draws only where it is taken.

Before:

    if t > 0:
        return mean + sigma * torch.randn_like(x)
    return mean

After:

    return torch.where(
        t > 0,
        mean + sigma * _cond(t > 0, torch.randn_like, torch.zeros_like, (x.detach(),)),
        mean,
    )

The function `_cond`, written below the imports, calls `torch.cond` in compiled code, and in eager
code one of the two functions. The numbers come from the same stream: nothing is drawn where the
other branch is taken. FG302 keeps whole branches in the graph; but where a branch learns, its
backward would draw again. Shorter, and unsafe, is to draw always:

    return torch.where(t > 0, mean + sigma * torch.randn_like(x), mean)

Unsafe where `torch.where` is (see FG301).

Refuses: what draws in another way than `torch.randn`, `rand`, `randn_like` and `rand_like`, or with
a generator; draws in a part of a branch; and what FG301 refuses.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import libcst as cst

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
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

_WHY = "`torch.cond` draws where the branch is taken, and `torch.where` selects."
_WHY_ALWAYS = "The random numbers are always drawn, and `torch.where` chooses."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    selection = WhereWriter(site, random=True)

    def edits(node: Node, condition: Predicate) -> dict[cst.CSTNode, Replacement] | None:
        """Return the edits of an `if` whose branch draws random numbers; None if none does."""
        calls = branch_draws(site, node, condition)
        if not calls:
            return None
        WhereWriter(site).choice(condition).require_pure(condition.tensor)
        return replace_calls(edits_for_branch(selection, node, condition), calls)

    made = rewrite_conditional(site, selection, _WHY, edits)
    return replace(made, shorter=_draw_always(site)) if isinstance(made, Rewrite) else made


def _draw_always(site: Site) -> Rewrite | None:
    """Return the edit that draws whichever branch is taken; None if there is none."""
    writer = WhereWriter(site, random=True)
    made = rewrite_conditional(
        site, writer, _WHY_ALWAYS, functools.partial(edits_for_branch, writer)
    )
    if not isinstance(made, Rewrite):
        return None
    return replace(
        made,
        applicability=Applicability.UNSAFE,
        assumes=(*made.assumes, "random numbers may be drawn that nothing uses"),
        exempts=made.exempts | {"randomness"},
    )


RULE = Rule("FG306", "draw-noise", use_where.RULE.categories, rewrite)
