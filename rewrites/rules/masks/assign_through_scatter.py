"""`x[order[m]] = c` assigns at the places that a mask selects from the indices of a sort.

TorchDynamo cannot give `order[m]` a shape in its default mode and breaks the graph there. As each
place occurs once in `order`, the mask itself can be scattered.

Before:

    ordered, order = logits.sort(descending=True)
    remove = ordered.softmax(-1).cumsum(-1) > 0.9
    logits[order[remove]] = float("-inf")

After:

    ordered, order = logits.sort(descending=True)
    remove = ordered.softmax(-1).cumsum(-1) > 0.9
    logits.masked_fill_(
        torch.zeros_like(logits, dtype=torch.bool).scatter(0, order, remove), float("-inf")
    )

Also where the selected indices have a name, and for one row of a batch: `logits[i, order[i][m]]`.

Unsafe for constants that half precision cannot hold (`-1e9`): `masked_fill_` refuses them there.

Refuses: indices that are not from `sort`, `argsort`, `topk` or `randperm`, which may occur twice;
and values that are tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
    Operation,
    Site,
    find_definitions,
    infer,
    names_mutated,
    operation_of,
    walk,
)
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement, build_expression, dotted_name, integer_literal

HALF = 65504.0
"""The largest number of half precision."""
_DIM = {"sort": 1, "argsort": 1, "topk": 2, "randperm": 99}
"""Operations whose indices are distinct, each with the position of its argument `dim`."""


def rewrite(site: Site) -> Rewrite | Refusal | None:
    selected = next(_selections(site), None)
    if selected is None:
        return None
    indices, mask = selected
    found = _assignment(site, indices)
    if found is None:
        return None
    assign, edits = found
    target = cst.ensure_type(assign.targets[0].target, cst.Subscript)
    tensor = _tensor_assigned(site, target)
    seen = infer(site, target.value)
    if tensor is None or seen is None or not seen.is_tensor or seen.dims != {len(target.slice)}:
        return Refusal("what is assigned to is not known to be a tensor of one dimension")
    if not _is_distinct(site, indices.value):
        return Refusal(
            f"`{site.document.code(indices.value)}` may have an index twice: it is no result of "
            "`sort`, `argsort`, `topk` or `randperm`"
        )
    value = infer(site, assign.value)
    if value is None or not value.is_number:
        return Refusal("what is assigned is no number")
    if "float" in value.types and not all(one.is_float for one in seen.tensors):
        return Refusal("a float is assigned to a tensor of another dtype")
    zeros = site.document.imported_name("torch.zeros_like") or "torch.zeros_like"
    new = build_expression(
        f"{{x}}.masked_fill_({zeros}({{x}}, dtype=torch.bool).scatter(0, {{i}}, {{m}}), {{c}})",
        x=tensor,
        i=indices.value,
        m=mask,
        c=assign.value,
    )
    edits[assign] = cst.Expr(new)
    why = "A scattered mask has a fixed shape."
    fits = all(abs(number) <= HALF or isinf(number) for number in _literals(assign.value))
    clause = f"`{site.document.code(tensor)}` is of float32 or float64 in each call"
    return Rewrite(edits, why, assumes=() if fits else (clause,), imports=("torch",))


def _literals(value: cst.BaseExpression) -> Iterator[float]:
    """Yield the numbers that an expression spells out."""
    for node in walk(value):
        if isinstance(node, cst.Float | cst.Integer):
            yield float(node.evaluated_value)


def _selections(site: Site) -> Iterator[tuple[cst.Subscript, cst.BaseExpression]]:
    """Yield the expressions `order[m]` at a site, of two tensors of one dimension, and the mask."""
    for node in walk(site.node):
        match node:
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=mask))]):
                base, seen = infer(site, node.value), infer(site, mask)
                if base is None or seen is None or not base.is_tensor or not seen.is_tensor:
                    continue
                is_list = base.dims == {1} and base.dtypes == {"int64"}
                if is_list and seen.dtypes == {"bool"} and base.shapes == seen.shapes:
                    yield node, mask


def _assignment(
    site: Site, indices: cst.Subscript
) -> tuple[cst.Assign, dict[cst.CSTNode, Replacement]] | None:
    """Return the assignment at selected indices, and the edits of the line that names them.

    None if they have another use.
    """
    document = site.document
    edits: dict[cst.CSTNode, Replacement] = {}
    node: cst.BaseExpression = indices
    parent = document.parent(node)
    if isinstance(parent, cst.Assign):
        line = document.parent(parent)
        known = find_definitions(document, node)
        match parent:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]) if known:
                uses = known.uses(name)
            case _:
                return None
        block = getattr(document.parent(line), "body", ())
        if len(uses) != 1 or line not in block or known.reaching[uses[0]] != frozenset({name}):
            return None
        place = block.index(line)
        if document.statement(uses[0]) not in block[place + 1 : place + 2]:
            return None
        edits[line] = cst.RemoveFromParent()
        node = uses[0]
    match document.parent(node):
        case cst.Index() as index:
            subscript = document.parent(document.parent(index))
            target = document.parents.get(subscript)
            assign = document.parents.get(target) if target is not None else None
            if not isinstance(assign, cst.Assign) or len(assign.targets) > 1:
                return None
            if isinstance(subscript, cst.Subscript) and subscript.slice[-1].slice is index:
                return assign, edits
    return None


def _tensor_assigned(site: Site, target: cst.Subscript) -> cst.BaseExpression | None:
    """Return `x` for `x[order[m]]` and `x[i]` for `x[i, order[m]]`.

    None if evaluating it twice may differ, and for other indices than numbers.
    """
    *first, _ = target.slice
    base = target.value
    parts = [one.slice.value for one in first if isinstance(one.slice, cst.Index)]
    if first:
        if len(parts) < len(first) or not all(_is_int(site, one) for one in parts):
            return None
        last = first[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        base = cst.Subscript(target.value, [*first[:-1], last])
    if any(isinstance(one, cst.Call | cst.NamedExpr | cst.Await) for one in walk(base)):
        return None
    return base


def _is_int(site: Site, node: cst.BaseExpression) -> bool:
    seen = infer(site, node)
    return seen is not None and seen.types == ("int",)


def _is_distinct(site: Site, indices: cst.BaseExpression) -> bool:
    """Return whether a tensor of one dimension holds distinct indices, as a sort returns them."""
    while isinstance(indices, cst.Subscript) and all(
        isinstance(one.slice, cst.Index) and _is_int(site, one.slice.value) for one in indices.slice
    ):
        indices = indices.value
    function = site.document.function(indices)
    if function is None or dotted_name(indices) in names_mutated(function):
        return False
    operation = _origin(site, indices)
    if operation is None or operation.name not in _DIM:
        return False
    place = _DIM[operation.name]
    dim = operation.keywords.get("dim")
    if dim is None and len(operation.operands) > place:
        dim = operation.operands[place]
    seen = infer(site, indices)
    last = -1 if seen is None or seen.dims != {1} else 0
    return dim is None or integer_literal(dim) in (-1, last)


def _origin(site: Site, indices: cst.BaseExpression) -> Operation | None:
    """Return the operation that computed indices: `x.sort()` for `i` after `_, i = x.sort()`."""
    if isinstance(indices, cst.Call):
        made = operation_of(site, indices)
        return made if made is not None and made.name in ("argsort", "randperm") else None
    known = find_definitions(site.document, indices)
    if known is None or not isinstance(indices, cst.Name):
        return None
    bindings = known.reaching.get(indices, frozenset())
    if len(bindings) != 1:
        return None
    match site.document.parent(binding := next(iter(bindings))):
        case cst.AssignTarget() as target:
            value = cst.ensure_type(site.document.parent(target), cst.Assign).value
            is_indices = isinstance(value, cst.Call)
            match value:
                case cst.Attribute(value=value, attr=cst.Name("indices")):
                    return operation_of(site, value)
            return _origin(site, value) if is_indices else None
        case cst.Element() as element:
            group = site.document.parent(element)
            assign = site.document.parents.get(site.document.parent(group))
            match group, assign:
                case cst.Tuple(elements=[_, cst.Element(value=second)]), cst.Assign(value=value):
                    return operation_of(site, value) if second is binding else None
    return None


RULE = Rule("FG412", "assign-through-scatter", frozenset({Category.MASK.value}), rewrite)
