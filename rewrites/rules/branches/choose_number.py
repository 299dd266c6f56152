"""A scalar extracted from a tensor, and a branch on it: the scalar can stay a tensor.

Before:

    total = float(w.sum())
    if total == 0:
        total = 1.0
    return w / total

After:

    total = w.sum().detach()
    total = torch.where(total == 0, 1.0, total)
    return w / total

A count likewise, which stays an int64 tensor:

    count = mask.sum()
    count = torch.where(count == 0, 1, count)
    loss /= count

The number is followed to all places where it is used: branches on it become `torch.where` or
`torch.cond`, as in FG301 and FG302. Like a Python number, it has no gradient.

Unsafe where `torch.where` is (see FG301).

Refuses: numbers that are used as sizes, indices, keys or text, that are returned, or that stand
next to tensors that are not of a floating dtype; `int()` of floating-point numbers.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, infer, is_new_tensor, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression, dotted_name
from fullgraph.rewrites.transforms.branches.agreement import rewrite_assuming, used_names
from fullgraph.rewrites.transforms.branches.predicate import tensor_of
from fullgraph.rewrites.transforms.branches.scalars import Numbers, find_scalar_sources

_WHY = "The number stays a tensor without dimensions, which chooses, so the graph goes on."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    for call in find_scalar_sources(site):
        tensor = tensor_of(site, call)
        seen = infer(site, tensor)
        if tensor is call or seen is None or len(seen.dtypes) != 1 or not _is_assigned(site, call):
            continue
        (dtype,) = seen.dtypes
        is_int = dtype == "int64" and dotted_name(call.func) != "float"
        if seen.dims != {0} or not (is_int or all(one.is_float for one in seen.tensors)):
            return Refusal("the number is not a float or int64 of a tensor without dimensions")
        exact = "{t}" if is_new_tensor(site, tensor) else "{t}.clone()"
        forms = [(exact, dtype), ("{t}.double()", "float64")]
        if not is_int:
            forms = [("{t}.detach()", dtype), ("{t}.detach().double()", "float64")]
        try:
            numbers = _follow(site, call, tensor, forms)
            if not numbers.decisions:
                return None
            edits = numbers.edits()
        except NotApplicable as escape:
            return Refusal(str(escape))
        return rewrite_assuming(
            site.document,
            edits,
            _WHY,
            numbers.assumes,
            numbers.tests,
            has_shortcut=numbers.has_shortcut,
        )
    return None


def _follow(
    site: Site, call: cst.Call, tensor: cst.BaseExpression, forms: list[tuple[str, str]]
) -> Numbers:
    """Return the uses of a number, whose tensor has the first dtype that keeps its decisions exact.

    `forms` are two texts for the tensor, each with its dtype. Raises NotApplicable.
    """
    (text, dtype), double = forms
    seen = infer(site, tensor)
    assert seen is not None
    numbers = Numbers(site, {call: build_expression(text, t=tensor)})
    try:
        numbers.follow(call, dtype, seen.tensors[0].device)
        if dtype == "int64":
            exact = all(_is_whole(site, one) for one in numbers.decisions)
        else:
            exact = all(_is_exact_in_float32(site, one.test) for one in numbers.decisions)
        if exact:
            return numbers
    except NotApplicable:
        if dtype != "int64":
            raise
    text, dtype = double
    numbers = Numbers(site, {call: build_expression(text, t=tensor)})
    numbers.follow(call, dtype, seen.tensors[0].device)
    return numbers


def _is_whole(site: Site, decision: cst.If | cst.IfExp) -> bool:
    """Return whether all numbers in a conditional are known to be ints, and none is divided."""
    for one in walk(decision):
        match one:
            case cst.Float() | cst.DivideAssign():
                return False
            case cst.BinaryOperation(operator=cst.Divide()):
                if not any(map(site.is_tensor, (one.left, one.right))):
                    return False
    for node in used_names([decision]).values():
        parent, seen = site.document.parent(node), infer(site, node)
        if isinstance(parent, cst.Call) and parent.func is node:
            continue
        if seen is None or (seen.is_number and "float" in seen.types):
            return False
    return True


def _is_exact_in_float32(site: Site, condition: cst.BaseExpression) -> bool:
    """Return whether a comparison with numbers gives the same result in float32 as in float64.

    True for `x > 0.5`. False if a float literal is not a multiple of 1/8, such as 0.1, or if two
    or more of the variables were Python numbers in the run.
    """
    literals = [one for one in walk(condition) if isinstance(one, cst.Float)]
    names = [one for one in walk(condition) if isinstance(one, cst.Name | cst.Attribute)]
    numbers = [seen for one in names if (seen := site.observed(one)) is not None and seen.is_number]
    return len(numbers) <= 1 and all(one.evaluated_value * 8 % 1 == 0 for one in literals)


def _is_assigned(site: Site, call: cst.Call) -> bool:
    """Return whether `call` is the whole right-hand side of an assignment: `x = call()`.

    Calls inside a condition are left to rule FG301.
    """
    return isinstance(site.document.parent(call), cst.Assign)


_CATEGORIES = (Category.BRANCH, Category.COMPARISON, Category.SCALAR, Category.GUARD)

RULE = Rule("FG305", "choose-number", frozenset(one.value for one in _CATEGORIES), rewrite)
