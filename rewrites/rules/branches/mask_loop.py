"""A data-dependent `break` ends the graph; every iteration runs, and later results are masked.

Before:

    for _ in range(10):
        x = x * 2
        if x.sum() > 100:
            break

After:

    done = torch.zeros((), dtype=torch.bool, device=x.device)
    for _ in range(10):
        x = torch.where(done, x, x * 2)
        done = done | (x.sum() > 100)
        if not torch.compiler.is_compiling() and done:
            break

What only later iterations read is not masked, unless it may require grad or raise. A flag of the
program that is set before the `break`, `reached = True`, takes the place of `done`.

A `return` in the loop is rewritten the same way: its value is chosen after the loop. A name
that gets its first value in the loop is None before. What Python decides stays an `if`:
`if step > 2 and t: break` becomes `if step > 2: done = done | t`. A number that only the condition
reads stays a tensor: `change = a.norm().item() / b.norm().item()`. The variable of a `range` that
is used after the loop keeps its value at the exit.

Compiled, the loop always runs to its end: this pays for short loops, which are unrolled in the
graph anyway.

Unsafe where it is not known that what the loop assigns keeps its dtype and shape, that a loop which
gives names their first values has an iteration, and where a number becomes a tensor.

Refuses: bodies that print or draw random numbers; tensors that grow in each iteration; `for …
else`; and variables of loops over anything but a `range` that are used after the loop.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, split_statements
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.branches.agreement import rewrite_assuming
from fullgraph.rewrites.transforms.branches.masked_loop import MaskedLoop
from fullgraph.rewrites.transforms.branches.predicate import find_condition

_WHY = "Compiled, every iteration runs; what those after the exit compute is not used."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = find_condition(site)
    node = found.find_conditional if found is not None and found.gone is None else None
    if not isinstance(node, cst.If) or not _leaves_loop(site, node):
        return None
    masking = MaskedLoop(site, node)
    try:
        edits = masking.edits()
    except NotApplicable as escape:
        return Refusal(str(escape))
    return rewrite_assuming(
        site.document, edits, _WHY, masking.assumes, [node.test], has_shortcut=True
    )


def _leaves_loop(site: Site, node: cst.If) -> bool:
    """Return whether an `if` ends in a `break`, or is in a `for` loop and ends in a `return`."""
    last = split_statements(node.body)[-1]
    loop = site.document.parent(site.document.parent(node))
    return isinstance(last, cst.Break) or (
        isinstance(last, cst.Return) and isinstance(loop, cst.For)
    )


_CATEGORIES = (
    Category.BRANCH,
    Category.COMPARISON,
    Category.SCALAR,
    Category.GUARD,
    Category.LOOP,
)

RULE = Rule("FG304", "mask-loop", frozenset(one.value for one in _CATEGORIES), rewrite)
