"""Triton source of a kernel: a tile of outer and inner iterations, or a loop over such tiles."""

from __future__ import annotations

from dataclasses import replace

import sympy

from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.compiler.lowering.codegen import Arguments, Axes, KernelSource
from fullgraph.compiler.lowering.disk import digest
from fullgraph.compiler.lowering.fusion import (
    Dims,
    Kernel,
    Nest,
    Statement,
    find_levels,
    make_nest,
    runs_along_outer,
)
from fullgraph.compiler.lowering.ir import (
    SPECIAL,
    Buffer,
    Load,
    Operation,
    product,
    unflatten_index,
    walk_expressions,
)
from fullgraph.compiler.lowering.triton.accumulators import Accumulator
from fullgraph.compiler.lowering.triton.writer import Writer

POINTWISE_BLOCK = 1024
"""Outer iterations of a program without inner ones."""
TILE = 4096
"""Most elements of a tile."""
MAX_ROW = 4096
"""Most inner iterations that are one tile, without a loop."""
MAX_INT32 = 2**31 - 1


def write_kernel(
    kernel: Kernel, buffers: dict[str, Buffer], in_memory: frozenset[str]
) -> KernelSource:
    """Return the Triton source of a kernel. `in_memory` are the buffers that others read.

    Raises `UnsupportedOperator` for special functions.
    """
    parts = [part for one in kernel.members for part in walk_expressions(one.loop.body)]
    names = {one.operator for one in parts if isinstance(one, Operation)} & {*SPECIAL, "bitcast"}
    if names:
        missing = ", ".join(sorted(names))
        raise UnsupportedOperator(f"backend `loops`: Triton kernels have no {missing}")
    return _KernelWriter(make_nest(kernel, buffers), buffers, in_memory).write()


