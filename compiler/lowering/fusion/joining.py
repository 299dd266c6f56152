"""Whether a loop can run in the loop nest of a kernel, and how its variables map to the nest's."""

from __future__ import annotations

from dataclasses import replace

import sympy

from fullgraph.compiler.lowering.fusion.inline import estimate
from fullgraph.compiler.lowering.fusion.kernels import Kernel, Mapping, Member, Phase
from fullgraph.compiler.lowering.ir import (
    Load,
    Loop,
    Ranges,
    Sizes,
    contiguous_strides,
    flatten_index,
    loads_in,
    product,
    simplify,
    unflatten_index,
    variables_of,
)

MAX_MEMBERS, MAX_BUFFERS = 24, 40
LEAST_OUTER, MOST_SERIAL = 4, 1 << 15
"""A pointwise kernel stays apart from a reduction that leaves few outer iterations, if large."""


def make_kernel(loop: Loop) -> Kernel:
    """Return a kernel of one loop; the inner loop of a scan is that over its dim."""
    if not loop.scan:
        mapping = _named(variables_of(loop.sizes), variables_of(loop.sizes, "o"))
        return Kernel(loop.sizes, loop.reduced, (Member(loop, _phase_of(loop), mapping),))
    dim = loop.scan.dim
    outer, inner = (*loop.sizes[:dim], *loop.sizes[dim + 1 :]), (loop.sizes[dim],)
    index = list(variables_of(outer, "o"))
    index[dim:dim] = variables_of(inner, "r")
    mapping = _named(variables_of(loop.sizes), tuple(index))
    return Kernel(outer, inner, (Member(loop, "scan", mapping),))


def _phase_of(loop: Loop) -> Phase:
    return "reduction" if loop.reduction else "outer"


def _named(names: Sizes, values: Sizes) -> Mapping:
    """Return the value of each variable; a dim of size 1 has none."""
    return {name: value for name, value in zip(names, values, strict=True) if name != 0}


def _index_in(sizes: Sizes, loops: Sizes, prefix: str, ranges: Ranges) -> Sizes | None:
    """Return the index into `sizes` of the element that each iteration of loops computes.

    Returns None if there are not as many iterations as elements.
    """
    index = variables_of(loops, prefix)
    if loops == sizes:
        return index
    if product(loops) != product(sizes):
        return None
    return unflatten_index(flatten_index(index, contiguous_strides(loops)), sizes, ranges)


def join(kernel: Kernel, loop: Loop, sizes: dict[str, Sizes]) -> Kernel | None:
    """Return the kernel with the loop as its last member; None if the loop nests do not agree.

    `sizes` are those of each buffer. A loop that reads a member's result must read the element
    that the same iteration writes.
    """
    if len(kernel.members) >= MAX_MEMBERS or kernel.is_scatter or loop.target:
        return None
    if kernel.is_scan or loop.scan:
        return None
    written = {member.name: member for member in kernel.members}
    loads = loads_in(loop.body)
    shared = [load for load in loads if load.buffer in written]
    if any(load.indirect for load in shared):
        return None
    found = (
        _join_reader(kernel, loop, load, written[load.buffer], sizes[load.buffer])
        for load in shared
    )
    joined = next(filter(None, found), None) if shared else _join_sibling(kernel, loop)
    if joined is None or not _reads_own_elements(joined, loop, sizes):
        return None
    buffers = {name for one in joined.members for name in (one.name, *one.loop.reads)}
    return joined if len(buffers) <= MAX_BUFFERS else None


def _join_sibling(kernel: Kernel, loop: Loop) -> Kernel | None:
    """Join a loop that reads none of the kernel's results: equal loop nests."""
    if kernel.inner != loop.reduced or bool(kernel.inner) != bool(loop.reduction):
        return None
    index = _index_in(loop.sizes, kernel.outer, "o", kernel.ranges)
    if index is None:
        return None
    reduced = variables_of(loop.reduced, "r")
    mapping = _named(reduced, reduced) | _named(variables_of(loop.sizes), index)
    return replace(kernel, members=(*kernel.members, Member(loop, _phase_of(loop), mapping)))


