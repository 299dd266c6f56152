"""Lowering of a captured or joint graph to canonical ATen operators, and of these to prims."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextvars import ContextVar

import torch

from fullgraph.compiler.lowering.prims.canonical import canonical_operators
from fullgraph.compiler.lowering.prims.extern import extern_operators
from fullgraph.compiler.lowering.prims.own_decompositions import (
    decompositions_to_prims,
    order_dims,
    own_decompositions,
)
from fullgraph.compiler.lowering.prims.prim_table import prims
from fullgraph.compiler.private import (
    expected_dim_orders,
    prim_as_aten,
    retrace,
    torch_decompositions,
    torch_prims,
    tree_map,
)

Operator = torch._ops.OpOverload
Table = Mapping[Operator, Callable[..., object]]


@functools.cache
def decompositions() -> Table:
    """Return the table of decompositions into canonical ATen operators, to trace with.

    It is what AOTAutograd and `make_fx` take as decompositions. It has every decomposition of
    torch's for an operator that is neither canonical nor extern, ours instead or in addition, and
    for each prim that torch's use, the ATen operators that compute it.
    """
    kept = canonical_operators().keys() | extern_operators().keys()
    table = {
        operator: function
        for operator, function in torch_decompositions().items()
        if _name(operator) not in kept
    }
    table |= {prim: prim_as_aten(prim) for prim in torch_prims().values()}
    table |= {find_operator(name): one for name, one in own_decompositions().items()}
    return {
        operator: _keep_strides(operator, function) if operator.namespace == "aten" else function
        for operator, function in table.items()
    }


_is_inside: ContextVar[bool] = ContextVar("_is_inside", default=False)
"""Whether a decomposition is part of another one, whose strides alone matter."""


def _keep_strides(operator: Operator, function: Callable[..., object]) -> Callable[..., object]:
    """Return a decomposition whose results have the strides that the operator gives them."""

    @functools.wraps(function)
    def decompose(*args: object, **kwargs: object) -> object:
        if _is_inside.get():
            return function(*args, **kwargs)
        token = _is_inside.set(True)
        try:
            results = function(*args, **kwargs)
        finally:
            _is_inside.reset(token)
        orders = iter(expected_dim_orders(operator, args, kwargs, results))
        return tree_map(
            lambda one: order_dims(one, next(orders)) if isinstance(one, torch.Tensor) else one,
            results,
        )

    return decompose


def lower_to_canonical(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a graph of canonical and extern ATen operators that computes what `module` does.

    `module` is a graph of ATen operators whose placeholders have examples in `meta["val"]`. So have
    all nodes of the result, which keeps the placeholders' names. What no decomposition exists for
    stays; `report` names it.
    """
    return retrace(module, decompositions())


@functools.cache
def prim_decompositions() -> Table:
    """Return the table of decompositions of canonical ATen operators into prims, to trace with."""
    kept = prims().keys() | {f"aten.{name}" for name in extern_operators()}
    canonical = canonical_operators()
    chosen = {**decompositions()}
    for operator, function in torch_decompositions().items():
        if _name(operator) in canonical:
            chosen[operator] = function
    table = {
        operator: function
        for operator, function in chosen.items()
        if str(operator) not in kept and canonical.get(_name(operator)) != "symbolic"
    }
    return table | {find_operator(name): f for name, f in decompositions_to_prims().items()}


def lower_to_prims(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a graph of prims and extern ATen operators that computes what `module` does.

    Takes what `lower_to_canonical` takes or returns.
    """
    return retrace(module, prim_decompositions())


def find_operator(name: str) -> Operator:
    """Return the operator of a name: "add.Tensor" is ATen's, "prims.where.default" a prim."""
    *namespace, packet, overload = name.split(".")
    library = getattr(torch.ops, *namespace or ["aten"])
    found: Operator = getattr(getattr(library, packet), overload)
    return found


def _name(operator: Operator) -> str:
    """Return "add.Tensor" for `aten.add.Tensor`, and "prims.add.default" for a prim."""
    return str(operator).removeprefix("aten.")
