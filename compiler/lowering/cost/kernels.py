"""Kernels that a fusing compiler would launch for the operators of a graph.

The rules follow Inductor's. A pointwise operator is inlined into its consumers unless it is an
output, an extern operator or a scatter reads it, or it has several consumers and is expensive or
reads many values. The other operators are loops. A loop is fused into a kernel that reads or writes
a value that it reads, if no dependency leads out of the kernel and back, and if their iteration
spaces agree:

- two pointwise loops agree if they have the same number of elements, two reductions if equal;
- a reduction agrees with an earlier pointwise loop over its operand if it folds the last dims;
- a pointwise loop over a reduction's operand (if it folds the last dims) or over its result agrees
  with the earlier reduction, unless the result is a single number.

A scatter or an extern operator is a separate kernel. On CPU, a separate loop copies each operand of
`cat`, and each input and weight of a convolution that is not in channels-last format.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import networkx as nx

from fullgraph.compiler.lowering.cost.operator_kinds import is_heavy
from fullgraph.compiler.operations import Operation, OperatorTrace, Space

MAX_SHARED_READS, MAX_READS = 4, 8
"""Most values that a pointwise operator may read to be inlined into several consumers, or one."""


@dataclass(frozen=True)
class Kernel:
    """One kernel launch: a kernel that Inductor generates, or a call of a library like cuBLAS."""

    operations: tuple[str, ...]
    """Names of the operators in order. An inlined operator is in each kernel that computes it."""
    is_extern: bool
    reads: tuple[tuple[int, int], ...]
    """(index of the value, bytes) for each value read from memory."""
    writes: tuple[int, ...]
    """Indices of the values written to memory."""
    flops: int
    dtype: str


@dataclass(frozen=True)
class _Loop:
    """A loop of a generated kernel: an operator that writes to memory, and those inlined in it."""

    operation: Operation
    inlined: tuple[Operation, ...]
    reads: dict[int, int]
    """Bytes read, by index of the value."""


def plan_kernels(trace: OperatorTrace, *, fuse: bool = True) -> tuple[Kernel, ...]:
    """Return the kernels of a graph, each one after those that it depends on.

    If `fuse` is False, each operator is one kernel.
    """
    groups: list[list[_Loop]] = []
    consumers: nx.DiGraph[int] = nx.DiGraph()
    made_by: dict[int, int] = {}
    for loop in _make_loops(trace, fuse):
        needs = {made_by[value] for value in loop.reads if value in made_by}
        index = _find_group(loop, needs, groups, consumers) if fuse else None
        if index is None:
            index = len(groups)
            groups.append([])
            consumers.add_node(index)
        groups[index].append(loop)
        consumers.add_edges_from((other, index) for other in needs - {index})
        made_by.update(dict.fromkeys(loop.operation.writes, index))
    producers: nx.DiGraph[int] = nx.DiGraph()
    producers.add_nodes_from(consumers)
    producers.add_edges_from(sorted((index, other) for other, index in consumers.edges))
    order = nx.dfs_postorder_nodes(producers)
    readers: dict[int, set[int]] = {value: {-1} for value in trace.outputs}
    for index, group in enumerate(groups):
        for value in {value for loop in group for value in loop.reads}:
            readers.setdefault(value, set()).add(index)
    return tuple(_make_kernel(groups[index], index, readers) for index in order)


def _make_loops(trace: OperatorTrace, fuse: bool) -> Iterator[_Loop]:
    """Yield a loop for each operator that writes to memory; skip operators with unused results.

    If `fuse` is False, every operator writes to memory.
    """
    operations = _drop_unused(trace)
    users: dict[int, list[Operation]] = {}
    for operation in operations:
        for value in {read.value for read in operation.reads}:
            users.setdefault(value, []).append(operation)
    inlined: dict[int, _Loop] = {}
    for operation in operations:
        reads: dict[int, int] = {}
        inner: dict[int, Operation] = {}
        for read in operation.reads:
            if read.value in inlined:
                producer = inlined[read.value]
                inner.update((id(one), one) for one in (*producer.inlined, producer.operation))
                found = producer.reads
            else:
                found = {read.value: read.bytes}
            for value, size in found.items():
                reads[value] = max(size, reads.get(value, 0))
        loop = _Loop(operation, tuple(inner.values()), reads)
        consumers = [user for value in operation.writes for user in users.get(value, ())]
        if fuse and _is_inlined(loop, consumers, trace.outputs):
            inlined[operation.writes[0]] = loop
        else:
            yield loop


def _drop_unused(trace: OperatorTrace) -> list[Operation]:
    """Return the operators that an output depends on, and unknown ones, which may have effects."""
    needed = set(trace.outputs)
    kept = []
    for operation in reversed(trace.operations):
        if not operation.is_known or not needed.isdisjoint(operation.writes):
            needed.update(read.value for read in operation.reads)
            kept.append(operation)
    return kept[::-1]


def _is_inlined(loop: _Loop, consumers: list[Operation], outputs: Collection[int]) -> bool:
    """Return whether an operator is computed inside its consumers and never written to memory.

    `consumers` are the operators that read its result, `outputs` the values that the graph returns.
    """
    operation = loop.operation
    if operation.kind != "pointwise" or operation.is_stored or len(operation.writes) != 1:
        return False
    if not consumers or operation.writes[0] in outputs:
        return False
    if any(consumer.kind in ("extern", "scatter") for consumer in consumers):
        return False
    if len(consumers) > 1 and (len(loop.reads) > MAX_SHARED_READS or is_heavy(operation.name)):
        return False
    return len(loop.reads) <= MAX_READS


def _find_group(
    loop: _Loop, needs: set[int], groups: list[list[_Loop]], consumers: nx.DiGraph[int]
) -> int | None:
    """Return the index of the group into which `loop` is fused; None if it starts a new group.

    `needs` are the groups that write what the loop reads; the latest of them is preferred.
    """
    if loop.operation.kind in ("extern", "scatter"):
        return None
    for index in sorted(range(len(groups)), key=lambda i: (i in needs, i), reverse=True):
        group = groups[index]
        if group[0].operation.kind in ("extern", "scatter"):
            continue
        touched = {v for one in group for v in (*one.reads, *one.operation.writes)}
        if touched.isdisjoint(loop.reads) or not _spaces_match(loop, group):
            continue
        if nx.descendants(consumers, index).isdisjoint(needs - {index}):
            return index
    return None


def _spaces_match(loop: _Loop, group: list[_Loop]) -> bool:
    """Return whether `loop` can share a kernel with `group`: their iteration spaces match.

    For example, a pointwise operator can join a reduction over as many elements.
    """
    space = loop.operation.space
    spaces = [one.operation.space for one in group]
    reduction = next((one for one in spaces if _is_reduction(one)), None)
    if not _is_reduction(space):
        size = _count_iterations(space)
        if reduction is None:
            return size == _count_iterations(spaces[0])
        kept = _count_results(reduction)
        return kept > 1 and (
            size == kept or (size == _count_iterations(reduction) and _reduces_last_dims(reduction))
        )
    if reduction is not None:
        return space == reduction
    size = _count_iterations(spaces[0])
    if size == _count_iterations(space):
        return _reduces_last_dims(space)
    return size == _count_results(space) > 1


def _is_reduction(space: Space) -> bool:
    """Return whether a dim in the iteration space is reduced."""
    return any(reduced for _, reduced in space)


def _count_iterations(space: Space) -> int:
    """Return the number of iterations of a loop over `space`."""
    return math.prod(size for size, _ in space)


def _count_results(space: Space) -> int:
    """Return how many elements a reduction over `space` returns."""
    return math.prod(size for size, reduced in space if not reduced)


def _reduces_last_dims(space: Space) -> bool:
    """Return whether a reduction over `space` reduces its last dims and no others."""
    return space[-1][1] and sum(reduced for _, reduced in space) == 1


def _make_kernel(loops: list[_Loop], index: int, readers: dict[int, set[int]]) -> Kernel:
    """Return the kernel of the group `index`, with the values that it reads and writes in memory.

    `readers` are the groups that read each value; -1 stands for the graph's outputs.
    """
    written = {value for loop in loops for value in loop.operation.writes}
    reads: dict[int, int] = {}
    for loop in loops:
        for value, size in loop.reads.items():
            if value not in written:
                reads[value] = max(size, reads.get(value, 0))
    operations = [one for loop in loops for one in (*loop.inlined, loop.operation)]
    first = loops[0].operation
    is_extern = first.kind == "extern"
    return Kernel(
        tuple(one.name for one in operations),
        is_extern,
        tuple(reads.items()),
        tuple(sorted(v for v in written if is_extern or readers.get(v, set()) - {index})),
        sum(one.flops for one in operations),
        first.dtype,
    )