def _join_reader(
    kernel: Kernel, loop: Loop, load: Load, writer: Member, sizes: Sizes
) -> Kernel | None:
    """Join a loop that reads the result of a member, at the element that `load` reads."""
    strides = contiguous_strides(sizes)
    read = simplify(flatten_index(load.index, strides), loop.ranges)
    factors = _mixed_radix(read, loop.ranges, product(sizes))
    if factors is None:
        return None
    ranges = kernel.ranges
    written = simplify(flatten_index(writer.index, strides), ranges)
    free = {v: size for v, size in loop.ranges.items() if v not in factors}
    reduced = {v for v in variables_of(loop.reduced, "r") if v != 0}
    if writer.phase == "outer" and not kernel.inner and loop.reduction and not free:
        return _split_nest(kernel, loop, read, written)
    mapping = _solve(written, factors, loop.ranges, ranges)
    if writer.phase == "inner":
        if free:
            return None
        inner = {v for v in variables_of(kernel.inner, "r") if v != 0}
        if loop.reduction:
            uses_inner = {v for v, value in mapping.items() if value.free_symbols & inner}
            uses_outer = {v for v, v_ in mapping.items() if v_.free_symbols & (set(ranges) - inner)}
            if uses_inner != reduced or uses_outer & reduced:
                return None
            return _with_member(kernel, Member(loop, "reduction", mapping))
        return _with_member(kernel, Member(loop, "inner", mapping))
    if not free:
        return None if loop.reduction else _with_member(kernel, Member(loop, "outer", mapping))
    if loop.reduction and set(free) != reduced:
        return None
    free_sizes = tuple(free.values())
    if not kernel.inner:
        if loop.reduction and _is_serial(kernel.outer, free_sizes):
            return None
        kernel = replace(kernel, inner=free_sizes)
    index = _index_in(free_sizes, kernel.inner, "r", kernel.ranges)
    if index is None:
        return None
    mapping.update(zip(free, index, strict=True))
    return _with_member(kernel, Member(loop, "reduction" if loop.reduction else "inner", mapping))


def _with_member(kernel: Kernel, member: Member) -> Kernel | None:
    """Return the kernel with one more member; None if it would number positions otherwise."""
    if member.loop.reduction in ("argmax", "argmin"):
        reduced = _named(variables_of(member.loop.reduced, "r"), variables_of(kernel.inner, "r"))
        if kernel.inner != member.loop.reduced or any(member.mapping[v] != v for v in reduced):
            return None
    return replace(kernel, members=(*kernel.members, member))


def _is_serial(outer: Sizes, inner: Sizes) -> bool:
    """Return whether a nest has few outer iterations and much work in each."""
    return estimate(product(outer)) < LEAST_OUTER and estimate(product(inner)) > MOST_SERIAL


def _split_nest(kernel: Kernel, loop: Loop, read: sympy.Expr, written: sympy.Expr) -> Kernel | None:
    """Join a reduction to a pointwise kernel over its elements, which takes over its nest.

    `read` and `written` are the offset of an element by the loop's and by the kernel's variables.
    """
    if _is_serial(loop.sizes, loop.reduced):
        return None
    factors = _mixed_radix(written, kernel.ranges, product(kernel.outer))
    if factors is None or len(factors) != len(kernel.ranges):
        return None
    reduced = variables_of(loop.reduced, "r")
    renamed = _named(variables_of(loop.sizes), variables_of(loop.sizes, "o"))
    renamed |= _named(reduced, reduced)
    nest = Kernel(loop.sizes, loop.reduced, ())
    old = _solve(read.xreplace(renamed), factors, kernel.ranges, nest.ranges)
    members = []
    for member in kernel.members:
        mapping = {
            v: simplify(value.xreplace(old), nest.ranges) for v, value in member.mapping.items()
        }
        members.append(Member(member.loop, "inner", mapping))
    return replace(nest, members=(*members, Member(loop, "reduction", renamed)))


def _mixed_radix(
    offset: sympy.Expr, ranges: Ranges, count: sympy.Expr
) -> dict[sympy.Symbol, sympy.Expr] | None:
    """Return the factor of each variable in an offset that takes each value below `count` once.

    Returns None if it does not.
    """
    used = [v for v in ranges if v in offset.free_symbols]
    found: dict[sympy.Symbol, sympy.Expr] = {}
    left = {v: offset.coeff(v) for v in used}
    expected: sympy.Expr = sympy.Integer(1)
    while left:
        variable = next((v for v, factor in left.items() if factor == expected), None)
        if variable is None:
            return None
        found[variable] = left.pop(variable)
        expected = product([expected, ranges[variable]])
    rest = sympy.expand(offset - sum((v * f for v, f in found.items()), sympy.Integer(0)))
    return found if rest == 0 and expected == count else None


def _solve(
    offset: sympy.Expr, factors: Mapping, own: Ranges, ranges: Ranges
) -> dict[sympy.Symbol, sympy.Expr]:
    """Return the values of the variables of a mixed-radix number that make it equal `offset`."""
    order = list(factors)[::-1]
    index = unflatten_index(offset, tuple(own[v] for v in order), ranges)
    return dict(zip(order, index, strict=True))


def _reads_own_elements(kernel: Kernel, loop: Loop, sizes: dict[str, Sizes]) -> bool:
    """Return whether the last member reads, of each member's result, what its iteration writes."""
    *others, last = kernel.members
    written = {member.name: member for member in others}
    ranges = kernel.ranges
    for load in loads_in(loop.body):
        if load.buffer not in written:
            continue
        strides = contiguous_strides(sizes[load.buffer])
        index = tuple(part.xreplace(last.mapping) for part in load.index)
        read = simplify(flatten_index(index, strides), ranges)
        writer = written[load.buffer]
        if read != simplify(flatten_index(writer.index, strides), ranges):
            return False
        if writer.phase == "inner" and last.phase == "outer":
            return False
    return True
