"""Whether one call of a graph fails by itself, with the inputs that were recorded for it."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fullgraph.compiler.private import is_functorch_wrapped, is_mode_switch, tree_leaves
from fullgraph.minifier.graphs.fingerprint import named, outline
from fullgraph.minifier.graphs.graph import Graph, Inseparable
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce import search

HUGE = 1e4
"""A tensor whose elements are larger, on average, is special."""


CROWD, CROWDS = 8, 6
"""How many calls stand in one candidate, and how many such candidates there are at most: larger
ones take longer to compile, more of them are more questions."""


@dataclass(frozen=True)
class _Single:
    node: Node
    suspicion: float


def alone(problem: Problem[Graph]) -> bool:
    """Reduce to the calls that fail side by side, one in most cases. Returns whether some do.

    Each has inputs of its own, as they were recorded. Calls with the same target, and arguments
    of the same kinds, are asked about once, and several at a time.
    """
    graph = problem.current
    singles = _singles(graph)

    def together(chosen: Sequence[_Single]) -> Iterator[Graph]:
        with suppress(Inseparable):
            yield graph.part([single.node for single in chosen], wired=False)

    count = min(CROWDS, max(1, round(len(singles) / CROWD)))
    crowds = list(search.batches(singles, lambda single: single.suspicion, count))
    failing = search.first(problem, crowds, together)
    if failing is None and len(crowds) > 1:
        failing = search.first(problem, [singles], together)
    if failing is None:
        return False
    seen = _seen(problem, failing)
    if search.first(problem, [seen] if seen else [], together) is None:
        search.needed(problem, failing, together)
    return True


def _seen(problem: Problem[Graph], crowd: Sequence[_Single]) -> list[_Single]:
    """The call of several in whose result something was seen to be wrong, if that was in one."""
    told = re.match(r"output\[(\d+)\]", problem.where(problem.current))
    if told is None or len(crowd) == 1:
        return []
    node = problem.current.outputs[int(told[1])]
    while node.target is operator.getitem:
        node = node.all_input_nodes[0]
    return [single for single in crowd if single.node.name == node.name]


def _singles(graph: Graph) -> list[_Single]:
    """The calls worth asking about, one of each kind, the most suspicious first."""
    values = graph.values()
    kinds: dict[Any, Node] = {}
    signs = functools.cache(_signs)
    for node in graph.calls:
        if not (is_mode_switch(node) or node.target is operator.getitem):
            kinds.setdefault(_kind(graph, node, signs), node)
    often = Counter(node.target for node in graph.calls)
    singles = []
    for kind, node in kinds.items():
        moves = values.places(node) <= {p for n in node.all_input_nodes for p in values.places(n)}
        suspicion = (0.2 if moves and node not in values.effects else 1.0) / often[node.target]
        special = any(sign is True for sign in tree_leaves(kind))
        if _runs(graph, node):
            singles.append(_Single(node, suspicion * (10.0 if special else 1.0)))
    return sorted(singles, key=lambda single: -single.suspicion)


def _runs(graph: Graph, node: Node) -> bool:
    """Whether a call runs without the others: one that does not would spoil their candidate.

    What only reads its arguments does; a write may be forbidden.
    """
    try:
        single = graph.part([node], wired=False)
        return node not in graph.values().writes or bool(single.values())
    except Exception:
        return False


def _kind(graph: Graph, node: Node, signs: Callable[[torch.Tensor], tuple[bool, ...]]) -> Any:
    """What is the same of two calls that need not both be asked about."""

    def told(argument: Any) -> Any:
        if isinstance(argument, Node):
            if argument.op == "get_attr" and not isinstance(graph.values()[argument], torch.Tensor):
                return argument.target
            argument = graph.values().met(argument, node)
        if isinstance(argument, torch.Tensor):
            return (*map(str, outline(argument)), *signs(argument))
        if isinstance(argument, dict):
            return tuple((key, told(item)) for key, item in argument.items())
        if isinstance(argument, list | tuple):
            return tuple(told(item) for item in argument)
        return repr(argument)

    return named(node.target), told(node.args), told(node.kwargs)


def _signs(tensor: torch.Tensor) -> tuple[bool, ...]:
    """What is special about a tensor: a layout of its own, no elements, NaN, infinity, size."""
    if is_functorch_wrapped(tensor):
        return ()
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor._is_zerotensor():
        return (True,)
    if (
        not tensor.numel()
        or tensor.device.type == "meta"
        or type(tensor).__torch_dispatch__ is not (torch.Tensor.__torch_dispatch__)
    ):
        return (not tensor.numel(),)
    if not tensor.is_floating_point():
        return ()
    with torch.no_grad():
        total = float(tensor.detach().sum(dtype=torch.float64))
    return math.isnan(total), math.isinf(total), abs(total) > HUGE * tensor.numel()
