"""Reducing a graph to the one call that fails by itself, or the few that fail together."""

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
from fullgraph.minifier.graphs.feasibility import Feasible
from fullgraph.minifier.graphs.graph import Graph, Inseparable, is_returnable
from fullgraph.minifier.graphs.inline import bodies, inlined
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce import search
from fullgraph.minifier.reduce.graph.arguments import simplify
from fullgraph.minifier.reduce.graph.bodies import thin_bodies
from fullgraph.minifier.reduce.graph.single_call import alone

SHRINK = 0.6
"""How much smaller the next parts are that are taken away: about what counter-based delta
debugging gives (arXiv 2408.04735)."""


def reduce(problem: Problem[Graph]) -> None:
    """Make the graph of `problem` as small as it gets: in the end no call, output, input or
    argument can be missed. Raises OutOfBudget."""
    _open(problem)
    if len(_steps(problem.current)) > 1 and not alone(problem):
        shortest(problem)
        _nearest(problem)
        _thin(problem)
    _minimal(problem)


def _open(problem: Problem[Graph]) -> None:
    """Take the bodies of higher-order operators out, all or else each that can do without."""
    while found := bodies(problem.current):
        graph = problem.current
        groups = [found, *([node] for node in found)] if len(found) > 1 else [found]
        if not problem.first(made(partial(inlined, graph, group) for group in groups)):
            return


def _steps(graph: Graph) -> list[Node]:
    """The calls that do not only switch a mode or pick from a result."""
    return [
        node
        for node in graph.calls
        if not is_mode_switch(node) and node.target is not operator.getitem
    ]


Make = Callable[[], Graph]


def made(ways: Iterable[Make], feasible: Feasible | None = None) -> Iterator[Graph]:
    """The graphs that `ways` make, without those that cannot be or run, or have nothing in them."""
    for make in ways:
        with suppress(Inseparable):
            graph = make()
            if (graph.calls or graph.outputs) and (feasible is None or feasible(graph)):
                yield graph


def shortest(problem: Problem[Graph]) -> Node | None:
    """The shortest beginning of the graph that fails; what the rest used of it is returned.

    Returns its last step in the graph as it was; None if no step is needed.
    """
    graph = problem.current
    steps = _steps(graph)
    index = {node: position for position, node in enumerate(graph.calls)}
    ends = [0, *(index[node] for node in steps[1:]), len(graph.calls)]

    def beginning(number: int) -> Iterator[Graph]:
        return made([partial(graph.part, graph.calls[: ends[number]])])

    returned = any(not node.op.startswith("call_") for node in graph.outputs)
    number = search.smallest(problem, 0 if returned else 1, len(steps), beginning)
    return steps[number - 1] if number else None


def _nearest(problem: Problem[Graph]) -> None:
    """Of what the last call needs, only the calls nearest to it; the others' results are inputs."""
    graph = problem.current
    steps = _steps(graph)
    if len(steps) < 2:
        return
    last = steps[-1]
    cone = graph.cone(last)
    shown = [node for node in graph.outputs if node in _shows(graph, last)]
    if len(cone) < len(graph.calls):
        problem.first(made([partial(graph.part, cone, outputs=shown)]))
    if problem.current is graph:
        cone, shown = set(graph.calls), list(graph.outputs)
    away = nx.single_source_shortest_path_length(graph.needs.reverse(copy=False), last)
    order = sorted(cone, key=lambda node: (away.get(node, len(cone)), -graph.calls.index(node)))

    def near(count: int) -> Iterator[Graph]:
        keep = order[:count]
        return made([partial(graph.part, keep, outputs=[n for n in shown if n in keep])])

    search.smallest(problem, 2, len(order), near, leap=2)


def _shows(graph: Graph, last: Node) -> set[Node]:
    """The nodes in which the result of `last` can be seen."""
    values = graph.values()
    written = values.writes.get(last, frozenset())
    seen = {node for node in graph.outputs if written & values.places(node)}
    return seen | {last} | nx.descendants(graph.needs, last)


