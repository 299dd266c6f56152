"""A `while` on a tensor ends the graph; `torch.while_loop` keeps the loop in it.

Before:

    while x.norm() > 1:
        x = x / 2

After:

    (x,) = _while_loop(lambda x: x.norm() > 1, lambda x: (x / 2,), (x,))

The function `_while_loop`, written below the imports, calls `torch.while_loop` in compiled code,
and loops in eager code, where `torch.while_loop` would compile at every call.

What the loop changes is handed from iteration to iteration. Bodies of several statements become a
local function. A Python number that counts becomes a tensor.

Unsafe where it is not known that what is handed on keeps its dtype, shape and strides, which
`torch.while_loop` requires, and where a counter is used after the loop.

Refuses: bodies that print or change anything but local names, change tensors in place, or leave the
loop by `break`, `continue` or `return`; `while … else`; tensors that are changed in place after the
loop, which are those from before it where it does not run; numbers that are multiplied, without a
bound in the loop's test, for a tensor holds 64 bits of them.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.branches.agreement import rewrite_assuming
from fullgraph.rewrites.transforms.branches.predicate import find_condition
from fullgraph.rewrites.transforms.branches.use_while_loop import WhileLoopWriter

_WHY = "`torch.while_loop` keeps the loop in the graph."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = find_condition(site)
    node = found.find_conditional if found is not None and found.gone is None else None
    if not isinstance(node, cst.While):
        return None
    looping = WhileLoopWriter(site, node)
    try:
        lines = looping.lines()
    except NotApplicable as escape:
        return Refusal(str(escape))
    return rewrite_assuming(
        site.document, {node: cst.FlattenSentinel(lines)}, _WHY, looping.assumes
    )


_CATEGORIES = (Category.BRANCH, Category.COMPARISON, Category.SCALAR, Category.GUARD)

RULE = Rule("FG303", "use-while-loop", frozenset(one.value for one in _CATEGORIES), rewrite)
