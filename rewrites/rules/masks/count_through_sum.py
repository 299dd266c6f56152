"""`len(m.nonzero())` makes a tensor whose size depends on the data, only to ask for that size.

TorchDynamo cannot give the indices a shape in its default mode and breaks the graph there.

Before:

    loss = loss.sum() / torch.nonzero(valid).size(0)

After:

    loss = loss.sum() / valid.sum()

Likewise `.shape[0]`, `.numel()`, `torch.where(m)[0]`, `argwhere`, and `len(torch.unique(t))`, which
counts the steps in the sorted elements. What is not boolean is counted by `count_nonzero`.

The count becomes a tensor. Unsafe where that shows: where it is returned.

Refuses: a count that Python needs as a number (a `range`, a shape, an `if`).
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.masks.nonzero import (
    NonzeroIndices,
    QuestionKind,
    find_indices,
    parse_nonzero,
    question_of,
)

_WHY = "A sum counts at a fixed shape."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    node = site.node
    if not isinstance(node, cst.Call):
        return None
    mask = parse_nonzero(site, node)
    if mask is not None:
        found = find_indices(site)
        count = _count_nonzero(site, mask[0])
    elif site.callee_name(node) in ("torch.unique", "torch.Tensor.unique") and len(node.args) < 2:
        found = _distinct_elements(site, node)
        count = _count_distinct(site, node)
    else:
        return None
    asked = (
        question_of(site, found, node if found.value is node else found.value) if found else None
    )
    if found is None or found.bound or asked is None or asked.asked is not QuestionKind.COUNT:
        return None
    if site.document.code(asked.node).endswith("numel()") and not (found.flat or found.dims == 1):
        return Refusal("each index has several numbers")
    parent = site.document.parent(asked.node)
    if isinstance(parent, cst.BinaryOperation):
        other = parent.right if parent.left is asked.node else parent.left
        if site.is_tensor(other):
            return Rewrite({asked.node: count}, _WHY, imports=("torch",))
    if isinstance(parent, cst.Return):
        assumes = ("code that reads the count accepts a tensor",)
        return Rewrite(
            {asked.node: count}, _WHY, Applicability.UNSAFE, assumes, ("torch",), numbers=True
        )
    return Refusal(f"Python needs `{site.document.code(asked.node)}` as a number")


def _count_nonzero(site: Site, mask: cst.BaseExpression) -> cst.BaseExpression:
    """Return the code that counts the nonzero elements of a mask.

    It is `mask.sum()` if the mask's dtype was bool in the run, else `torch.count_nonzero(mask)`.
    """
    seen = site.observed(mask)
    if seen is not None and seen.dtypes == {"bool"}:
        return build_expression("{mask}.sum()", mask=mask)
    name = site.document.imported_name("torch.count_nonzero") or "torch.count_nonzero"
    return build_expression(name + "({mask})", mask=mask.with_changes(lpar=(), rpar=()))


def _distinct_elements(site: Site, call: cst.Call) -> NonzeroIndices:
    """Describe a `unique` call as a `NonzeroIndices`, the description of a `nonzero` call.

    The functions that analyze the uses of nonzero indices then accept it.
    """
    return NonzeroIndices(call, 1, False, call, True, (call,), False)


def _count_distinct(site: Site, call: cst.Call) -> cst.BaseExpression:
    """Return the code that counts the distinct elements of `x`, for the call `x.unique()`.

    It is `(x.sort().values.diff() != 0).sum() + 1` for a 1-d tensor.
    """
    tensor = call.args[0].value if call.args else cst.ensure_type(call.func, cst.Attribute).value
    seen = site.observed(tensor)
    flat = "" if seen is not None and seen.dims == {1} else ".flatten()"
    template = "({tensor}" + flat + ".sort().values.diff() != 0).sum() + 1"
    return build_expression(template, tensor=tensor)


RULE = Rule(
    "FG404",
    "count-through-sum",
    frozenset({Category.NONZERO.value, Category.DYNAMIC_SHAPE.value}),
    rewrite,
)
