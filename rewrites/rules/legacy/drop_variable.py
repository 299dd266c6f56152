"""`Variable(t)` is an empty wrapper since torch 0.4, and TorchDynamo does not trace it.

Before:

    return x * Variable(torch.ones(4), requires_grad=False)

    return Variable(mask)

After:

    return x * torch.ones(4)

    return mask.detach()

The wrapper cuts the tensor off from autograd, and `.detach()` takes its place wherever the tensor
may ask for a gradient. Tensors that the same function makes as `torch.FloatTensor(x.size())` become
`torch.empty(x.size(), …)`, or `torch.full` if they are filled: in a graph they would be tensors of
the sizes themselves.

Unsafe where such a class is an attribute or a variable, which may hold another one.

Refuses: `volatile=`, and `requires_grad=True`, which makes a new leaf for autograd.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site, walk, word_set
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression

_NAMES = ("torch.autograd.Variable", "torch.autograd.variable.Variable", "torch.Variable")
_FACTORIES = word_set(
    """
    arange empty empty_like eye full full_like linspace logspace ones ones_like rand rand_like
    randint randint_like randn randn_like randperm tensor zeros zeros_like
    """
)
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
    return Rewrite(
        {call: new, **sized},
        why,
        Applicability.UNSAFE if assumes else Applicability.SAFE,
        assumes,
        ("torch",) if sized else (),
    )


def _requires_no_grad(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether a value is known to be a number or a tensor without `requires_grad`."""
    seen = site.observed(node)
    if seen is not None and (
        seen.is_number or (seen.is_tensor and not _can_require_grad(seen.dtypes))
    ):
        return True
    match node:
        case cst.Integer() | cst.Float() | cst.Comparison():
            return True
        case cst.Attribute():
            return node.attr.value == "data"
        case cst.UnaryOperation():
            return _requires_no_grad(site, node.expression)
        case cst.BinaryOperation():
            return all(_requires_no_grad(site, one) for one in (node.left, node.right))
        case cst.Call():
            return _makes_constant(site, node)
    return False


def _makes_constant(site: Site, call: cst.Call) -> bool:
    """Return whether a call is known to return a tensor that requires no gradient."""
    named = site.callee_name(call)
    if any(arg.keyword is not None and arg.keyword.value == "requires_grad" for arg in call.args):
        return False
    if named in _OLD or (named.startswith("torch.") and named[6:] in _FACTORIES):
        return True
    if not isinstance(call.func, cst.Attribute):
        return False
    method = call.func.attr.value
    if method == "new" or method.startswith(("new_", "detach")):
        return site.observed(call.func.value) is None or site.is_tensor(call.func.value)
    parts = [call.func.value, *(arg.value for arg in call.args)]
    return site.is_tensor(call.func.value) and all(_requires_no_grad(site, one) for one in parts)


def _can_require_grad(dtypes: frozenset[str]) -> bool:
    return any("float" in dtype or "complex" in dtype for dtype in dtypes)


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
