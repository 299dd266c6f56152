"""Reducer of graphs to single calls that fail alone on their recorded inputs."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch.fx import Node

from fullgraph.compiler.private import is_functorch_wrapped, is_mode_switch, tree_leaves
from fullgraph.minifier.graphs import BoundGraph, Inseparable, target_name, tensor_properties
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.subsets import (
    find_needed,
    split_by_weight,
    take_first,
)

HUGE = 1e4
"""Mean magnitude of the elements above which a tensor counts as unusual."""


GROUP_SIZE, MAX_GROUPS = 8, 6
"""Number of calls in one candidate, and maximum number of such candidates.

Larger groups take longer to compile; more groups need more runs.
"""


@dataclass(frozen=True)
class _SuspectCall:
    """A call that may fail alone, and an estimate of how likely that is."""

    node: Node
    suspicion: float
    """Estimate of how likely it is to fail; a relative weight."""


def isolate_calls(problem: Problem[BoundGraph]) -> bool:
    """Reduce the graph to the calls that fail when run alone; return whether any call does.

    Each call gets its recorded inputs. Of the calls with the same target and the same kinds of
    arguments, only one is tried. A candidate runs several calls side by side, which saves runs.
    """
    graph = problem.current
    suspects = _rank_suspects(graph)

    def side_by_side(chosen: Sequence[_SuspectCall]) -> Iterator[BoundGraph]:
        """Yield the graph of the chosen calls, each on its recorded inputs."""
        with suppress(Inseparable):
            yield graph.subgraph([single.node for single in chosen], connected=False)

    count = min(MAX_GROUPS, max(1, round(len(suspects) / GROUP_SIZE)))
    groups = list(split_by_weight(suspects, lambda single: single.suspicion, count))
    failing = take_first(problem, groups, side_by_side)
    if failing is None and len(groups) > 1:
        failing = take_first(problem, [suspects], side_by_side)
    if failing is None:
        return False
    seen = _reported_call(problem, failing)
    if take_first(problem, [seen] if seen else [], side_by_side) is None:
        find_needed(problem, failing, side_by_side)
    return True


def _reported_call(
    problem: Problem[BoundGraph], group: Sequence[_SuspectCall]
) -> list[_SuspectCall]:
    """Return [call] for the call of `group` whose result the oracle found wrong; [] if unknown.

    `group` has the calls that `problem.current` runs. [] also if it has only one.
    """
    found = re.match(r"output\[(\d+)\]", problem.where())
    if found is None or len(group) == 1:
        return []
    node = problem.current.outputs[int(found[1])]
    while node.target is operator.getitem:
        node = node.all_input_nodes[0]
    return [single for single in group if single.node.name == node.name]


def _rank_suspects(graph: BoundGraph) -> list[_SuspectCall]:
    """Return the calls of a graph to try alone, the likeliest to fail first.

    Of the calls with the same target and the same kinds of arguments, only the first is returned.
    Calls that cannot run alone are left out.
    """
    values = graph.values()
    kinds: dict[object, Node] = {}
    properties = functools.cache(_special_properties)
    for node in graph.calls:
        if not (is_mode_switch(node) or node.target is operator.getitem):
            kinds.setdefault(_call_kind(graph, node, properties), node)
    counts = Counter(node.target for node in graph.calls)
    suspects = []
    for kind, node in kinds.items():
        moves = values.storages(node) <= {
            p for n in node.all_input_nodes for p in values.storages(n)
        }
        suspicion = (0.2 if moves and node not in values.effects else 1.0) / counts[node.target]
        special = any(sign is True for sign in tree_leaves(kind))
        if _runs_alone(graph, node):
            suspects.append(_SuspectCall(node, suspicion * (10.0 if special else 1.0)))
    return sorted(suspects, key=lambda single: -single.suspicion)


def _runs_alone(graph: BoundGraph, node: Node) -> bool:
    """Return whether the call `node` can run alone on its recorded inputs.

    A call that only reads its arguments always can. A call that writes is tried: autograd forbids
    some writes, and the exception would keep other calls of the same candidate from running.
    """
    try:
        single = graph.subgraph([node], connected=False)
        return node not in graph.values().writes or bool(single.values())
    except Exception:
        return False


def _call_kind(
    graph: BoundGraph, node: Node, properties: Callable[[torch.Tensor], tuple[bool, ...]]
) -> object:
    """Return a key that is equal for calls with the same target and the same kinds of arguments.

    Tensors are of one kind if their metadata and `properties(tensor)` are equal; other arguments
    are if they are equal. Of the calls with one key, only one is tried.
    """

    def describe_argument(argument: object) -> object:
        """Return an argument in a form that `==` can compare."""
        if isinstance(argument, Node):
            if argument.op == "get_attr" and not isinstance(graph.values()[argument], torch.Tensor):
                return argument.target
            argument = graph.values().seen_by(argument, node)
        if isinstance(argument, torch.Tensor):
            return (*map(str, tensor_properties(argument)), *properties(argument))
        if isinstance(argument, dict):
            return tuple((key, describe_argument(item)) for key, item in argument.items())
        if isinstance(argument, list | tuple):
            return tuple(describe_argument(item) for item in argument)
        return repr(argument)

    return target_name(node.target), describe_argument(node.args), describe_argument(node.kwargs)


def _special_properties(tensor: torch.Tensor) -> tuple[bool, ...]:
    """Return flags for unusual properties of a tensor; tensors of one kind have equal flags.

    (has NaN, has infinity, has large values) for a float tensor; (True,) for a sparse or quantized
    one; (is empty,) for an empty tensor, a meta tensor or a subclass; () for integers.
    """
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