class _KernelWriter:
    """State of writing one kernel."""

    def __init__(self, nest: Nest, buffers: dict[str, Buffer], in_memory: frozenset[str]) -> None:
        self._nest = nest
        self._buffers = buffers
        self._in_memory = in_memory
        self._arguments = Arguments()
        self._level = find_levels(nest)
        self._statements = {one.member.name: one for one in nest.statements}
        self._outer_values: dict[str, str] = {}
        self._count = nest.inner_count
        self._first = _accumulator(nest.statements[0])
        is_short = self._count.is_Integer and int(self._count) <= MAX_ROW
        self._is_one_tile = is_short and not self._first.is_scan
        names = {variable: str(variable) for variable in nest.ranges}
        axes = {str(variable): frozenset("x") for variable, _ in nest.outer}
        axes |= {str(variable): frozenset("r") for variable, _ in nest.inner}
        self._writer = Writer(self._arguments, names, axes, self._read_local)

    def write(self) -> KernelSource:
        """Return the source."""
        total = product([size for _, size in self._nest.outer])
        self._open(total)
        if not self._nest.inner:
            for statement in self._nest.statements:
                self._compute(self._writer, statement)
        else:
            for level in range(max(self._level.values()) + 1):
                self._write_level(level)
        return self._finish(total)

    def _open(self, total: sympy.Expr) -> None:
        """Write the outer iterations of the program, and the lanes of its inner ones."""
        writer, column = self._writer, "[:, None]" if self._nest.inner else ""
        is_wide = not all(map(_is_small, (total, self._count, *self._spans())))
        program = "tl.program_id(0)" + (".to(tl.int64)" if is_wide else "")
        writer.lines += [
            f"x = ({program} * XBLOCK + tl.arange(0, XBLOCK)){column}",
            f"in_x = x < {writer.index(total)}",
            "zero_x = x * 0",
        ]
        self._name_variables(writer, "x", self._nest.outer)
        if self._nest.inner:
            lanes = "tl.arange(0, RBLOCK)[None, :]" + (".to(tl.int64)" if is_wide else "")
            writer.lines.append(f"lanes = {lanes}")
            if self._is_one_tile:
                self._name_inner(writer, "lanes")

    def _spans(self) -> list[sympy.Expr]:
        """Return the number of elements of each buffer's memory that is read or written."""
        loads = {name for one in self._nest.statements for name in one.member.loop.reads}
        names = loads | set(self._statements)
        return [product(self._buffers[name].sizes) for name in names if name in self._buffers]

    def _name_variables(self, writer: Writer, flat: str, dims: Dims) -> None:
        """Write each loop variable as the quotient or remainder of a flat position."""
        symbol = sympy.Symbol(flat, integer=True, nonnegative=True)
        sizes = tuple(size for _, size in dims)
        ranges = {symbol: product(sizes)}
        parts = unflatten_index(symbol, sizes, ranges) if len(dims) > 1 else (symbol,)
        for (variable, _), part in zip(dims, parts, strict=False):
            writer.lines.append(f"{variable} = {writer.index(part, {symbol: flat})}")

    def _name_inner(self, writer: Writer, position: str) -> None:
        writer.lines += [
            f"r = {position}",
            f"in_r = r < {writer.index(self._count)}",
            "zero_r = r * 0",
        ]
        self._name_variables(writer, "r", self._nest.inner)

    def _read_local(self, load: Load) -> tuple[str, Axes] | None:
        """Return the variable of what the kernel itself computed; None if a load reads memory."""
        statement = self._statements.get(load.buffer)
        if statement is None:
            return None
        name = self._outer_values.get(load.buffer)
        if name is None:  # an inner value: computed again in each loop
            name = self._current.value(statement.body)
        return name, self._writer.axes_of([name])

    def _write_level(self, level: int) -> None:
        """Write the outer values of a level, then its loop over tiles of inner iterations."""
        members = [one for one in self._nest.statements if self._level[one.member.name] == level]
        for statement in members:
            if statement.member.phase == "outer":
                self._compute(self._writer, statement)
        inner = [one for one in members if one.member.phase != "outer"]
        if not inner:
            return
        block = self._writer if self._is_one_tile else self._writer.inside()
        if not self._is_one_tile:
            self._name_inner(block, "tile + lanes")
        self._current = block
        before = self._writer.lines
        start = len(before)
        reductions: list[tuple[Statement, Accumulator, str]] = []
        position = block.index(self._nest.inner_position)
        for statement in inner:
            if statement.member.phase == "inner":
                self._compute(block, statement)
                continue
            accumulator = _accumulator(statement)
            name = f"a{level}_{len(reductions)}"
            value = block.value(statement.body)
            block.lines += accumulator.step(name, value, position)
            if accumulator.is_scan:
                self._store(block, statement, accumulator.element(name))
            reductions.append((statement, accumulator, name))
        before[start:start] = [line for _, one, name in reductions for line in one.declare(name)]
        if block is not self._writer:
            before.append(f"for tile in range(0, {self._writer.index(self._count)}, RBLOCK):")
            before += [f"    {line}" for line in block.lines]
        for statement, accumulator, name in reductions:
            if not accumulator.is_scan:
                before += accumulator.result(name)
                self._writer.axes[name] = frozenset("x")
                self._store(self._writer, statement, name)

    def _compute(self, writer: Writer, statement: Statement) -> None:
        """Write a member that is computed for each position of a tile."""
        self._current = writer
        self._store(writer, statement, writer.value(statement.body))

    def _store(self, writer: Writer, statement: Statement, value: str) -> None:
        """Keep an outer value for later members, and write a value to memory if others read it."""
        name, is_inner = statement.member.name, statement.member.phase in ("inner", "scan")
        if not is_inner:
            self._outer_values[name] = value
        if name not in self._in_memory:
            return
        target = replace(statement.target, dtype=self._buffers[name].dtype)
        axes: Axes = frozenset("xr" if is_inner else "x")
        pointer = writer.pointer(target, writer.positions(target), axes)
        writer.lines.append(f"tl.store({pointer}, {value}, {writer.mask(axes)})")

    def _finish(self, total: sympy.Expr) -> KernelSource:
        """Return the kernel, and the function that launches it."""
        arguments = self._arguments
        blocks = self._blocks()
        names = [name for name, _ in arguments.buffers.values()]
        names += [*arguments.numbers.values(), *(["error"] if arguments.has_error else [])]
        sizes = ", ".join(repr(name) for name in arguments.numbers.values())
        constants = "".join(f", {name}: tl.constexpr" for name in blocks)
        given = "".join(f", {name}={size}" for name, size in blocks.items())
        given += ", num_warps=8, enable_fp_fusion=False"
        body = "\n".join(f"    {line}" for line in self._writer.lines)
        kernel = f"({', '.join(names)}{constants}):\n{body}\n"
        name = f"kernel_{digest(kernel + given)}"
        text = (
            f"@triton.jit(do_not_specialize=[{sizes}])\ndef {name}{kernel}\n\n"
            f"def launch_{name}({', '.join(names)}):\n"
            f"    programs = triton.cdiv({self._writer.index(total)}, {blocks['XBLOCK']})\n"
            f"    if programs:\n"
            f"        {name}[(programs,)]({', '.join(names)}{given})\n"
        )
        return arguments.source(name, text, "{}", float64="float_bits({})")

    def _blocks(self) -> dict[str, int]:
        """Return the sizes of the tile, powers of two."""
        if not self._nest.inner:
            return {"XBLOCK": POINTWISE_BLOCK}
        if self._is_one_tile:
            row = 1 << max(int(self._count) - 1, 0).bit_length()
            return {"XBLOCK": min(max(TILE // row // 4, 1), 64), "RBLOCK": row}
        if self._first.is_serial:
            return {"XBLOCK": 64, "RBLOCK": 1}
        if runs_along_outer(self._nest):
            return {"XBLOCK": 64, "RBLOCK": TILE // 64}
        return {"XBLOCK": 1, "RBLOCK": TILE // 2}


def _accumulator(statement: Statement) -> Accumulator:
    """Return how a member accumulates."""
    loop = statement.member.loop
    return Accumulator(loop.accumulation, loop.body.dtype, loop.scan is not None)


def _is_small(size: sympy.Expr) -> bool:
    """Return whether 32 bits hold every position of that many elements."""
    return bool(size.is_Integer) and int(size) <= MAX_INT32
