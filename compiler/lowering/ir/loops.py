"""Loops over elements, calls of extern operators, and the buffers between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

import sympy
import torch

from fullgraph.compiler.lowering.ir.expressions import (
    Expression,
    IndexValue,
    Indirect,
    Load,
    loads_in,
    walk_expressions,
)
from fullgraph.compiler.lowering.ir.index import (
    flatten_index,
    loop_variables,
    ranges_of,
    simplify,
    variables_of,
)
from fullgraph.compiler.lowering.ir.sizes import symbols_of
from fullgraph.compiler.private import is_random_op, tree_leaves

Sizes = tuple[sympy.Expr, ...]
ReductionKind = Literal["sum", "prod", "max", "min", "any", "argmax", "argmin"]
ScanKind = Literal["sum", "prod", "max", "min", "argmax", "argmin", "logsumexp"]
"""The last of equal elements is the position of a maximum or minimum, as in cummax."""


@dataclass(frozen=True)
class Scan:
    """Each element of a loop's result accumulates those before it in a dim, and itself."""

    kind: ScanKind
    dim: int


@dataclass(frozen=True)
class Buffer:
    """Memory of a tensor."""

    name: str
    sizes: Sizes
    strides: Sizes
    dtype: torch.dtype

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.name}: {dtype}[{', '.join(map(str, self.sizes))}]"


@dataclass(frozen=True)
class View:
    """A tensor of some sizes whose element at (i0, i1, …) is the element `index` of a buffer."""

    buffer: str
    sizes: Sizes
    dtype: torch.dtype
    index: Sizes

    def load(self, index: Sizes, indirect: tuple[Indirect, ...] = ()) -> Load:
        """Return the load of one element; `indirect` are the computed positions in its index."""
        values = dict(zip(loop_variables(len(index)), index, strict=True))
        found = tuple(part.xreplace(values) for part in self.index)
        return Load(self.dtype, self.buffer, found, indirect)


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop that computes every element of a buffer: one by one, by a reduction, or by a scan.

    The variables of the buffer's dims are i0, i1, …; those of reduced dims are r0, r1, ….
    """

    name: str
    sizes: Sizes
    body: Expression
    reduction: ReductionKind | None = None
    reduced: Sizes = ()
    origins: tuple[str, ...] = ()
    """Names of the graph's nodes that it computes."""
    target: Load | None = None
    """In a scatter, the element that an iteration writes: the loop's sizes are not the buffer's."""
    updates: str | None = None
    """In a scatter, the buffer whose memory the result takes over, with the elements in it."""
    scan: Scan | None = None

    @property
    def accumulation(self) -> str:
        """Kind of the reduction or scan; "" for a loop without one."""
        return self.reduction or (self.scan.kind if self.scan else "")

    @property
    def written(self) -> Load:
        """The element that an iteration writes."""
        return self.target or Load(self.body.dtype, self.name, variables_of(self.sizes))

    @property
    def loads(self) -> list[Load]:
        """Every load, of the body and of the positions to which a scatter writes."""
        positions = [one.position for one in self.target.indirect] if self.target else []
        return [load for part in (self.body, *positions) for load in loads_in(part)]

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the buffers that are read."""
        updated = [self.updates] if self.updates else []
        return tuple(dict.fromkeys([load.buffer for load in self.loads] + updated))

    @property
    def ranges(self) -> dict[sympy.Symbol, sympy.Expr]:
        """Return the size of each loop variable."""
        return {**ranges_of(self.sizes), **ranges_of(self.reduced, "r")}

    def __str__(self) -> str:
        variables = ", ".join(f"{variable} < {size}" for variable, size in self.ranges.items())
        body = f"{self.reduction} {self.body}" if self.reduction else str(self.body)
        if self.scan:
            body = f"{self.scan.kind} along {self.scan.dim} of {body}"
        return f"for {variables}: {self.target or self.name} = {body}"


@dataclass(frozen=True, eq=False)
class Extern:
    """A call of an ATen operator of the closed list."""

    name: str
    target: torch._ops.OperatorBase
    args: tuple[object, ...]
    """Arguments of the call: `View`s for tensors, sympy expressions for symbolic sizes."""
    kwargs: tuple[tuple[str, object], ...]
    results: tuple[str | None, ...]
    """Names of the buffers of the results; None for a result that is not used."""
    returns_tuple: bool = False
    scalar: sympy.Symbol | None = None
    """Symbol of the number that it returns; there are no results then."""

    @property
    def views(self) -> list[View]:
        """Tensors among the arguments."""
        return views_in((self.args, self.kwargs))

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the buffers that are read."""
        return tuple(dict.fromkeys(view.buffer for view in self.views))

    @property
    def is_random(self) -> bool:
        """Whether it takes numbers from eager's random stream, as attention with dropout does."""
        return is_random_op(self.target)

    def __str__(self) -> str:
        results = ", ".join(str(name) for name in self.results)
        operands = ", ".join(view.buffer for view in self.views)
        return f"{results} = {self.target}({operands})"


