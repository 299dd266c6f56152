"""Builder of loop graphs: each call adds a loop or an extern call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from fullgraph.compiler.lowering.ir.expressions import Expression, Indirect, Load, Operation
from fullgraph.compiler.lowering.ir.index import contiguous_strides, product, variables_of
from fullgraph.compiler.lowering.ir.loops import (
    Buffer,
    Loop,
    ReductionKind,
    Scan,
    Sizes,
    Step,
    View,
)
from fullgraph.compiler.lowering.ir.operators import cast, constant, number_value
from fullgraph.compiler.lowering.ir.sizes import index_of
from fullgraph.compiler.lowering.prims import words

RESERVED = words(
    """
    inputs torch math float_bits empty_strided restride check check_condition get_num_threads
    threads error
    """
)
"""Names of other values in the source of a program."""
Number = bool | int | float
Operand = View | Number | sympy.Expr


@dataclass
class GraphBuilder:
    """The steps of a graph so far."""

    buffers: dict[str, Buffer] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def add_buffer(self, name: str, sizes: Sizes, dtype: torch.dtype, strides: Sizes) -> View:
        """Add a buffer; return a view of all of it. A taken name gets a number."""
        base, number = name, 0
        while name in self.buffers or name in RESERVED:
            number += 1
            name = f"{base}_{number}"
        self.buffers[name] = Buffer(name, sizes, strides, dtype)
        return View(name, sizes, dtype, variables_of(sizes))

    def add_loop(
        self,
        name: str,
        sizes: Sizes,
        body: Expression,
        *,
        strides: Sizes | None = None,
        reduction: ReductionKind | None = None,
        reduced: Sizes = (),
        scan: Scan | None = None,
        dtype: torch.dtype | None = None,
    ) -> View:
        """Add a loop whose `body` is in terms of i0, i1, … and r0, r1, …"""
        view = self.add_buffer(
            name, sizes, dtype or body.dtype, strides or contiguous_strides(sizes)
        )
        self.steps.append(Loop(view.buffer, sizes, body, reduction, reduced, (name,), scan=scan))
        return view

    def add_copy(self, name: str, view: View, strides: Sizes | None = None) -> View:
        """Add a loop that copies a view's elements, which have other strides in the copy."""
        strides = strides or contiguous_strides(view.sizes)
        pairs = zip(view.sizes, strides, strict=True)
        sizes = tuple(sympy.Integer(1) if stride == 0 else size for size, stride in pairs)
        copy = self.add_loop(name, sizes, view.load(variables_of(sizes)), strides=strides)
        return View(copy.buffer, view.sizes, view.dtype, variables_of(sizes))

    def add_scatter(
        self, name: str, base: View, sizes: Sizes, body: Expression, index: Sizes,
        indirect: tuple[Indirect, ...] = (),
    ) -> View:  # fmt: skip
        """Add a loop that writes elements at `index` into a copy of `base`; return the copy."""
        copied = self.add_loop(name, base.sizes, base.load(variables_of(base.sizes)))
        buffer = self.buffers[copied.buffer]
        view = self.add_buffer(name, buffer.sizes, buffer.dtype, buffer.strides)
        target = Load(view.dtype, view.buffer, index, indirect)
        self.steps.append(
            Loop(view.buffer, sizes, body, origins=(name,), target=target, updates=copied.buffer)
        )
        return view


@dataclass(frozen=True)
class Call:
    """One call of an ATen operator in the graph, with arguments by name."""

    builder: GraphBuilder
    name: str
    target: torch._ops.OpOverload
    arguments: dict[str, Any]
    result: object
    """The fake tensor, or tensors, that the call returns."""

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    def view(self, name: str) -> View:
        """Return a tensor argument."""
        value = self.arguments[name]
        assert isinstance(value, View), f"{self.target}: {name} is {value!r}"
        return value

    def size(self, name: str) -> sympy.Expr:
        """Return an integer argument as an expression."""
        return sympy.sympify(self.arguments[name])

    def dims(self, name: str, rank: int) -> tuple[int, ...]:
        """Return an argument that lists dims, as numbers from 0; all dims if it is empty."""
        value = self.arguments.get(name)
        if value is None or value == []:
            return tuple(range(rank))
        dims: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
        numbers = [int(dim) for dim in dims]
        return tuple(sorted({dim % rank for dim in numbers})) if rank else ()

    def dim(self, name: str, rank: int) -> int:
        """Return an argument that is a dim, as a number from 0."""
        return int(self.arguments[name]) % max(rank, 1)

    @property
    def sizes(self) -> Sizes:
        """Sizes of the (first) result."""
        return sizes_of(self._tensor)

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the (first) result."""
        return self._tensor.dtype

    @property
    def strides(self) -> Sizes:
        """Strides of the (first) result if its elements fill memory, else contiguous ones."""
        strides = tuple(map(index_of, self._tensor.stride()))
        has_gaps = dense_order(self.sizes, strides) is None and 0 not in self.sizes
        return contiguous_strides(self.sizes) if has_gaps else strides

    @property
    def _tensor(self) -> torch.Tensor:
        result = self.result[0] if isinstance(self.result, list | tuple) else self.result
        assert isinstance(result, torch.Tensor)
        return result

    def pointwise(self, body: Callable[[Sizes], Expression]) -> View:
        """Add a loop over the result's elements; `body` returns the element at an index."""
        value = rounded(cast(body(variables_of(self.sizes)), self.dtype))
        return self.builder.add_loop(self.name, self.sizes, value, strides=self.strides)

    def element(self, operand: object, index: Sizes, dtype: torch.dtype) -> Expression:
        """Return the element of an operand, broadcast to the result's sizes, as a dtype."""
        if isinstance(operand, View):
            return cast(operand.load(broadcast_index(operand.sizes, index, self.sizes)), dtype)
        if isinstance(operand, sympy.Basic) and not operand.is_number:
            return number_value(operand, dtype)
        return constant(operand, dtype)  # type: ignore[arg-type]


def rounded(value: Expression) -> Expression:
    """Return a value rounded to its dtype, as eager rounds each result that it writes to memory."""
    is_narrow = value.dtype in (torch.bfloat16, torch.float16)
    if not is_narrow or not isinstance(value, Operation) or value.operator == "cast":
        return value
    return Operation(value.dtype, "cast", (value,))


def broadcast_index(sizes: Sizes, index: Sizes, target: Sizes) -> Sizes:
    """Return the index into `sizes` for an index into the sizes that it is broadcast to."""
    start = len(index) - len(sizes)
    return tuple(
        sympy.Integer(0) if size == 1 and target[start + dim] != 1 else index[start + dim]
        for dim, size in enumerate(sizes)
    )


def sizes_of(tensor: torch.Tensor) -> Sizes:
    """Return the sizes of a fake tensor as expressions."""
    return tuple(map(index_of, tensor.shape))


def dense_order(sizes: Sizes, strides: Sizes) -> tuple[int, ...] | None:
    """Return the dims from the largest stride to the smallest; None if there are gaps."""
    left = [dim for dim, size in enumerate(sizes) if size != 1]
    order: list[int] = []
    expected = sympy.Integer(1)
    while left:
        found = next((dim for dim in reversed(left) if strides[dim] == expected), None)
        if found is None:
            return None
        left.remove(found)
        order.insert(0, found)
        expected = product([expected, sizes[found]])
    return tuple(order)