def _thin(problem: Problem[Graph]) -> None:
    """Take away several calls at a time, in the graph's order, fewer and fewer."""
    size = float(len(_steps(problem.current)) // 2)
    while size >= 2:
        names = [node.name for node in _steps(problem.current)]
        for part in search.batches(names, lambda _: 1.0, max(2, round(len(names) / size))):
            graph = problem.current
            away = [node for node in graph.calls if node.name in part]
            gone = {node: next(iter(_twins(graph, node, away)), None) for node in away}
            if gone:
                ways = [partial(without, graph, gone)]
                if None in gone.values():
                    ways.append(partial(without, graph, gone, lift=True))
                problem.first(made(ways, Feasible(graph)))
        size *= SHRINK


def _minimal(problem: Problem[Graph]) -> None:
    """Take away one thing after another, until there is none that can be missed."""
    while True:
        before = problem.current
        for name in [node.name for node in reversed(before.calls)]:
            graph = problem.current
            for node in graph.calls:
                if node.name == name:
                    problem.first(made(_each_without(graph, node), Feasible(graph)))
        for index in reversed(range(len(problem.current.outputs))):
            graph = problem.current
            others = [*graph.outputs[:index], *graph.outputs[index + 1 :]]
            if others or graph.values().writes:
                problem.first(made([partial(graph.part, graph.calls, outputs=others)]))
        thin_bodies(problem)
        if problem.current is before:
            break
    simplify(problem)
    for name in [node.name for node in reversed(problem.current.placeholders)]:
        graph = problem.current
        for node in graph.placeholders:
            if node.name == name:
                problem.first(made(_each_without_input(graph, node)))


def _each_without(graph: Graph, node: Node) -> Iterator[Make]:
    """The ways to do without one call."""
    if is_mode_switch(node):
        gone = dict.fromkeys(find_region(node, graph.calls))
        keep = [call for call in graph.calls if call not in gone]
        if gone:
            yield partial(graph.part, keep, outputs=graph.outputs, instead=gone)
        return
    if node in graph.outputs:
        yield partial(without, graph, {node: None})
    inside = not node.users or any(user.op != "output" for user in node.users)
    for twin in dict.fromkeys([*_twins(graph, node), *_sources(graph, node)]):
        if inside or set(graph.outputs) == {node} or twin.op.startswith("call_"):
            yield partial(without, graph, {node: twin})
    if inside:
        yield partial(without, graph, {node: None})
        yield partial(without, graph, {node: None}, lift=True)


def _each_without_input(graph: Graph, node: Node) -> Iterator[Make]:
    """The ways to do without one input: a number becomes a literal, a tensor another one."""
    values = graph.values()
    value = values[node]
    others: list[Any] = [value]
    if isinstance(value, torch.Tensor):
        earlier = graph.placeholders[: graph.placeholders.index(node)]
        others = [other for other in earlier if _alike(value, values[other])][:1]
    for other in others:
        yield partial(graph.part, graph.calls, outputs=graph.outputs, instead={node: other})


def without(graph: Graph, gone: Mapping[Node, Node | None], *, lift: bool = False) -> Graph:
    """The graph without some calls: users get another node, or what the call gave.

    What a call that was returned was made of is returned in its place, with `lift` also what any
    of them was made of: so nothing else goes with them.
    """
    keep = [call for call in graph.calls if call not in gone]
    instead = {node: twin for node, twin in gone.items() if twin is not None}
    found: list[Node] = []
    values = graph.values()

    def lifted(node: Node) -> None:
        for used in node.all_input_nodes:
            if used in gone:
                lifted(used)
            elif used.op.startswith("call_") and is_returnable(values[used]) and used not in found:
                found.append(used)

    for node in graph.outputs:
        while (twin := gone.get(node)) is not None:
            node = twin
        if node not in gone:
            found.append(node)
        else:
            lifted(node)
    for node in gone if lift else ():
        lifted(node)
    return graph.part(keep, outputs=found, instead=instead)


def _twins(graph: Graph, node: Node, gone: Collection[Node] = ()) -> list[Node]:
    """The nodes that can stand for a call's result: of the same shape and dtype, and what it was
    made of. First come its own arguments, then others, the nearest first; none of `gone`.

    For a call that is there for what it writes, the first tensor that it gets.
    """
    values = graph.values()
    if not node.users:
        return _sources(graph, node)[:1]
    found: dict[Node, None] = {}
    front, seen = [node], {node}
    while front and (not found or front == [node]):
        front = [n for one in front for n in one.all_input_nodes if n not in seen]
        seen.update(front)
        found.update(
            (n, None) for n in front if n not in gone and _alike(values[node], values.met(n, node))
        )
    return list(found)


def _sources(graph: Graph, node: Node) -> list[Node]:
    """The tensors that a call gets: its users may do with one of another shape."""
    values = graph.values()
    if node.users and not isinstance(values[node], torch.Tensor):
        return []
    return [n for n in node.all_input_nodes if isinstance(values[n], torch.Tensor)]


def _alike(one: Any, other: Any) -> bool:
    """Whether two values can stand for each other."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("shape", "dtype", "layout", "device", "is_quantized")
    )
