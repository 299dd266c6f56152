"""The order of strides of what a branch computes, which `torch.cond` requires of both alike."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fullgraph.rewrites.analysis import (
    ELEMENTWISE,
    VIEWS,
    Site,
    is_tensor,
    only_value,
    operation_of,
    walk,
    word_set,
)

_TRANSPOSING = word_set("adjoint moveaxis movedim permute swapaxes swapdims t transpose")
_ATTRIBUTES = word_set("H T mH mT")
_COLUMN_MAJOR = word_set(
    "cholesky cholesky_inverse cholesky_solve inv inverse solve solve_triangular"
)
"""Functions whose result has the columns of a matrix one after the other."""
_REORDERING = word_set("contiguous flatten ravel reshape reshape_as view view_as")
"""Views whose result does not have the operand's order of strides."""
_DEPTH = 12
"""Maximum depth to which definitions and nested expressions are followed."""


def transpositions(site: Site, node: cst.BaseExpression, depth: int = _DEPTH) -> frozenset[str]:
    """Return the transpositions whose order of strides an expression keeps: {"transpose(1, 2)"}.

    Elementwise operators and views keep it, also through local names; `reshape` and a matrix
    product do not.
    """
    if not depth:
        return frozenset()
    if (found := _transposition(site, node)) is not None:
        operand, text = found
        return transpositions(site, operand, depth - 1) | {text}
    value = only_value(site.document, node)
    inner = _operands(site, node) if value is None else [value]
    return frozenset[str]().union(*(transpositions(site, one, depth - 1) for one in inner))


def transposed_names(site: Site, branch: Sequence[cst.CSTNode]) -> set[tuple[str, str]]:
    """Return the names from outside a branch that it transposes, each with a transposition.

    The gradients of these are transposed, too.
    """
    inside = {one for line in branch for one in walk(line)}
    found = set[tuple[str, str]]()
    for one in inside:
        step = _transposition(site, one)
        waiting = [step[0]] if step is not None else []
        for _ in range(_DEPTH):
            later: list[cst.BaseExpression] = []
            for node in waiting:
                value = only_value(site.document, node)
                if isinstance(node, cst.Name) and value not in inside and step is not None:
                    found.add((node.value, step[1]))
                else:
                    later += _operands(site, node) if value is None else [value]
            waiting = later
    return found


def _transposition(site: Site, node: cst.CSTNode) -> tuple[cst.BaseExpression, str] | None:
    """Return the operand of a transposition, and its text: "transpose(1, 2)"; None for others."""
    match node:
        case cst.Attribute(attr=cst.Name(name)) if name in _ATTRIBUTES:
            return (node.value, name) if is_tensor(site, node.value) else None
        case cst.Call() if (made := operation_of(site, node)) is not None and made.operands:
            tensor, *options = made.operands
            if made.name in _COLUMN_MAJOR:
                return tensor, "mT"
            if made.name in _TRANSPOSING:
                given = map(site.document.code, [*options, *made.keywords.values()])
                return tensor, f"{made.name}({', '.join(given)})"
    return None


def _operands(site: Site, node: cst.BaseExpression) -> Sequence[cst.BaseExpression]:
    """Return the operands of an elementwise operator or a view, whose order of strides it keeps."""
    match node:
        case cst.Subscript():
            return [node.value]
        case cst.UnaryOperation():
            return [node.expression]
        case cst.BinaryOperation() if not isinstance(node.operator, cst.MatrixMultiply):
            return [node.left, node.right]
        case cst.Call() if (made := operation_of(site, node)) is not None:
            keeps = made.name in (ELEMENTWISE | VIEWS) - _REORDERING
            return made.operands if keeps else ()
    return ()
