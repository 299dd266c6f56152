"""The steps of a compiled graph as a Python function."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import sympy
import torch

from fullgraph.compiler.lowering.codegen import CodeGenerator, KernelSource, size_text
from fullgraph.compiler.lowering.fusion import Plan, fuse
from fullgraph.compiler.lowering.ir import (
    Assertion,
    Buffer,
    Extern,
    HostNumber,
    Subgraph,
    Update,
    View,
    as_real,
    strides_of,
    variables_of,
)
from fullgraph.compiler.lowering.runtime.steps import Allocate, Free, RuntimeStep, make_steps
from fullgraph.compiler.private import tree_leaves


@dataclass(frozen=True)
class ProgramCode:
    """All that it takes to run a program, in another process too: it can be pickled."""

    source: str
    """Python source of the function `run`."""
    kernels: tuple[KernelSource, ...]
    generator: CodeGenerator
    externs: Mapping[str, str]
    """Full name of each extern operator, by its name in the source."""
    constants: Mapping[str, object]
    """Arguments and tensors that are not written as text, by their names in the source."""
    subgraphs: Mapping[str, SubgraphCode]
    """Branches and loop bodies, by their names in the source."""

    def load(self) -> Callable[[list[object]], list[object]]:
        """Return the function: it takes a list of inputs, which it empties, and returns outputs.

        Kernels that are not on disk are compiled.
        """
        names: dict[str, Any] = {
            "empty_strided": torch.empty_strided,
            "torch": torch,
            "math": math,
            "float_bits": _float_bits,
            "restride": restride,
            "check": _check_positions,
            "check_condition": _check_condition,
            "get_num_threads": torch.get_num_threads,
            **self.generator.load(self.kernels),
            **{name: _operator(full) for name, full in self.externs.items()},
            **self.constants,
            **{name: one.load() for name, one in self.subgraphs.items()},
        }
        exec(compile(self.source, "<loops program>", "exec"), names)
        function: Callable[[list[object]], list[object]] = names["run"]
        return function


@dataclass(frozen=True)
class SubgraphCode:
    """Code of a branch or a loop's body."""

    code: ProgramCode
    returns_tuple: bool

    def load(self) -> Callable[..., object]:
        """Return the function, which takes the inputs one by one."""
        run = self.code.load()

        def call(*inputs: object) -> object:
            results = run([*inputs])
            return tuple(results) if self.returns_tuple else results[0]

        return call


@dataclass(frozen=True)
class Program:
    """A compiled graph: its steps, and the code that runs them."""

    plan: Plan
    steps: tuple[RuntimeStep, ...]
    code: ProgramCode

    @property
    def source(self) -> str:
        """Python source that runs the steps."""
        return self.code.source

    @property
    def kernels(self) -> int:
        """Number of calls of generated kernels."""
        return len(self.code.kernels)

    @property
    def externs(self) -> tuple[str, ...]:
        """Extern operators that are called, in order."""
        return tuple(str(step.target) for step in self.steps if isinstance(step, Extern))


def make_program(plan: Plan, generator: CodeGenerator) -> Program:
    """Return the program that runs a plan, with kernels in a generator's language."""
    steps = make_steps(plan, generator)
    writer = _SourceWriter(plan, steps, generator)
    code = ProgramCode(
        source=writer.write(),
        kernels=writer.kernels,
        generator=generator,
        externs=writer.externs,
        constants={**writer.constants, **plan.graph.constants},
        subgraphs=writer.subgraphs,
    )
    return Program(plan, steps, code)


