"""The backend `loops` of torch.compile: every stage after capture, open to be read.

`torch.compile(model, backend="loops")` finds it in an environment where this package is installed,
and anywhere after `import fullgraph.compiler.lowering.backend`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from fullgraph.compiler.errors import FullgraphError, UnsupportedOperator
from fullgraph.compiler.lowering.cpp import CPP
from fullgraph.compiler.lowering.disk import digest
from fullgraph.compiler.lowering.fusion import fuse
from fullgraph.compiler.lowering.ir import trace_loops
from fullgraph.compiler.lowering.partition import partition
from fullgraph.compiler.lowering.prims import decompositions
from fullgraph.compiler.lowering.runtime import Program, ProgramCode, make_program
from fullgraph.compiler.lowering.triton import TRITON
from fullgraph.compiler.private import compile_with_autograd_cache, register_backend

GENERATORS = {one.name: one for one in (CPP, TRITON)}
"""Code generators by name."""
OPTIONS = {"on_program": (), "codegen": (*GENERATORS,), "fallback": ("aot_eager",)}
"""Options, and the values of those that are names."""


def loops(
    module: torch.fx.GraphModule,
    inputs: Sequence[object],
    *,
    mode: str | None = None,
    options: dict[str, object] | None = None,
) -> Callable[..., object]:
    """Compile Dynamo's graph to C++ kernels and calls of extern operators.

    `options={"on_program": function}` calls the function with the `Program` of each graph;
    `"codegen"` is the language of kernels, "cpp" or "triton", by default that of the device;
    `"fallback": "aot_eager"` runs a graph that has an unsupported operator in eager. There are no
    modes: any but "default" warns. Raises `UnsupportedOperator`, with the operator's name, if a
    stage does not have an operator, and `FullgraphError` for an option that does not exist.
    """
    if mode not in (None, "default"):
        warnings.warn(f"The backend `loops` has no modes: {mode!r} is ignored.", stacklevel=2)
    options = options or {}
    known = ", ".join(OPTIONS)
    for name, value in options.items():
        if name not in OPTIONS:
            raise FullgraphError(f"The backend `loops` has no option {name!r}, only {known}.")
        values = OPTIONS[name]
        if values and value not in (None, *values):
            raise FullgraphError(f"{name} is {' or '.join(map(repr, values))}, not {value!r}.")
    listener, codegen = options.get("on_program"), options.get("codegen")

    def compile_graph(graph: torch.fx.GraphModule) -> ProgramCode | EagerCode:
        """Compile one graph of ATen operators."""
        try:
            program = lower(graph, codegen)
        except UnsupportedOperator as error:
            if not options.get("fallback"):
                raise
            return EagerCode(graph, str(error))
        if callable(listener):
            listener(program)
        return program.code

    return compile_with_autograd_cache(
        module,
        inputs,
        compiler=compile_graph,
        decompositions=tracing_decompositions(),
        partition=partition,
        tag=None if listener else f"loops {_digest()} {codegen} {options.get('fallback')}",
    )


@dataclass(frozen=True)
class EagerCode:
    """A graph of ATen operators that runs in eager: `loops` does not have one of them."""

    graph: torch.fx.GraphModule
    refusal: str

    def load(self) -> Callable[[list[object]], object]:
        """Return the function: it takes a list of inputs, which it empties. It warns here."""
        warnings.warn(f"{self.refusal}; the graph runs in eager.", stacklevel=2)

        def run(inputs: list[object]) -> object:
            given = [*inputs]
            inputs.clear()
            return self.graph(*given)

        return run


@functools.cache
def _digest() -> str:
    """Return a name for this version of the backend: a digest of the compiler's source."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return digest("".join(path.read_text() for path in files))


def tracing_decompositions() -> dict[object, Callable[..., object]]:
    """Return the decompositions into canonical operators with which AOTAutograd traces.

    Not those of operators that `torch.tensor` calls with a real tensor: no other operator takes one
    while a graph is traced.
    """
    aten = torch.ops.aten
    kept = (aten.detach.default, aten.lift_fresh.default, aten.lift_fresh_copy.default)
    return {name: rule for name, rule in decompositions().items() if name not in kept}


def lower(graph: torch.fx.GraphModule, codegen: object = None) -> Program:
    """Return the program of a functional graph of ATen operators; nothing is compiled yet.

    `codegen` is the language of kernels, by default C++ for the CPU and Triton for other devices.
    """
    plan = fuse(trace_loops(graph))
    is_on_cpu = plan.graph.device.type == "cpu"
    generator = GENERATORS[str(codegen or ("cpp" if is_on_cpu else "triton"))]
    if generator is CPP and not is_on_cpu:
        raise FullgraphError(f"Kernels in C++ run on the CPU; the graph is on {plan.graph.device}.")
    return make_program(plan, generator)


register_backend("loops", loops)
