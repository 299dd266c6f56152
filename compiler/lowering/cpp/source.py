"""C++ source of a kernel: parallel outer loops, and in each iteration loops over the inner dims."""

from __future__ import annotations

from dataclasses import replace

import sympy

from fullgraph.compiler.lowering.codegen import NONE, Arguments, Axes, KernelSource
from fullgraph.compiler.lowering.cpp.accumulators import (
    CHUNK,
    ROWS,
    Accumulator,
    make_accumulator,
)
from fullgraph.compiler.lowering.cpp.scalars import CPP_INDEX, STORAGE, compute_type, store_text
from fullgraph.compiler.lowering.cpp.writer import Writer
from fullgraph.compiler.lowering.disk import digest
from fullgraph.compiler.lowering.fusion import (
    Kernel,
    Nest,
    Statement,
    find_levels,
    make_nest,
    runs_along_outer,
)
from fullgraph.compiler.lowering.ir import Buffer, Load, product

TILE = 64
"""Neighbouring outer iterations that run together if memory is contiguous along the outer dim."""
MAX_SCRATCH = 1 << 13
"""Most elements of a row that is kept on the stack."""
LEAST_WORK = 1 << 14
"""Elements from which a kernel uses several threads."""


def write_kernel(
    kernel: Kernel, buffers: dict[str, Buffer], in_memory: frozenset[str]
) -> KernelSource:
    """Return the C++ source of a kernel. `in_memory` are the buffers that others read."""
    nest = make_nest(kernel, buffers)
    return _KernelWriter(nest, buffers, in_memory).write()


