"""`Variable(t)` is an empty wrapper since torch 0.4, and TorchDynamo does not trace it.

Before:

    return x * Variable(torch.ones(4), requires_grad=False)

After:

    return x * torch.ones(4)

The wrapper cuts the tensor off from autograd: where the tensor asks for a gradient, `.detach()`
takes its place. Unsafe where it is not known whether it asks for one.

Refuses: `requires_grad=True` and `volatile=`, which make a new leaf for autograd, and anything that
was seen not to be a tensor.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.rewrites.build import expression
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.site import Site

_NAMES = ("torch.autograd.Variable", "torch.autograd.variable.Variable", "torch.Variable")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = site.node
    if not isinstance(call, cst.Call) or site.calls(call) not in _NAMES:
        return None
    tensor, *options = call.args
    if (tensor.keyword is not None and tensor.keyword.value != "data") or tensor.star:
        return Refusal("its arguments are not spelled out")
    for option in options:
        if option.keyword is None or option.keyword.value != "requires_grad":
            return Refusal("it takes more than `requires_grad`")
        if not isinstance(option.value, cst.Name) or option.value.value != "False":
            return Refusal("with `requires_grad=True` it makes a new leaf for autograd")
    seen = site.seen(tensor.value)
    if seen is not None and seen.requires_grad:
        detached = expression("{tensor}.detach()", tensor=tensor.value)
        return Rewrite({call: detached}, "`.detach()` is what the wrapper still did.")
    return Rewrite(
        {call: tensor.value},
        "The wrapper does nothing since torch 0.4.",
        Applicability.UNSAFE if seen is None else Applicability.SAFE,
        ("the tensor asks for no gradient",) if seen is None else (),
    )


RULE = Rule("FG601", "drop-variable", frozenset({Category.VARIABLE.value}), rewrite)
