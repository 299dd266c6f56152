"""A branch on a tensor ends the graph; `torch.cond` keeps both branches in it and runs one.

Before:

    if x.mean() > 0:
        y = self.a(x)
    else:
        y = self.b(x)

After:

    y = _cond(x.mean() > 0, lambda: self.a(x), lambda: self.b(x))

The function `_cond`, written below the imports, calls `torch.cond` in compiled code. Eager code
calls one of the two functions: there `torch.cond` would compile both at every call, for
milliseconds.

Only the branch that is taken is computed, so nothing is asked of the values of the other. Branches
of several statements become local functions. A branch that returns a tensor that was there before
returns a copy of it, because `torch.cond` allows no aliases. It also wants both results to have the
same order of strides: where one branch transposes, as `x.t()`, its result is made contiguous.

Unsafe where it is not known that both values have the same dtype and shape, which `torch.cond`
requires, and where something that only one branch uses gets a gradient of zero, and got none when
the other branch was taken.

Refuses: branches that print or change anything, such as the running statistics of a batch norm;
values of different shapes; numbers, strings and None as values; and tensors that require grad and
that one branch transposes, as their gradients would differ in the order of strides.
"""

from __future__ import annotations

import functools

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.rules.branches import use_where
from fullgraph.rewrites.transforms.branches.use_cond import CondWriter
from fullgraph.rewrites.transforms.branches.whole_branch import (
    edits_for_branch,
    rewrite_conditional,
)

_WHY = "`torch.cond` keeps both branches in the graph and runs the one that is taken."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    conditional = CondWriter(site)
    return rewrite_conditional(
        site, conditional, _WHY, functools.partial(edits_for_branch, conditional)
    )


RULE = Rule("FG302", "use-cond", use_where.RULE.categories, rewrite)
