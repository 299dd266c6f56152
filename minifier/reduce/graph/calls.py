"""Reducer of graphs, to one call that fails alone or a few that fail together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import networkx as nx
import torch
from torch.fx import Node

from fullgraph.compiler.private import find_region, is_mode_switch
from fullgraph.minifier.graphs import (
    BoundGraph,
    Inseparable,
    MetaCheck,
    inlinable_calls,
    inline_calls,
    is_returnable,
)
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.graph.arguments import simplify_arguments
from fullgraph.minifier.reduce.graph.bodies import reduce_bodies
from fullgraph.minifier.reduce.graph.single_call import isolate_calls
from fullgraph.minifier.reduce.subsets import (
    find_smallest,
    split_by_weight,
)

SHRINK = 0.6
"""Factor between part sizes, as in counter-based delta debugging (arXiv 2408.04735)."""


def reduce_graph(problem: Problem[BoundGraph]) -> None:
    """Remove calls, outputs, inputs and arguments until none can be removed.

    Raises OutOfBudget.
    """
    _inline_bodies(problem)
    if len(_operator_calls(problem.current)) > 1 and not isolate_calls(problem):
        shorten(problem)
        _keep_nearest(problem)
        _remove_parts(problem)
    _remove_each(problem)


def _inline_bodies(problem: Problem[BoundGraph]) -> None:
    """Inline the bodies of loops, scans and conds: of all at once, or else of one at a time.

    An inlined graph is kept only if it fails.
    """
    while found := inlinable_calls(problem.current):
        graph = problem.current
        groups = [found, *([node] for node in found)] if len(found) > 1 else [found]
        if not problem.first(
            build_runnable(partial(inline_calls, graph, group) for group in groups)
        ):
            return


def _operator_calls(graph: BoundGraph) -> list[Node]:
    """Return the graph's calls except `getitem` and mode switches such as `_set_grad_enabled`."""
    return [
        node
        for node in graph.calls
        if not is_mode_switch(node) and node.target is not operator.getitem
    ]


Make = Callable[[], BoundGraph]
"""Builds a graph. Raises Inseparable."""


def build_runnable(
    builders: Iterable[Make], feasible: MetaCheck | None = None
) -> Iterator[BoundGraph]:
    """Yield the graphs that `builders` build, except empty ones and those that cannot run.

    A builder that raises Inseparable is skipped. `feasible` decides whether a graph can run; None:
    all can.
    """
    for make in builders:
        with suppress(Inseparable):
            graph = make()
            if (graph.calls or graph.outputs) and (feasible is None or feasible(graph)):
                yield graph


def shorten(problem: Problem[BoundGraph]) -> Node | None:
    """Reduce the graph to its shortest prefix that fails.

    The prefix returns those of its results that later calls of the graph use. Returns the prefix's
    last operator call, a node of the original graph; None if the graph fails without any call.
    """
    graph = problem.current
    steps = _operator_calls(graph)
    index = {node: position for position, node in enumerate(graph.calls)}
    ends = [0, *(index[node] for node in steps[1:]), len(graph.calls)]

    def keep_beginning(number: int) -> Iterator[BoundGraph]:
        """Yield the graph of the first `number` operator calls."""
        return build_runnable([partial(graph.subgraph, graph.calls[: ends[number]])])

    returned = any(not node.op.startswith("call_") for node in graph.outputs)
    number = find_smallest(problem, 0 if returned else 1, len(steps), keep_beginning)
    return steps[number - 1] if number else None


def _keep_nearest(problem: Problem[BoundGraph]) -> None:
    """Keep as few calls as fail together: the last one, and those nearest to it in the data flow.

    Results of removed calls become inputs of the graph.
    """
    graph = problem.current
    steps = _operator_calls(graph)
    if len(steps) < 2:
        return
    last = steps[-1]
    cone = graph.cone(last)
    shown = [node for node in graph.outputs if node in _outputs_showing(graph, last)]
    if len(cone) < len(graph.calls):
        problem.first(build_runnable([partial(graph.subgraph, cone, outputs=shown)]))
    if problem.current is graph:
        cone, shown = set(graph.calls), list(graph.outputs)
    distance = nx.single_source_shortest_path_length(graph.dependents.reverse(copy=False), last)
    order = sorted(
        cone,
        key=lambda node: (distance.get(node, len(cone)), -graph.calls.index(node)),
    )

    def keep_near(count: int) -> Iterator[BoundGraph]:
        """Yield the graph of the `count` calls nearest to the last one."""
        keep = order[:count]
        return build_runnable(
            [partial(graph.subgraph, keep, outputs=[n for n in shown if n in keep])]
        )

    find_smallest(problem, 2, len(order), keep_near, leap=2)


def _outputs_showing(graph: BoundGraph, last: Node) -> set[Node]:
    """Return the nodes whose values depend on the call `last`.

    These are `last`, what is computed from it, and outputs that share memory with what it writes.
    """
    values = graph.values()
    written = values.writes.get(last, frozenset())
    seen = {node for node in graph.outputs if written & values.storages(node)}
    return seen | {last} | nx.descendants(graph.dependents, last)


