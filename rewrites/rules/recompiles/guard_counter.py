"""A counter or a list that the result does not depend on is kept for eager code alone.

Dynamo guards on a Python number that it reads, and on the length of a list: `self.count += 1`
compiles the program again in each call. `torch.compiler.is_compiling()` is a constant for it, and
the branch goes away.

Before:

    self.count += 1
    self.seen.append(h.detach())

After:

    if not torch.compiler.is_compiling():
        self.count += 1
    if not torch.compiler.is_compiling():
        self.seen.append(h.detach())

Always unsafe: the compiled program does not count. Count outside of it where the number is needed.

Refuses: values that the function reads, apart from the update, and updates that do something else
as well (`self.hooks.append(layer.register_forward_hook(hook))`).
"""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.analysis import Site, find_state_uses, side_effect_of
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.eager_only import run_in_eager_only

CATEGORIES = frozenset({"recompile: number attribute", "recompile: global", "recompile: length"})


def rewrite(site: Site) -> Rewrite | Refusal | None:
    uses = find_state_uses(site.document, site.node)
    if uses is None or not uses.updates:
        return None
    functions = {site.document.function(statement) for statement in uses.updates}
    if any(site.document.function(read) in functions for read in uses.reads):
        return Refusal(f"`{uses.name}` is read where it is updated")
    for statement in uses.updates:
        if effect := side_effect_of(site, *_added(statement)):
            return Refusal(f"its update would not happen in the compiled program, and {effect}")
    last = uses.name.rpartition(".")[2]
    return Rewrite(
        {statement: run_in_eager_only(site.document, statement) for statement in uses.updates},
        f"The compiled program does not update `{uses.name}`, and does not guard on it.",
        Applicability.UNSAFE,
        (f"nobody needs `{uses.name}` of calls to the compiled program",),
        imports=("torch",),
        exempts=frozenset({f"state of {last}"}),
    )


def _added(update: cst.SimpleStatementLine) -> list[cst.BaseExpression]:
    """Return what an update adds: `h` of `self.seen.append(h)`, `1` of `self.count += 1`."""
    match update.body[0]:
        case cst.AugAssign(value=value):
            return [value]
        case cst.Expr(value=cst.Call(args=arguments)):
            return [one.value for one in arguments]
    raise AssertionError(f"no update of a counter or a list: {update}")


RULE = Rule("FG851", "guard-counter", CATEGORIES, rewrite)
