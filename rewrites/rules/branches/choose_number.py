"""A number taken out of a tensor, and a branch on it: the number can stay a tensor.

Before:

    total = float(w.sum())
    if total == 0:
        total = 1.0
    return w / total

After:

    total = w.sum().detach()
    total = torch.where(total == 0, 1.0, total)
    return w / total

The number is followed to all places where it is used: branches on it become `torch.where` or
`torch.cond`, as in FG301 and FG302. Like a Python number, it has no gradient.

Unsafe where `torch.where` is (see FG301).

Refuses: numbers that are used as sizes, indices, keys or text, that are returned, or that stand
next to tensors that are not of a floating dtype; `int()` of floating-point numbers.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, infer, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.branches.agreement import rewrite_assuming
from fullgraph.rewrites.transforms.branches.predicate import tensor_of
from fullgraph.rewrites.transforms.branches.scalars import Numbers, find_scalar_sources

_WHY = "The number stays a tensor without dimensions, which chooses, so the graph goes on."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    for call in find_scalar_sources(site):
        tensor = tensor_of(site, call)
        seen = infer(site, tensor)
        if tensor is call or seen is None or len(seen.dtypes) != 1 or not _is_assigned(site, call):
            continue
        if seen.dims != {0} or not all(one.is_float for one in seen.tensors):
            return Refusal("the number is not one of a floating-point tensor without dimensions")
        numbers = Numbers(site, {call: build_expression("{t}.detach()", t=tensor)})
        try:
            numbers.follow(call, seen.tensors[0].dtype, seen.tensors[0].device)
            if not numbers.decisions:
                return None
            if not all(_is_exact_in_float32(site, one.test) for one in numbers.decisions):
                numbers = Numbers(site, {call: build_expression("{t}.detach().double()", t=tensor)})
                numbers.follow(call, "float64", seen.tensors[0].device)
            edits = numbers.edits()
        except NotApplicable as escape:
            return Refusal(str(escape))
        return rewrite_assuming(edits, _WHY, numbers.assumes, numbers.tests)
    return None


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
