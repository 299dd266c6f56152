"""Index arithmetic: simplified expressions have the values of the original ones."""

from __future__ import annotations

import itertools

import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from fullgraph.compiler.lowering.ir.index import (
    FloorDiv,
    Mod,
    contiguous_strides,
    flatten_index,
    loop_variables,
    ranges_of,
    reshape_index,
    simplify,
    variables_of,
)


def numbers(*values: int) -> tuple[sympy.Expr, ...]:
    return tuple(map(sympy.Integer, values))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_simplified_index_has_equal_values(
    sizes: list[int], factors: list[int], first: int, second: int
) -> None:
    shape = numbers(*sizes)
    variables = variables_of(shape)
    offset = flatten_index(variables, numbers(*(factors * 4)[: len(sizes)])) + 3
    value = second * FloorDiv(offset, first) + Mod(offset, second) + FloorDiv(Mod(offset, 8), 2)
    simple = simplify(value, ranges_of(shape))
    for point in itertools.product(*map(range, sizes)):
        places = {v: n for v, n in zip(variables, point, strict=True) if v != 0}
        assert value.subs(places) == simple.subs(places)


def test_reshape_there_and_back_is_the_identity() -> None:
    rows = sympy.Symbol("s0", integer=True, positive=True)
    four, flat = (rows, *numbers(4, 6)), (4 * rows, *numbers(2, 3))
    ranges = ranges_of(four)
    there = reshape_index(variables_of(flat), flat, four, ranges_of(flat))
    back = reshape_index(variables_of(four), four, flat, ranges)
    values = dict(zip(loop_variables(3), back, strict=True))
    both = [part.xreplace(values) for part in there]
    assert simplify(flatten_index(both, contiguous_strides(four)), ranges) == flatten_index(
        variables_of(four), contiguous_strides(four)
    )