@dataclass(frozen=True, eq=False)
class Update:
    """A copy into an input that the program updates in-place."""

    name: str
    """Name of the input's buffer."""
    source: str

    def __str__(self) -> str:
        return f"{self.name} ← {self.source}"


@dataclass(frozen=True, eq=False)
class Assertion:
    """A condition that must hold: of sizes, or a tensor of one element that is not 0."""

    condition: View | sympy.Basic
    message: str

    def __str__(self) -> str:
        return f"assert {getattr(self.condition, 'buffer', self.condition)}"


Step = Loop | Extern
Output: TypeAlias = "View | sympy.Basic | None"


@dataclass(frozen=True)
class LoopGraph:
    """A graph as loops and extern calls, in order."""

    buffers: dict[str, Buffer]
    inputs: tuple[str | sympy.Expr, ...]
    """Names of buffers, and symbols of sizes."""
    constants: dict[str, torch.Tensor]
    steps: tuple[Step, ...]
    updates: tuple[Update, ...]
    outputs: tuple[Output, ...]
    device: torch.device
    """Device on which the loops run."""
    assertions: tuple[Assertion, ...] = ()
    """Conditions that are checked after the steps."""
    complex_buffers: frozenset[str] = frozenset()
    """Buffers that torch allocates as complex; each has one more dim, of two parts."""
    on_cpu: frozenset[str] = frozenset()
    """Inputs, constants and extern results on the CPU; the program copies them to the device."""
    cpu_outputs: frozenset[int] = frozenset()
    """Positions of the outputs that the program copies to the CPU."""
    output_strides: Mapping[int, Sizes] = field(default_factory=dict)
    """Strides of outputs, by position, that get others: as a rule, those of dims of size 1."""

    @cached_property
    def given_symbols(self) -> frozenset[sympy.Symbol]:
        """Symbols that are known before the first step: inputs, and sizes of inputs."""
        sizes = [self.buffers[one].sizes if isinstance(one, str) else (one,) for one in self.inputs]
        return frozenset().union(*(size.free_symbols for each in sizes for size in each))

    @property
    def kept(self) -> set[str]:
        """Buffers that are read after the steps."""
        conditions = [one.condition for one in self.assertions]
        found = {one.buffer for one in (*self.outputs, *conditions) if isinstance(one, View)}
        return found | {update.source for update in self.updates}

    def __str__(self) -> str:
        lines = [
            f"input {self.buffers[one] if isinstance(one, str) else one}" for one in self.inputs
        ]
        lines += [f"constant {self.buffers[name]}" for name in self.constants]
        lines += [str(step) for step in (*self.steps, *self.assertions, *self.updates)]
        outputs = [one.buffer if isinstance(one, View) else str(one) for one in self.outputs]
        return "\n".join([*lines, f"return {', '.join(outputs)}"])


@dataclass(frozen=True)
class Subgraph:
    """A branch or a loop's body, an argument of an operator that calls it."""

    loops: LoopGraph
    returns_tuple: bool


def views_in(value: object) -> list[View]:
    """Return the views among arguments."""
    return [one for one in tree_leaves(value) if isinstance(one, View)]


def strides_of(view: View, buffer: Buffer) -> tuple[Sizes, sympy.Expr] | None:
    """Return strides and offset of a view in its buffer's memory; None if it has none."""
    ranges = ranges_of(view.sizes)
    offset = simplify(flatten_index(view.index, buffer.strides), ranges)
    strides: list[sympy.Expr] = []
    for variable in variables_of(view.sizes):
        stride = sympy.Integer(1) if variable == 0 else offset.coeff(variable)
        strides.append(stride)
        offset = sympy.expand(offset - stride * variable)
    for dim in reversed(range(len(strides) - 1)):
        if view.sizes[dim] == 1:  # as torch has it: some operators ask how strides are aligned
            strides[dim] = strides[dim + 1] * view.sizes[dim + 1]
    if any(one.free_symbols & set(ranges) for one in (offset, *strides)):
        return None
    return tuple(strides), offset


def symbols_from(extern: Extern, graph: LoopGraph) -> set[sympy.Symbol]:
    """Return the symbols of sizes that are known when an extern call has run."""
    sizes = [size for name in extern.results if name for size in graph.buffers[name].sizes]
    found = {size for size in sizes if isinstance(size, sympy.Symbol)} | {extern.scalar}
    return {one for one in found if one is not None} - graph.given_symbols


def symbols_in(step: Step) -> set[sympy.Symbol]:
    """Return the symbols of sizes in a step's loops, values and arguments."""
    if isinstance(step, Extern):
        parts = [part for view in step.views for part in view.sizes]
        leaves = tree_leaves((step.args, step.kwargs))
        parts += [one for one in leaves if isinstance(one, sympy.Expr)]
    else:
        parts = [*step.sizes, *step.reduced]
        for one in walk_expressions(step.body):
            if isinstance(one, IndexValue):
                parts.append(one.index)
            elif isinstance(one, Load):
                parts += one.index
    return set().union(*map(symbols_of, parts))