def restride(
    tensor: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> torch.Tensor:
    """Return the tensor itself if its strides are as given where they matter, else a copy."""
    pairs = zip(tensor.shape, tensor.stride(), strides, strict=True)
    if all(actual == wanted or size == 1 for size, actual, wanted in pairs) or not tensor.numel():
        return tensor
    copy = torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def _check_positions(error: torch.Tensor) -> None:
    """Raise if a kernel met a position out of range."""
    if error.item():
        raise IndexError("index out of range in a kernel of the backend `loops`")


def _float_bits(number: float) -> int:
    """Return the bits of a float64 as an integer: Triton rounds a float argument to float32."""
    bits: int = struct.unpack("q", struct.pack("d", number))[0]
    return bits


def _check_condition(condition: torch.Tensor | bool, message: str) -> None:
    """Raise if an assertion of the graph does not hold."""
    if not condition:
        raise RuntimeError(message)


def _path(operator: torch._ops.OperatorBase) -> str:
    """Return an operator's full name, such as "aten.mm.default"."""
    is_overload = isinstance(operator, torch._ops.OpOverload)
    return str(operator) if is_overload else f"higher_order.{operator}"


def _operator(name: str) -> Callable[..., object]:
    """Return an operator by its full name, such as "aten.mm.default"."""
    found: Any = functools.reduce(getattr, name.split("."), torch.ops)
    return cast(Callable[..., object], found)


class _SourceWriter:
    """State of writing the Python source."""

    def __init__(self, plan: Plan, steps: Sequence[RuntimeStep], generator: CodeGenerator) -> None:
        self._graph = plan.graph
        self._generator = generator
        self._steps = steps
        self.kernels = tuple(step for step in steps if isinstance(step, KernelSource))
        self._has_errors = any(kernel.has_error for kernel in self.kernels)
        self._is_on_cpu = plan.graph.device.type == "cpu"
        self._device = "" if self._is_on_cpu else f", device={str(plan.graph.device)!r}"
        self.externs: dict[str, str] = {}
        self.constants: dict[str, object] = {}
        self.subgraphs: dict[str, SubgraphCode] = {}
        self._lines: list[str] = []
        self._symbols: set[sympy.Symbol] = set()

    def write(self) -> str:
        """Return the source of the function `run`."""
        self._write_inputs()
        if self.kernels:
            self._lines.append("threads = get_num_threads()")
        if self._has_errors:
            self._lines.append(f"error = torch.zeros(1, dtype=torch.int64{self._device})")
        for number, step in enumerate(self._steps):
            self._write_step(step, number)
        if self._has_errors and not self._is_on_cpu:  # once: a check waits for the device
            self._lines.append("check(error)")
        outputs = [self._result(*pair) for pair in enumerate(self._graph.outputs)]
        self._lines.append(f"return [{', '.join(outputs)}]")
        body = "\n".join(f"    {line}" for line in self._lines)
        moves = [f"{text}\n" for text in map(self._move, self._graph.constants) if text]
        return f"{''.join(moves)}def run(inputs):\n{body}\n"

    def _write_inputs(self) -> None:
        names, symbols = [], self._symbols
        for number, one in enumerate(self._graph.inputs):
            if isinstance(one, str):
                names.append(one)
            elif _is_free(one):
                names.append(str(one))
                symbols.add(one)
            else:
                names.append(f"_unused_{number}")
        if names:
            self._lines.append(f"{', '.join(names)}, = inputs")
        self._lines.append("inputs.clear()")
        for one in self._graph.inputs:
            if not isinstance(one, str):
                continue
            self._lines += filter(None, [self._move(one)])
            self._take_parts(one)
            self._lines.append(f"if {one}._is_zerotensor(): {one} = {one}.clone()")  # no memory
            self._bind_sizes(self._graph.buffers[one])
        for one in self._graph.inputs:
            if isinstance(one, str) and one.startswith("tangents"):
                self._check_strides(self._graph.buffers[one])

    def _move(self, name: str) -> str:
        """Return the statement that copies a tensor from the CPU to the device; "" if none does."""
        is_moved = name in self._graph.on_cpu
        return f"{name} = {name}.to({str(self._graph.device)!r})" if is_moved else ""

    def _take_parts(self, name: str) -> None:
        """Write a view of a complex tensor as real numbers."""
        if name in self._graph.complex_buffers:
            self._lines.append(f"{name} = torch.view_as_real({name}.resolve_conj())")

    def _bind_sizes(self, buffer: Buffer) -> None:
        """Write the value of each symbol that is first known from a tensor's size."""
        for dim, size in enumerate(buffer.sizes):
            if _is_free(size) and size not in self._symbols:
                self._symbols.add(size)
                self._lines.append(f"{size} = {buffer.name}.size({dim})")

    def _check_strides(self, buffer: Buffer) -> None:
        """Write a copy of a tensor whose strides differ from those that kernels assume."""
        name, strides = buffer.name, tuple_text(buffer.strides)
        self._lines.append(
            f"if {name}.stride() != {strides}: "
            f"{name} = restride({name}, {tuple_text(buffer.sizes)}, {strides})"
        )

    def _write_step(self, step: RuntimeStep, number: int) -> None:
        match step:
            case Allocate(buffer, None):
                self._lines.append(
                    f"{buffer.name} = empty_strided({tuple_text(buffer.sizes)}, "
                    f"{tuple_text(buffer.strides)}, dtype={buffer.dtype}{self._device})"
                )
            case Allocate(buffer, Buffer() as other):
                is_same = (other.sizes, other.strides) == (buffer.sizes, buffer.strides)
                shape = f"({tuple_text(buffer.sizes)}, {tuple_text(buffer.strides)})"
                view = "" if is_same else f".as_strided{shape}"
                self._lines.append(f"{buffer.name} = {other.name}{view}; del {other.name}")
            case KernelSource():
                self._lines.append(f"{step.name}({', '.join(step.arguments)})")
                if step.has_error and self._is_on_cpu:
                    self._lines.append("check(error)")
            case Extern():
                self._write_extern(step, number)
            case Assertion(condition, message):
                text = self._output(condition)
                self._lines.append(f"check_condition({text}, {message!r})")
            case Update(name, source):
                self._lines.append(f"{name}.copy_({source})")
            case Free(names):
                self._lines.append(f"del {', '.join(names)}")

    def _write_extern(self, extern: Extern, number: int) -> None:
        parts = [("", value) for value in extern.args]
        parts += [(f"{key}=", value) for key, value in extern.kwargs]
        arguments = [
            key + self._argument(value, f"constant_{number}_{place}")
            for place, (key, value) in enumerate(parts)
        ]
        self.externs[f"extern_{number}"] = _path(extern.target)
        call = f"extern_{number}({', '.join(arguments)})"
        if not extern.results:
            self._lines.append(f"{extern.scalar} = {call}" if extern.scalar else call)
            return
        targets = ", ".join(name or "_" for name in extern.results)
        self._lines.append(f"{targets}{',' if extern.returns_tuple else ''} = {call}")
        for name in extern.results:
            if name:
                self._lines += filter(None, [self._move(name)])
                self._take_parts(name)
                self._bind_sizes(self._graph.buffers[name])
                self._check_strides(self._graph.buffers[name])

    def _argument(self, value: object, constant: str) -> str:
        """Return an argument of an extern call as text; `constant` names it if it has none."""
        if isinstance(value, View):
            return self._view(value)
        if isinstance(value, sympy.Expr):
            return size_text(value)
        written = View | sympy.Expr | Subgraph
        is_written = any(isinstance(one, written) for one in tree_leaves(value))
        if isinstance(value, list | tuple) and is_written:
            parts = [self._argument(one, f"{constant}_{i}") for i, one in enumerate(value)]
            return f"({', '.join(parts)},)" if isinstance(value, tuple) else f"[{', '.join(parts)}]"
        if isinstance(value, Subgraph):
            program = make_program(fuse(value.loops), self._generator)
            self.subgraphs[constant] = SubgraphCode(program.code, value.returns_tuple)
        elif isinstance(value, torch._ops.OperatorBase):
            self.externs[constant] = _path(value)
        else:
            self.constants[constant] = value
        return constant

    def _view(self, view: View) -> str:
        """Return a view of a buffer as text."""
        buffer = self._graph.buffers[view.buffer]
        if view.dtype.is_complex:
            return f"torch.view_as_complex({self._view(as_real(view))})"
        if view.sizes == buffer.sizes and view.index == variables_of(view.sizes):
            return buffer.name
        found = strides_of(view, buffer)
        assert found is not None
        strides, offset = found
        is_input = buffer.name in self._graph.inputs or buffer.name in self._graph.constants
        place = f"{buffer.name}.storage_offset() + {size_text(offset)}" if is_input else ""
        place = place or size_text(offset)
        return f"{buffer.name}.as_strided({tuple_text(view.sizes)}, {tuple_text(strides)}, {place})"

    def _result(self, number: int, output: View | sympy.Basic | None) -> str:
        text = self._output(output)
        strides = self._graph.output_strides.get(number)
        if strides is not None and isinstance(output, View):
            text += f".as_strided({tuple_text(output.sizes)}, {tuple_text(strides)})"
        return text + (".cpu()" if number in self._graph.cpu_outputs else "")

    def _output(self, output: View | sympy.Basic | None) -> str:
        if output is None:
            return "None"
        return self._view(output) if isinstance(output, View) else size_text(output)


def _is_free(number: sympy.Basic) -> bool:
    """Return whether a number is a symbol that the program finds in an input or a result."""
    return isinstance(number, sympy.Symbol) and not isinstance(number, HostNumber)


def tuple_text(sizes: Sequence[sympy.Expr]) -> str:
    """Return sizes as a Python tuple."""
    return f"({', '.join(map(size_text, sizes))}{',' if len(sizes) == 1 else ''})"
