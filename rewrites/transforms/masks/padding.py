"""Evaluate expressions for the padding value that stands where the mask selects nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst
import torch
from torch.nn import functional

from fullgraph.rewrites.analysis import ARITHMETIC, COMPARED, Site
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.elementwise_calls import ElementwiseCall, elementwise_call
from fullgraph.rewrites.transforms.masks.operators import parse_operation

_ANY = 0.7
"""Stands for an unknown number or tensor: only finiteness of the result matters."""


@dataclass(frozen=True)
class PaddedValue:
    """Value that an expression has where the mask selects nothing, given the padding values."""

    number: float | None
    """None if it depends on an unknown value."""
    finite: bool
    """Whether it and its derivatives are finite."""


@dataclass
class _Unknown:
    """Mutable flag: whether the evaluation met an unknown value."""

    met: bool = False


def evaluate_padding(
    site: Site, node: cst.BaseExpression, leaves: Mapping[cst.CSTNode, float]
) -> PaddedValue:
    """Return the value that `node` has where the mask selects nothing.

    `leaves` gives the padding values of expressions inside `node`: if it has 1.0 for `x[m]`, the
    result for `x[m] + 4` is 5.0. The number in the result is None if it is unknown.
    """
    unknown = _Unknown()
    leaf_tensors: list[torch.Tensor] = []
    try:
        with torch.enable_grad():
            result = torch.as_tensor(_evaluate(site, node, leaves, unknown, leaf_tensors))
            finite = math.isfinite(result.item())
            if result.requires_grad:
                found = torch.autograd.grad(result, leaf_tensors, allow_unused=True)
                finite = finite and all(g is None or math.isfinite(g.item()) for g in found)
    except _Unclear:
        return PaddedValue(None, True)
    except (RuntimeError, TypeError, ValueError, ZeroDivisionError):
        return PaddedValue(None, False)
    return PaddedValue(None if unknown.met else result.item(), finite)


@dataclass(frozen=True)
class _Inside:
    """Function body during evaluation, with the values of its names so far."""

    function: ElementwiseCall
    values: dict[cst.CSTNode | None, torch.Tensor]


class _Unclear(Exception):
    """A value that cannot be computed."""


def _evaluate(
    site: Site,
    node: cst.BaseExpression,
    leaves: Mapping[cst.CSTNode, float],
    unknown: _Unknown,
    leaf_tensors: list[torch.Tensor],
    inside: _Inside | None = None,
) -> torch.Tensor:
    """Return the value of an expression in float64, given the numbers `leaves` for parts of it.

    Sets `unknown.met` if it needs a value that was not observed. Collects in `leaf_tensors` the
    tensors to differentiate by. `inside` is the called function whose body contains `node`; None if
    there is none. Raises _Unclear for operations that it cannot evaluate.
    """

    def evaluate(one: cst.BaseExpression) -> torch.Tensor:
        return _evaluate(site, one, leaves, unknown, leaf_tensors, inside)

    def make_leaf(number: float) -> torch.Tensor:
        """Return a leaf tensor, and record it for its gradient."""
        leaf_tensors.append(torch.tensor(number, dtype=torch.float64, requires_grad=True))
        return leaf_tensors[-1]

    if node in leaves:
        return make_leaf(leaves[node])
    if isinstance(node, cst.Name) and inside is not None:
        binding = inside.function.binding(node)
        if binding in inside.values:
            return inside.values[binding]
    match node:
        case cst.Integer() | cst.Float():
            return torch.tensor(node.evaluated_value, dtype=torch.float64)
        case cst.UnaryOperation(operator=cst.Minus()):
            return -evaluate(node.expression)
        case cst.BinaryOperation() if type(node.operator) in ARITHMETIC:
            return ARITHMETIC[type(node.operator)](evaluate(node.left), evaluate(node.right))
        case cst.Comparison(comparisons=[one]) if type(one.operator) in COMPARED:
            return COMPARED[type(one.operator)](evaluate(node.left), evaluate(one.comparator))
        case cst.Call() if (function := elementwise_call(site, node)) is not None:
            within = _Inside(function, {b: evaluate(given) for b, given in function.given.items()})
            for binding, value in function.assigned.items():
                within.values[binding] = _evaluate(
                    site, value, leaves, unknown, leaf_tensors, within
                )
            return _evaluate(site, function.result, leaves, unknown, leaf_tensors, within)
        case cst.Call():
            made = parse_operation(site, node)
            same = ops.SAME | ops.FLATTENING | ops.RESHAPED
            if made is None or made.name not in ops.ELEMENTWISE | same:
                raise _Unclear
            if made.name in same:
                return evaluate(made.tensor)
            if made.name in ("zeros_like", "ones_like"):
                return torch.tensor(float(made.name == "ones_like"), dtype=torch.float64)
            if made.name == "detach":
                return evaluate(made.tensor).detach()
            function = getattr(torch, made.name, None) or getattr(functional, made.name, None)
            if function is None:
                raise _Unclear
            plain = [evaluate(arg.value) for arg in made.options if arg.keyword is None]
            named = {
                a.keyword.value: evaluate(a.value) for a in made.options if a.keyword is not None
            }
            first = evaluate(made.tensor)
            if made.name in ("clamp", "clip") or made.name in dir(torch):
                return torch.as_tensor(function(first, *plain, **named))
            numbers = {key: one.item() for key, one in named.items()}
            return torch.as_tensor(function(first, *(one.item() for one in plain), **numbers))
    seen = site.observed(node)
    if seen is not None and seen.is_number and len(seen.values) == 1:
        return torch.tensor(float(seen.values[0] or 0), dtype=torch.float64)
    unknown.met = True
    return make_leaf(_ANY)
