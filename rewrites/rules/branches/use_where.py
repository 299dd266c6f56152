"""A branch on a tensor ends the graph; `torch.where` computes both branches and selects.

Before:

    if x.sum() == 0:
        return x * 0
    return x / x.sum()

After:

    condition = x.sum() == 0
    return torch.where(condition, x * 0, x / torch.where(condition, 1, x.sum()))

It rewrites `if`, `elif` and `else`, early returns, conditional expressions, attributes as targets
and several targets at once; `continue` and a bare `return`, where what they skip is the other
branch; tensors that a branch changes in place: `best.copy_(y)` becomes
`best.copy_(torch.where(t, y, best))`; lists to which both branches append one value; and lists to
which one branch appends, if later code only adds up, averages or counts what is in them: the other
branch appends zero, and a second list says which elements count.
Conditions may be joined by `and`, `or` and `not`, and may be `torch.equal`, `torch.allclose`,
`t.item() > 0` or `bool(t)`.

Where only one branch calls layers, or fills a buffer with part of a batch, eager code still skips
that: `if torch.compiler.is_compiling() or condition:` stands before the selection, or, after an
early exit, `if not torch.compiler.is_compiling() and condition:` before what it skips. A bare
`return` stays in eager code too, and an early return before more layers than it calls.

A layer or function of the file that both branches call with the same arguments is called once:
`net_out = self.net(x)` comes before the selection. Where `c = self.net(x)` follows an early return
of `self.net(x)`, `c` is selected.

Lines of a branch that print, log or warn come before it, for eager code alone; both branches may
set an item of a dict.

An index that the condition tests stays in range: `table[i] if i >= 0 else one` becomes
`torch.where(i >= 0, table[i.clamp(min=0)[None]].squeeze(0), one)`. Where `torch.equal(a, b)` lets
a branch compute once what the other one computes of `a` and of `b`, the other one stays.

Where the branch that is not taken could give inf or NaN, or an infinite gradient, a second
`torch.where` gives it a harmless operand: else its gradient would be zero times infinity, NaN.
Under `if mask.any():` a loss of what the mask selects gets `mask | ~mask.any()`, never empty.
An update through that mask alone, `x[:, mask] *= 2`, needs no selection.

Unsafe where it is not known that both values have the same dtype and shape, where a number
becomes a tensor, and where something that only one branch uses gets a gradient of zero, and got
none when the other branch was taken; where a branch prints; and where a branch gathers by an index
that may be out of range.

Refuses: branches that draw random numbers or may raise otherwise; values of different shapes; names
that only one branch assigns; and a loss that is replaced where it is NaN, because its gradient
would be NaN all the same: test it after the compiled call, and skip the step there.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, has_raise, infer
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement
from fullgraph.rewrites.transforms.branches.predicate import Predicate, find_conditional
from fullgraph.rewrites.transforms.branches.tested import tested_for_finiteness
from fullgraph.rewrites.transforms.branches.use_where import WhereWriter
from fullgraph.rewrites.transforms.branches.whole_branch import (
    Node,
    edits_for_branch,
    rewrite_conditional,
)

_WHY = "`torch.where` computes both branches and selects: no branch depends on data."
_FINITE_GUARD = (
    "where `{tensor}` is not finite, `torch.where` gives a gradient of NaN, and the branch gives "
    "none: test it after the compiled call, and skip the step there"
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    selection = WhereWriter(site)

    def edits(node: Node, condition: Predicate) -> dict[cst.CSTNode, Replacement]:
        """Return the edits that replace an `if` by `torch.where`."""
        test = selection.choice(condition)
        test.random = True  # it is worked out once, before both branches
        test.require_pure(condition.tensor)
        return edits_for_branch(selection, node, condition)

    made = rewrite_conditional(site, selection, _WHY, edits)
    return _refuse_finite_guard(site, made) if isinstance(made, Refusal) else made


def _refuse_finite_guard(site: Site, refusal: Refusal) -> Refusal:
    """Return `refusal`, or what to do instead of a test that keeps NaN away from the gradient."""
    found = find_conditional(site)
    if found is None or has_raise(site.document, found):
        return refusal
    tensor = tested_for_finiteness(site, found.test)
    seen = infer(site, tensor) if tensor is not None else None
    if tensor is None or seen is None or not seen.requires_grad:
        return refusal
    code = site.document.code(tensor)
    return Refusal(_FINITE_GUARD.format(tensor=code), advises=True)


_CATEGORIES = (Category.BRANCH, Category.COMPARISON, Category.SCALAR, Category.GUARD)

RULE = Rule("FG301", "use-where", frozenset(one.value for one in _CATEGORIES), rewrite)