class _KernelWriter:
    """State of writing one kernel."""

    def __init__(self, nest: Nest, buffers: dict[str, Buffer], in_memory: frozenset[str]) -> None:
        self._along_outer = runs_along_outer(nest)
        if not nest.inner:
            nest = _with_inner_loop(nest)
        self._nest = nest
        self._buffers = buffers
        self._in_memory = set(in_memory)
        self._arguments = Arguments()
        self._lines: list[str] = []
        self._level = find_levels(nest)
        self._phase = {one.member.name: one.member.phase for one in nest.statements}
        self._values: dict[str, str] = {}
        self._scratch: dict[str, str] = {}
        self._current = 0
        self._names = {v: str(v) for v in nest.ranges}
        self._chunk = ROWS if self._along_outer else CHUNK
        self._is_scatter = any(one.member.loop.target for one in nest.statements)

    def write(self) -> KernelSource:
        """Return the source."""
        self._place_inner_values()
        self._open_parallel()
        if self._along_outer:
            last, size = self._nest.outer[-1]
            left = f"{self._text(size)} - {self._names[last]}"
            self._lines.append(f"const int64_t count = {left} < {TILE} ? {left} : {TILE};")
        self._write_levels()
        self._lines += ["}"] * len(self._nest.outer)
        return self._finish()

    def _place_inner_values(self) -> None:
        """Decide where inner values live that later loops read: on the stack, or in memory."""
        count = self._nest.inner_count
        is_short = count.is_Integer and int(count) <= MAX_SCRATCH and not self._along_outer
        for statement in self._nest.statements:
            name = statement.member.name
            if self._phase[name] != "inner" or name in self._in_memory:
                continue
            is_read_later = any(
                self._level[other.member.name] > self._level[name]
                for other in self._nest.statements
                if name in other.member.loop.reads
            )
            if is_read_later and is_short:
                self._scratch[name] = f"s{len(self._scratch)}"
            elif is_read_later:
                self._in_memory.add(name)

    def _text(self, size: sympy.Expr) -> str:
        return self._writer().index(size)

    def _writer(self, *moving: sympy.Symbol) -> Writer:
        """Return a writer of statements of a loop over some variables."""
        axes = {self._names[one]: frozenset("r") for one in moving}
        return Writer(self._arguments, self._names, axes, self._read_local)

    def _open_parallel(self) -> None:
        """Open the outer loops, which run in parallel; the last one may run in steps."""
        dims = self._nest.outer
        work = self._text(product(list(self._nest.ranges.values())))
        if dims and not self._is_scatter:
            collapse = f" collapse({len(dims)})" if len(dims) > 1 else ""
            self._lines.append(_parallel_for(collapse, work))
        for position, (variable, size) in enumerate(dims, 1):
            step = TILE if self._along_outer and position == len(dims) else 1
            self._lines.append(self._loop(self._names[variable], self._text(size), step) + " {")

    def _loop(self, name: str, size: str, step: int = 1) -> str:
        increment = f"++{name}" if step == 1 else f"{name} += {step}"
        return f"for (int64_t {name} = 0; {name} < {size}; {increment})"

    def _store(self, writer: Writer, statement: Statement, value: str) -> None:
        """Write a member's value to where it lives."""
        name = statement.member.name
        dtype = self._buffers[name].dtype
        self._values[name] = value
        if name in self._scratch:
            row_index = writer.index(self._nest.inner_position)
            writer.lines.append(f"{self._scratch[name]}[{row_index}] = {value};")
        if name in self._in_memory:
            pointer = self._arguments.pointer(name, STORAGE[dtype])
            self._arguments.written.add(name)
            target = statement.target
            offset = writer.index(target.index[0], writer.positions(target))
            writer.lines.append(f"{pointer}[{offset}] = {store_text(value, dtype)};")

    def _read_local(self, load: Load) -> tuple[str, Axes] | None:
        """Return how a load reads what the kernel itself computed; None if it reads memory."""
        name = load.buffer
        if name not in self._phase:
            return None
        moving: Axes = frozenset("r")
        is_inner = self._phase[name] == "inner"
        if is_inner and self._level[name] < self._current:
            if name in self._scratch:
                return f"{self._scratch[name]}[{self._text(self._nest.inner_position)}]", moving
            return None
        value = self._values[name]
        if self._along_outer and not is_inner:
            return f"{value}[lane]", moving
        return value, moving if is_inner else NONE

    def _write_levels(self) -> None:
        """Write the members level by level: outer values, then one loop over the inner dims."""
        for name, scratch in self._scratch.items():
            count = self._text(self._nest.inner_count)
            type_ = compute_type(self._buffers[name].dtype)
            self._lines.append(f"{type_} {scratch}[{count}];")
        for level in range(max(self._level.values()) + 1):
            self._current = level
            statements = [s for s in self._nest.statements if self._level[s.member.name] == level]
            self._write_outer_values([s for s in statements if s.member.phase == "outer"])
            inner = [s for s in statements if s.member.phase != "outer"]
            if inner:
                self._write_inner_loop(inner)

    def _lane_loop(self, lines: list[str], is_vector: bool) -> list[str]:
        """Return statements in a loop over neighbouring outer iterations."""
        variable = self._names[self._nest.outer[-1][0]]
        pragma = ["#pragma omp simd"] if is_vector else []
        head = "for (int64_t lane = 0; lane < count; ++lane) {"
        return [*pragma, head, f"const int64_t {variable}_ = {variable} + lane;", *lines, "}"]

    def _lane_writer(self) -> Writer:
        """Return a writer of statements of a loop over neighbouring outer iterations."""
        variable = self._nest.outer[-1][0]
        name = f"{self._names[variable]}_"
        names, axes = {**self._names, variable: name}, {name: frozenset("r")}
        return replace(self._writer(), names=names, axes=axes)

    def _write_outer_values(self, statements: list[Statement]) -> None:
        """Write the members of one level that are computed once an outer iteration."""
        if not statements:
            return
        if not self._along_outer:
            writer = self._writer()
            writer.lines = writer.before  # one list: nothing depends on a loop
            for statement in statements:
                self._store(writer, statement, writer.value(statement.body))
            self._lines += writer.lines
            return
        writer = self._lane_writer()
        for number, statement in enumerate(statements):
            value = writer.value(statement.body)
            self._store(writer, statement, value)
            array = f"v{self._current}_{number}"
            type_ = compute_type(self._buffers[statement.member.name].dtype)
            self._lines.append(f"{type_} {array}[{TILE}];")
            writer.lines.append(f"{array}[lane] = {value};")
            self._values[statement.member.name] = array
        self._lines += [*writer.before, *self._lane_loop(writer.lines, writer.is_vector)]

    def _write_inner_loop(self, statements: list[Statement]) -> None:
        """Write the loop over the inner dims of one level, with its reductions."""
        writer = self._lane_writer() if self._along_outer else self._writer(self._nest.inner[-1][0])
        reductions: list[tuple[Statement, Accumulator, str]] = []
        position = writer.index(self._nest.inner_position)
        for statement in statements:
            value = writer.value(statement.body)
            if statement.member.phase == "inner":
                self._store(writer, statement, value)
                continue
            accumulator = make_accumulator(statement.member.loop, self._chunk)
            name = f"a{self._current}_{len(reductions)}"
            lane = "[lane]" if self._along_outer else ""
            writer.lines.append(accumulator.step(name, lane, value, position))
            if statement.member.phase == "scan":
                type_ = compute_type(self._buffers[statement.member.name].dtype)
                self._store(writer, statement, f"({type_}){accumulator.result(name, lane)}")
            reductions.append((statement, accumulator, name))
        self._declare(reductions)
        self._write_loops(writer, reductions)
        for statement, accumulator, name in reductions:
            if statement.member.phase == "reduction":
                self._finish_reduction(statement, accumulator, name)

    def _declare(self, reductions: list[tuple[Statement, Accumulator, str]]) -> None:
        loop = self._loop("i", str(TILE))
        parts = [part for _, one, name in reductions for part in one.parts(name)]
        for type_, name, initial in parts:
            if self._along_outer:
                self._lines += [f"{type_} {name}[{TILE}];", f"{loop} {name}[i] = {initial};"]
            else:
                self._lines.append(f"{type_} {name} = {initial};")

    def _write_loops(
        self, writer: Writer, reductions: list[tuple[Statement, Accumulator, str]]
    ) -> None:
        """Write the loops over the inner dims around a writer's statements."""
        *loops, (last, size) = self._nest.inner
        name, end = self._names[last], self._text(size)
        heads = [self._loop(self._names[variable], self._text(one)) for variable, one in loops]
        is_ordered = self._is_scatter or any(one.is_ordered for _, one, _ in reductions)
        is_vector = writer.is_vector and not is_ordered and not self._along_outer
        lanes = TILE if self._along_outer else 0
        before = [line for _, one, sum_ in reductions for line in one.begin_chunk(sum_, lanes)]
        after = [line for _, one, sum_ in reductions for line in one.end_chunk(sum_, lanes)]
        head = self._loop(name, end)
        if before and not (size.is_Integer and int(size) <= self._chunk):
            heads.append(self._loop("chunk", end, self._chunk))
            chunk_end = CPP_INDEX.smaller.format(f"chunk + {self._chunk}", end)
            before.append(f"const int64_t chunk_end = {chunk_end};")
            head = f"for (int64_t {name} = chunk; {name} < chunk_end; ++{name})"
        clauses = inner_clauses = ""
        if not is_ordered:
            clauses = "".join(one.clauses(variable) for _, one, variable in reductions)
            inner_clauses = "".join(one.clauses(v, of_chunk=True) for _, one, v in reductions)
        pragma = [f"#pragma omp simd{inner_clauses}"] if is_vector else []
        if not (is_ordered or self._nest.outer or self._scratch):
            work = self._text(self._nest.inner_count)
            if heads:
                self._lines.append(_parallel_for(clauses, work))
            else:
                pragma = [_parallel_for(f"{' simd' if is_vector else ''}{clauses}", work)]
        self._lines += [f"{one} {{" for one in heads] + before
        if self._along_outer:
            lane_loop = self._lane_loop(writer.lines, writer.is_vector)
            self._lines += [f"{head} {{", *writer.before, *lane_loop, "}"]
        else:
            self._lines += [*writer.before, *pragma, f"{head} {{", *writer.lines, "}"]
        self._lines += [*after, *["}"] * len(heads)]

    def _finish_reduction(self, statement: Statement, accumulator: Accumulator, name: str) -> None:
        """Write a reduction's result, which later members and kernels read."""
        member = statement.member
        dtype = self._buffers[member.name].dtype
        type_ = compute_type(dtype)
        result = f"{name}_r"
        if not self._along_outer:
            self._lines.append(f"const {type_} {result} = ({type_}){accumulator.result(name, '')};")
            writer = self._writer()
            self._store(writer, statement, result)
            self._lines += writer.lines
            return
        writer = self._lane_writer()
        writer.lines.append(f"{result}[lane] = ({type_}){accumulator.result(name, '[lane]')};")
        self._store(writer, statement, f"{result}[lane]")
        self._lines.append(f"{type_} {result}[{TILE}];")
        self._lines += self._lane_loop(writer.lines, True)
        self._values[member.name] = result

    def _finish(self) -> KernelSource:
        """Return the function around the statements."""
        arguments = self._arguments
        parameters = [
            f"{'' if buffer in arguments.written else 'const '}{type_}* __restrict__ {name}"
            for buffer, (name, type_) in arguments.buffers.items()
        ]
        parameters += [
            f"{'int64_t' if symbol.is_integer else 'double'} {name}"
            for symbol, name in arguments.numbers.items()
        ]
        parameters += ["int64_t threads", *(["int64_t* error"] if arguments.has_error else [])]
        body = "\n".join(self._lines)
        text = f"({', '.join(parameters)}) {{\n{body}\n}}\n"
        name = f"kernel_{digest(text)}"
        text = f'extern "C" void {name}{text}'
        return arguments.source(name, text, "{}.data_ptr()", "threads")


def _with_inner_loop(nest: Nest) -> Nest:
    """Return the nest of pointwise members with the last outer loop as the inner one."""
    *outer, last = nest.outer or ((sympy.Symbol("one"), sympy.Integer(1)),)
    statements = (
        replace(one, member=replace(one.member, phase="inner")) for one in nest.statements
    )
    return Nest(tuple(outer), (last,), tuple(statements))


def _parallel_for(options: str, work: str) -> str:
    """Return the pragma of a loop that runs in several threads if there is much work.

    The condition is of `parallel` alone: one thread runs vectors, too.
    """
    condition = f"if(parallel: threads > 1 && {work} > {LEAST_WORK})"
    return f"#pragma omp parallel for{options} num_threads(threads) {condition}"
