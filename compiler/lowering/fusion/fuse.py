"""Fusion: which loops run in one kernel, decided by the bytes that need not be moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx
import sympy

from fullgraph.compiler.lowering.fusion.inline import bytes_of, inline_producers
from fullgraph.compiler.lowering.fusion.joining import join, make_kernel
from fullgraph.compiler.lowering.fusion.kernels import Kernel, Plan
from fullgraph.compiler.lowering.ir import Extern, Loop, LoopGraph, Sizes, symbols_from, symbols_in

MAX_SIBLINGS = 8
"""Number of latest kernels that are tried for a loop that reads the same buffers."""


def fuse(graph: LoopGraph) -> Plan:
    """Return the plan of a graph.

    Pointwise producers are computed inside their consumers; then each loop joins the kernel with
    which it shares most bytes, if their loop nests agree and no dependency leads out of the kernel
    and back.
    """
    graph = inline_producers(graph)
    sizes = {name: buffer.sizes for name, buffer in graph.buffers.items()}
    groups: list[Kernel | Extern] = []
    dependencies: nx.DiGraph[Any] = nx.DiGraph()
    writer: dict[str | sympy.Symbol, int] = {}
    random: set[int] = set()
    for step in graph.steps:
        needs = {writer[name] for name in (*step.reads, *symbols_in(step)) if name in writer}
        number = len(groups)
        if isinstance(step, Extern) and step.is_random:  # in the order of eager's random stream
            needs |= random
            random = {number}
        if isinstance(step, Loop):
            for candidate, joined in _candidates(step, needs, groups, graph, sizes):
                after = nx.descendants(dependencies, candidate)
                if after.isdisjoint(needs - {candidate}):  # no dependency leads out and back
                    groups[candidate], number = joined, candidate
                    break
            else:
                groups.append(make_kernel(step))
        else:
            groups.append(step)
        dependencies.add_node(number)
        dependencies.add_edges_from((other, number) for other in needs - {number})
        results = step.results if isinstance(step, Extern) else (step.name,)
        writer.update({name: number for name in results if name})
        if isinstance(step, Extern):
            writer.update(dict.fromkeys(symbols_from(step, graph) - set(writer), number))
    order = nx.lexicographical_topological_sort(dependencies)
    return Plan(graph, tuple(groups[number] for number in order))


def _candidates(
    loop: Loop,
    needs: set[int],
    groups: list[Kernel | Extern],
    graph: LoopGraph,
    sizes: dict[str, Sizes],
) -> Iterator[tuple[int, Kernel]]:
    """Yield kernels that the loop can join, with it: first where most bytes are shared."""
    scores: list[tuple[int, int]] = []
    siblings = 0
    for number in range(len(groups) - 1, -1, -1):
        kernel = groups[number]
        if isinstance(kernel, Extern):
            continue
        shared = set(loop.reads).intersection((*kernel.reads, *kernel.writes))
        if not shared:
            continue
        siblings += number not in needs
        if number in needs or siblings <= MAX_SIBLINGS:
            scores.append((sum(bytes_of(graph.buffers[name]) for name in shared), number))
    for _, number in sorted(scores, reverse=True):
        kernel = groups[number]
        assert isinstance(kernel, Kernel)
        joined = join(kernel, loop, sizes)
        if joined is not None:
            yield number, joined
