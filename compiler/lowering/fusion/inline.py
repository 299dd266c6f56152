"""Fuse pointwise producers into their consumers: a loop's body moves to where it is read."""

from __future__ import annotations

from dataclasses import replace

import sympy

from fullgraph.compiler.lowering.ir import (
    HEAVY,
    Buffer,
    E,
    Expression,
    Extern,
    Load,
    Loop,
    LoopGraph,
    Operation,
    Ranges,
    Step,
    loop_variables,
    product,
    simplify,
    substitute,
    symbols_from,
    transform,
    walk_expressions,
    with_index,
)

ASSUMED_SIZE = 64
"""Size that stands for a symbolic one in estimates."""
MAX_LOADS, MAX_OPERATIONS = 12, 120
"""Most loads and operations of a body."""


def estimate(size: sympy.Expr) -> int:
    """Return a number for a size that may be symbolic."""
    return int(size.subs(dict.fromkeys(size.free_symbols, ASSUMED_SIZE)))


def bytes_of(buffer: Buffer) -> int:
    """Return the estimated bytes of a buffer."""
    return estimate(product(buffer.sizes)) * buffer.dtype.itemsize


def inline_producers(graph: LoopGraph) -> LoopGraph:
    """Return the graph with pointwise loops computed inside the loops that read them.

    A loop stays if an output, an extern call or an indirect load reads it, or if less memory is
    moved so: with several readers, its operands would be read several times.
    """
    steps = drop_unused(graph)
    in_memory = _needed_in_memory(graph, steps)
    readers: dict[str, list[Loop]] = {}
    for step in steps:
        if isinstance(step, Loop):
            for name in step.reads:
                readers.setdefault(name, []).append(step)
    inlined: dict[str, Loop] = {}
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, Loop):
            step = _with_producers(step, inlined)
            if step.name not in in_memory and _is_cheaper_inlined(
                step, readers.get(step.name, []), graph
            ):
                inlined[step.name] = step
                continue
        kept.append(step)
    return replace(graph, steps=tuple(kept))


def drop_unused(graph: LoopGraph) -> list[Step]:
    """Return the steps on whose results an output, an update or an assertion depends.

    Extern calls that return no tensor stay: they check something, or return a number. So do those
    that tell a size, which depends on data.
    """
    needed = graph.kept
    kept: list[Step] = []
    for step in reversed(graph.steps):
        results = step.results if isinstance(step, Extern) else (step.name,)
        tells_size = isinstance(step, Extern) and symbols_from(step, graph)
        if needed.intersection(results) or not results or tells_size:
            needed.update(step.reads)
            kept.append(step)
    return kept[::-1]


def _needed_in_memory(graph: LoopGraph, steps: list[Step]) -> set[str]:
    """Return the buffers that must be written to memory."""
    found = graph.kept
    for step in steps:
        if isinstance(step, Extern):
            found.update(step.reads)
        else:
            found.update(load.buffer for load in step.loads if load.indirect)
            found.update([step.updates] if step.updates else [])
    return found


def _with_producers(loop: Loop, inlined: dict[str, Loop]) -> Loop:
    """Return the loop with the bodies of inlined loops in place of their loads."""
    if inlined.keys().isdisjoint(loop.reads):
        return loop
    ranges, origins = loop.ranges, dict.fromkeys(loop.origins)
    bodies: dict[tuple[str, tuple[sympy.Expr, ...]], Expression] = {}

    def change(one: Expression) -> Expression | None:
        if not isinstance(one, Load) or one.buffer not in inlined:
            return None
        producer = inlined[one.buffer]
        key = (one.buffer, one.index)
        if key not in bodies:
            values = dict(zip(loop_variables(len(one.index)), one.index, strict=True))
            body = substitute(producer.body, values)
            bodies[key] = simplify_indices(body, ranges)
        origins.update(dict.fromkeys(producer.origins))
        return bodies[key]

    target = transform(loop.target, change) if loop.target else None
    assert target is None or isinstance(target, Load)
    return replace(loop, body=transform(loop.body, change), target=target, origins=(*origins,))


def simplify_indices(expression: E, ranges: Ranges) -> E:
    """Return an expression whose loads have indices simplified by the ranges of variables."""
    return with_index(expression, lambda load: tuple(simplify(part, ranges) for part in load.index))


def _is_cheaper_inlined(loop: Loop, readers: list[Loop], graph: LoopGraph) -> bool:
    """Return whether a loop is computed where it is read, by the bytes that this moves."""
    if loop.reduction or loop.target or loop.scan or not readers:
        return False
    parts = list(walk_expressions(loop.body))
    operations = [one.operator for one in parts if isinstance(one, Operation)]
    loads = {load.buffer for load in parts if isinstance(load, Load)}
    if len(parts) - len(operations) > MAX_LOADS or len(operations) > MAX_OPERATIONS:
        return False
    if not loads and len(operations) <= 4:
        return True
    size = estimate(product(loop.sizes))
    largest = max(estimate(product((*one.sizes, *one.reduced))) for one in readers)
    is_expanded = largest > size
    arithmetic = [name for name in operations if name not in ("cast", "where", "masked")]
    if is_expanded and len(arithmetic) > (0 if HEAVY.intersection(operations) else 2):
        return False
    if len(readers) == 1:
        return True
    if HEAVY.intersection(operations):
        return False
    read = sum(bytes_of(graph.buffers[name]) for name in loads)
    own = bytes_of(graph.buffers[loop.name])
    return len(readers) * read <= read + own + len(readers) * own
