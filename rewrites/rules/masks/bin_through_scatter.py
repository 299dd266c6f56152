"""`torch.bincount(x, minlength=n)` has a length that depends on the data.

The result is longer than `n` where an element is `n` or more, so TorchDynamo breaks the graph there
in its default mode. Where all elements are below `n`, counting into `n` places is the same.

Before:

    count = torch.bincount(labels, minlength=10)

After:

    count = torch.zeros(10, dtype=torch.long, device=labels.device).scatter_add_(
        0, labels, torch.ones_like(labels)
    )

With `weights` the weights are added up instead of ones.

Safe where the elements are known to be below `n`: `argmax` over a dimension of that size,
`clamp(max=n - 1)`, `% n`. Unsafe elsewhere: an element that is too large would make the result
longer, and is an error now.

Refuses: no `minlength`, because then the data alone decides.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, find_definitions
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression, integer_literal

_NAMES = ("torch.bincount", "torch.Tensor.bincount")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = site.node
    if not isinstance(call, cst.Call) or site.callee_name(call) not in _NAMES:
        return None
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    if site.callee_name(call) == "torch.Tensor.bincount" and isinstance(call.func, cst.Attribute):
        plain.insert(0, call.func.value)
    names = ("input", "weights", "minlength")
    given |= dict(zip(names, plain, strict=False))
    tensor, weights, length = (given.get(name) for name in names)
    if tensor is None or length is None:
        return Refusal("without `minlength` the data alone decide how many bins there are")
    if not isinstance(tensor, cst.Name | cst.Attribute):
        return Refusal(f"`{site.document.code(tensor)}` has no name: give it one")
    if isinstance(weights, cst.Name) and weights.value == "None":
        weights = None
    seen, parts = site.observed(tensor), {"x": tensor, "n": length}
    bare = site.document.code(tensor)
    index: cst.BaseExpression = tensor
    if seen is None or seen.dtypes != {"int64"}:
        index = build_expression("{x}.long()", x=tensor)
    what: cst.BaseExpression = build_expression(
        "{torch}.ones_like({x})", torch=_torch_name(site), x=index
    )
    dtype = f"{_torch_name(site)}.long"
    if weights is not None:
        weight = site.observed(weights)
        single = weight is not None and weight.dtypes == {"float32"}
        dtype = f"{_torch_name(site)}.{'float' if single else 'double'}"
        same = single or (weight is not None and weight.dtypes == {"float64"})
        what = weights if same else build_expression("{w}.double()", w=weights)
    made = build_expression(
        "{torch}.zeros({n}, dtype={dtype}, device={x}.device).scatter_add_(0, {index}, {what})",
        torch=_torch_name(site),
        dtype=dtype,
        index=index,
        what=what,
        **parts,
    )
    if weights is not None and (seen := site.observed(weights)) is not None and seen.requires_grad:
        return Refusal("`bincount` gives the weights no gradient, and adding them up would")
    below = _is_below(site, tensor, length)
    assumes = () if below else (f"no element of `{bare}` is {site.document.code(length)} or more",)
    return Rewrite(
        {call: made},
        "Counting into a fixed number of places has a fixed shape.",
        Applicability.SAFE if below else Applicability.UNSAFE,
        assumes,
        imports=("torch",),
    )


def _torch_name(site: Site) -> str:
    return site.document.torch


def _is_below(site: Site, tensor: cst.BaseExpression, length: cst.BaseExpression) -> bool:
    """Return whether the variable `tensor` is known to hold only values from 0 to `length - 1`.

    This is decided by the expression that was assigned to the variable, such as `y % length`.
    """
    known = find_definitions(site.document, tensor)
    if known is None or not isinstance(tensor, cst.Name):
        return False
    bindings = known.reaching.get(tensor, frozenset())
    parent = site.document.parents.get(next(iter(bindings))) if len(bindings) == 1 else None
    if not isinstance(parent, cst.AssignTarget):
        return False
    assign = site.document.parent(parent)
    return isinstance(assign, cst.Assign) and _is_value_below(site, assign.value, length)


def _is_value_below(site: Site, value: cst.BaseExpression, length: cst.BaseExpression) -> bool:
    """Return whether the tensor `value` is known to have only elements from 0 to `length - 1`.

    True for `x % length`, and for `x.clamp(0, 7)` if `length` is 8.
    """
    code = site.document.code
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Modulo):
        return code(value.right) == code(length)
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return False
    name, args = value.func.attr.value, value.args
    if name in ("flatten", "view", "reshape", "long", "ravel"):
        return _is_value_below(site, value.func.value, length)
    if name == "clamp" and [a.keyword.value if a.keyword else "" for a in args] in (
        ["", ""],
        ["min", "max"],
    ):
        low, high, size = (
            integer_literal(args[0].value),
            integer_literal(args[1].value),
            integer_literal(length),
        )
        return low == 0 and high is not None and size is not None and high < size
    seen = site.observed(value.func.value)
    size = integer_literal(length)
    if name == "argmax" and seen is not None and len(args) == 1 and size is not None:
        dim = integer_literal(args[0].value)
        return dim is not None and all(shape[dim] <= size for shape in seen.shapes)
    return False


RULE = Rule("FG408", "bin-through-scatter", frozenset({Category.BINCOUNT.value}), rewrite)
