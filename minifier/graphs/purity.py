"""Side effects of graph nodes: writes, random numbers, ordering."""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from torch import fx

from fullgraph.compiler.private import (
    custom_op_name,
    is_higher_order_op,
    is_mutating_op,
    is_random_op,
    public_name,
)

_DRAWING = frozenset(
    {
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout"),
        *("feature_alpha_dropout", "fractional_max_pool2d", "fractional_max_pool3d", "rrelu"),
        *("bernoulli", "binomial", "multinomial", "normal", "poisson", "gumbel_softmax"),
        *("rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"),
        *("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_"),
        *("random_", "uniform_", "rrelu_", "multi_head_attention_forward"),
    }
)
"""Names of functions that may draw random numbers."""
_STATEFUL = frozenset({"batch_norm", "instance_norm", "embedding", "embedding_bag"})
"""Names of functions that may write to an argument, although the names do not show it."""


def nested_nodes(module: fx.GraphModule) -> Iterator[fx.Node]:
    """Yield the nodes of a graph and of all graphs nested in it."""
    for each in module.modules():
        if isinstance(each, fx.GraphModule):
            yield from each.graph.nodes


def _operator_name(node: fx.Node) -> str:
    """Return the name of a call's target without its namespace."""
    target: object = node.target
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return (public_name(target) or "").split(".")[3]
    return target if isinstance(target, str) else str(getattr(target, "__name__", ""))


def writes_arguments(node: fx.Node) -> bool:
    """Return whether a node may write to one of its arguments."""
    if node.op not in ("call_function", "call_method"):
        return False
    title = _operator_name(node)
    if node.target is operator.setitem or is_mutating_op(node.target) or "out" in node.kwargs:
        return True
    if getattr(node.target, "__module__", "") == "_operator":
        return title.startswith("i") and title not in ("is_", "is_not", "index", "inv", "invert")
    if title in ("batch_norm", "instance_norm"):
        return any(arg is True for arg in (*node.args, *node.kwargs.values()))
    return (title.endswith("_") and not title.startswith("__")) or bool(node.kwargs.get("inplace"))


def draws_random(node: fx.Node) -> bool:
    """Return whether a node draws random numbers."""
    if node.op not in ("call_function", "call_method"):
        return False
    title = _operator_name(node)
    if title == "scaled_dot_product_attention":
        return bool(node.kwargs.get("dropout_p") or (*node.args, *[0] * 5)[4])
    return title in _DRAWING or is_random_op(node.target)


def is_barrier(node: fx.Node) -> bool:
    """Return whether other nodes must stay where they are, before or after the call `node`.

    True if the call writes to memory, draws random numbers or has other side effects.
    """
    if node.op == "call_method":
        return writes_arguments(node) or draws_random(node)
    target: object = node.target
    if is_higher_order_op(target) or custom_op_name(target) is not None:
        return True
    title = _operator_name(node)
    return (
        writes_arguments(node)
        or draws_random(node)
        or title in _STATEFUL
        or _is_private(target, title)
    )


def _is_private(target: object, title: str) -> bool:
    """Return whether a call's target is internal to torch, such as `_assert_async`.

    `title` is the target's name without a namespace.
    """
    if isinstance(target, torch._ops.OpOverload):
        return title.startswith("_assert")
    return title.startswith("_") and getattr(target, "__module__", "") != "_operator"
