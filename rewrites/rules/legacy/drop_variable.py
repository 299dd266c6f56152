"""`Variable(t)` is an empty wrapper since torch 0.4, and TorchDynamo does not trace it.

Before:

    return x * Variable(torch.ones(4), requires_grad=False)

    return Variable(mask)

After:

    return x * torch.ones(4)

    return mask.detach()

The wrapper cuts the tensor off from autograd, and `.detach()` takes its place wherever the tensor
may ask for a gradient; `x = Variable(x)` goes where it does not. Tensors that the same function
makes as `torch.FloatTensor(x.size())` become `torch.empty(x.size(), …)`, or `torch.full` if they
are filled: in a graph they would be tensors of the sizes themselves.

Unsafe where such a class is an attribute or a variable, which may hold another one.

Refuses: `volatile=`, and `requires_grad=True`, which makes a new leaf for autograd.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site, has_no_gradient, removable_line, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement, build_expression

_NAMES = ("torch.autograd.Variable", "torch.autograd.variable.Variable", "torch.Variable")
_OLD = {
    "torch.FloatTensor": ', dtype=torch.float32, device="cpu"',
    "torch.DoubleTensor": ', dtype=torch.float64, device="cpu"',
    "torch.HalfTensor": ', dtype=torch.float16, device="cpu"',
    "torch.LongTensor": ', dtype=torch.int64, device="cpu"',
    "torch.IntTensor": ', dtype=torch.int32, device="cpu"',
    "torch.ShortTensor": ', dtype=torch.int16, device="cpu"',
    "torch.CharTensor": ', dtype=torch.int8, device="cpu"',
    "torch.ByteTensor": ', dtype=torch.uint8, device="cpu"',
    "torch.BoolTensor": ', dtype=torch.bool, device="cpu"',
    "torch.Tensor": "",
}
"""Legacy constructors, and the options with which `torch.empty` makes the same tensor."""


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = site.node
    if not isinstance(call, cst.Call) or site.callee_name(call) not in _NAMES:
        return None
    tensor, *options = call.args
    if (tensor.keyword is not None and tensor.keyword.value != "data") or tensor.star:
        return Refusal("its arguments are not spelled out")
    for option in options:
        if option.keyword is None or option.keyword.value != "requires_grad":
            return Refusal("it takes more than `requires_grad`")
        if not isinstance(option.value, cst.Name) or option.value.value != "False":
            return Refusal("with `requires_grad=True` it makes a new leaf for autograd")
    sized, assumes = _replace_sized_constructors(site)
    if _requires_no_grad(site, tensor.value):
        new, why = tensor.value, "The wrapper does nothing since torch 0.4."
        inside = [one for one in sized if one in set(walk(new))]
        if inside:
            replaced = new.deep_replace(inside[0], sized.pop(inside[0]))
            assert isinstance(replaced, cst.BaseExpression)
            new = replaced
    else:
        new = build_expression("{tensor}.detach()", tensor=tensor.value)
        why = "`.detach()` is what the wrapper still did."
    edits: dict[cst.CSTNode, Replacement] = {call: new, **sized}
    parent, line = site.document.parent(call), removable_line(site.document, call)
    targets = parent.targets if isinstance(parent, cst.Assign) else ()
    if line is not None and len(targets) == 1 and targets[0].target.deep_equals(new):
        edits = {line: cst.RemoveFromParent(), **sized}
    return Rewrite(
        edits,
        why,
        assumes=assumes,
        imports=("torch",) if sized else (),
    )


def _requires_no_grad(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether a value is known to be a number or a tensor without `requires_grad`."""
    seen = site.observed(node)
    return (seen is not None and seen.is_number) or has_no_gradient(site, node)


def _replace_sized_constructors(
    site: Site,
) -> tuple[dict[cst.CSTNode, cst.BaseExpression], tuple[str, ...]]:
    """Return edits of legacy constructors called with a size, and what the edits assume.

    `torch.FloatTensor(x.size())` becomes `torch.empty(x.size())`.
    """
    function = site.document.function(site.node)
    made: dict[cst.CSTNode, cst.BaseExpression] = {}
    assumes: dict[str, None] = {}
    for call in walk(function) if function is not None else ():
        if (
            not isinstance(call, cst.Call)
            or site.callee_name(call) not in _OLD
            or len(call.args) != 1
        ):
            continue
        size, kind = call.args[0], site.callee_name(call)
        seen = site.observed(size.value)
        if size.star or size.keyword or seen is None or seen.types != ("torch.Size",):
            continue
        whole, value = _fill_of(site, call)
        if value is None:
            made[whole] = build_expression(f"torch.empty({{size}}{_OLD[kind]})", size=size.value)
        else:
            number = site.document.code(value) if isinstance(value, cst.BaseNumber) else value
            template = f"torch.full({{size}}, {{number}}{_OLD[kind]})"
            made[whole] = build_expression(template, size=size.value, number=number)
        if site.document.qualified_name(call.func) != kind:
            assumes[f"`{site.document.code(call.func)}` is always `{kind}`"] = None
    return made, tuple(assumes)


def _fill_of(site: Site, call: cst.Call) -> tuple[cst.Call, cst.BaseExpression | None]:
    """Return the call of `.fill_(value)` on a new tensor, and the value; else (`call`, None)."""
    parent = site.document.parent(call)
    outer = site.document.parents.get(parent)
    match outer:
        case cst.Call(
            func=cst.Attribute(attr=cst.Name("fill_")), args=[cst.Arg(keyword=None, star="")]
        ) if outer.func is parent:
            value = outer.args[0].value
            seen = site.observed(value)
            if isinstance(value, cst.BaseNumber) or (seen is not None and seen.is_number):
                return outer, value
    return call, None


RULE = Rule("FG601", "drop-variable", frozenset({Category.VARIABLE.value}), rewrite)