def _remove_parts(problem: Problem[BoundGraph]) -> None:
    """Remove groups of consecutive calls that the failure does not need, large groups first."""
    size = float(len(_operator_calls(problem.current)) // 2)
    while size >= 2:
        names = [node.name for node in _operator_calls(problem.current)]
        for part in split_by_weight(names, lambda _: 1.0, max(2, round(len(names) / size))):
            graph = problem.current
            nodes = [node for node in graph.calls if node.name in part]
            removed = {node: next(iter(_substitutes(graph, node, nodes)), None) for node in nodes}
            if removed:
                builders = [partial(without_calls, graph, removed)]
                if None in removed.values():
                    builders.append(partial(without_calls, graph, removed, lift=True))
                problem.first(build_runnable(builders, MetaCheck(graph)))
        size *= SHRINK


def _remove_each(problem: Problem[BoundGraph]) -> None:
    """Remove calls, outputs, arguments and inputs one by one until nothing can be removed."""
    while True:
        before = problem.current
        for name in [node.name for node in reversed(before.calls)]:
            graph = problem.current
            for node in graph.calls:
                if node.name == name:
                    problem.first(build_runnable(_variants_without(graph, node), MetaCheck(graph)))
        for index in reversed(range(len(problem.current.outputs))):
            graph = problem.current
            others = [*graph.outputs[:index], *graph.outputs[index + 1 :]]
            if others or graph.values().writes:
                problem.first(
                    build_runnable([partial(graph.subgraph, graph.calls, outputs=others)])
                )
        reduce_bodies(problem)
        if problem.current is before:
            break
    simplify_arguments(problem)
    for name in [node.name for node in reversed(problem.current.placeholders)]:
        graph = problem.current
        for node in graph.placeholders:
            if node.name == name:
                problem.first(build_runnable(_variants_without_input(graph, node)))


def _variants_without(graph: BoundGraph, node: Node) -> Iterator[Make]:
    """Yield functions, each of which builds the graph without the call `node` in another way.

    Users of the call get an argument or an ancestor of it, or a new input with the recorded result.
    A mode switch is removed together with the call that ends it.
    """
    if is_mode_switch(node):
        removed = dict.fromkeys(find_region(node, graph.calls))
        keep = [call for call in graph.calls if call not in removed]
        if removed:
            yield partial(graph.subgraph, keep, outputs=graph.outputs, replacements=removed)
        return
    if node in graph.outputs:
        yield partial(without_calls, graph, {node: None})
    inside = not node.users or any(user.op != "output" for user in node.users)
    for substitute in dict.fromkeys([*_substitutes(graph, node), *_tensor_arguments(graph, node)]):
        if inside or set(graph.outputs) == {node} or substitute.op.startswith("call_"):
            yield partial(without_calls, graph, {node: substitute})
    if inside:
        yield partial(without_calls, graph, {node: None})
        yield partial(without_calls, graph, {node: None}, lift=True)


def _variants_without_input(graph: BoundGraph, node: Node) -> Iterator[Make]:
    """Yield functions that build the graph without the input `node`.

    An input that is no tensor becomes a literal. A tensor is replaced by an earlier input of the
    same shape and dtype; nothing is yielded if there is none.
    """
    values = graph.values()
    value = values[node]
    others: list[Any] = [value]
    if isinstance(value, torch.Tensor):
        earlier = graph.placeholders[: graph.placeholders.index(node)]
        others = [other for other in earlier if _is_interchangeable(value, values[other])][:1]
    for other in others:
        yield partial(
            graph.subgraph, graph.calls, outputs=graph.outputs, replacements={node: other}
        )


def without_calls(
    graph: BoundGraph, removed: Mapping[Node, Node | None], *, lift: bool = False
) -> BoundGraph:
    """Return the graph without the calls that are keys of `removed`.

    The value of a key is the node that replaces its result; None: a new input with the recorded
    result. An output that is removed without such a node is replaced by the results from which it
    was computed. With `lift`, the results from which any removed call was computed are returned,
    too.
    """
    keep = [call for call in graph.calls if call not in removed]
    replacements = {
        node: substitute for node, substitute in removed.items() if substitute is not None
    }
    found: list[Node] = []
    values = graph.values()

    def lift_operands(node: Node) -> None:
        """Add the results from which the removed call `node` was computed to the outputs."""
        for used in node.all_input_nodes:
            if used in removed:
                lift_operands(used)
            elif used.op.startswith("call_") and is_returnable(values[used]) and used not in found:
                found.append(used)

    for node in graph.outputs:
        while (substitute := removed.get(node)) is not None:
            node = substitute
        if node not in removed:
            found.append(node)
        else:
            lift_operands(node)
    for node in removed if lift else ():
        lift_operands(node)
    return graph.subgraph(keep, outputs=found, replacements=replacements)


def _substitutes(graph: BoundGraph, node: Node, removed: Collection[Node] = ()) -> list[Node]:
    """Return the nodes that can replace the result of the call `node`: same shape, same dtype.

    They are arguments of the call, or else its nearest ancestors that fit, none of them in
    `removed`. If nothing uses the result: the first tensor argument, of any shape. [] if there are
    none.
    """
    values = graph.values()
    if not node.users:
        return _tensor_arguments(graph, node)[:1]
    found: dict[Node, None] = {}
    front, seen = [node], {node}
    while front and (not found or front == [node]):
        front = [n for one in front for n in one.all_input_nodes if n not in seen]
        seen.update(front)
        found.update(
            (n, None)
            for n in front
            if n not in removed and _is_interchangeable(values[node], values.seen_by(n, node))
        )
    return list(found)


def _tensor_arguments(graph: BoundGraph, node: Node) -> list[Node]:
    """Return a call's tensor arguments, of any shape, to try in place of its result.

    [] if the result is used and is no tensor.
    """
    values = graph.values()
    if node.users and not isinstance(values[node], torch.Tensor):
        return []
    return [n for n in node.all_input_nodes if isinstance(values[n], torch.Tensor)]


def _is_interchangeable(one: object, other: object) -> bool:
    """Return whether two values are tensors of the same shape, dtype, layout and device."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("shape", "dtype", "layout", "device", "is_quantized")
    )
