"""Graphs that Dynamo or AOTAutograd captures of a program, with the inputs of their calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

CapturedGraph = tuple[torch.fx.GraphModule, tuple[object, ...]]
GraphLevel = Literal["dynamo", "aot"]


_FAILED_INDEX = re.compile(
    r"GuardOnDataDependentSymNode.*While executing [^\n]*target=operator\.getitem\].*"
    r'File "([^"\n]+)", line (\d+), in [^\n]*\n    ([^\n]+)\n    ( *)(\^+)\n',
    re.DOTALL,
)
"""The text of an error with the traceback of the node at which it was raised."""


def find_failed_index(message: str) -> tuple[str, int, int, str] | None:
    """Return file, line, column and code of the index `x[t]` at which tracing of a graph failed.

    The graph is one that Dynamo captured. `message` is the text of the exception. The column counts
    characters after the indentation of the line. The result is None if tracing failed elsewhere, or
    if this torch does not tell.
    """
    found = _FAILED_INDEX.search(message)
    if found is None:
        return None
    file, line, text, before, under = found.groups()
    column = len(before)
    return file, int(line), column, text[column : column + len(under)]


class _CallReached(BaseException):
    """Raised in place of the graph call at which `capture_graph` stops."""


def count_graph_calls(
    run: Callable[[Callable[..., object]], object], level: GraphLevel = "dynamo"
) -> int:
    """Return how many times `run(backend)` calls a graph that Dynamo captured.

    `run` compiles a program with the backend and calls it. At the level "dynamo", Dynamo's own
    graphs count; at "aot", the decomposed graphs that AOTAutograd makes of them.
    """
    calls = []
    run(_make_backend(lambda module, inputs: calls.append(module), level))
    return len(calls)


def capture_graph(
    run: Callable[[Callable[..., object]], object], number: int, level: GraphLevel = "dynamo"
) -> CapturedGraph | None:
    """Return the graph and the inputs of call `number` (from 0) of a captured graph.

    `run(backend)` compiles a program and calls it; it is stopped just before that graph call.
    Returns None if it makes fewer. At the level "dynamo", calls of Dynamo's own graphs count; at
    "aot", those of AOTAutograd's decomposed graphs.
    """
    found: list[CapturedGraph] = []
    calls = 0

    def stop_at_call(module: torch.fx.GraphModule, inputs: Sequence[object]) -> None:
        """Count a call; record the graph and stop the run at call `number`."""
        nonlocal calls
        calls += 1
        if calls > number:
            found.append((module, tuple(inputs)))
            raise _CallReached

    try:
        run(_make_backend(stop_at_call, level))
    except _CallReached:
        module, inputs = found[0]
        return torch.fx.GraphModule(
            module, module.graph
        ), inputs  # Dynamo's own module cannot be compiled
    return None


def _make_backend(
    listen: Callable[[torch.fx.GraphModule, Sequence[object]], object], level: GraphLevel
) -> Callable[..., object]:
    """Return a backend whose compiled graph calls `listen(graph, inputs)`, then runs in eager.

    `graph` is Dynamo's at the level "dynamo", AOTAutograd's decomposed one at "aot".
    """

    def compiler(module: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        """Return a callable that reports each call to `listen` and runs the graph in eager."""

        def call(*inputs: object) -> object:
            """Report the call to `listen`, then run the graph."""
            listen(module, inputs)
            return module(*inputs)

        return call

    if level == "dynamo":
        return compiler
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._inductor.decomposition import select_decomp_table

    def boxed(module: torch.fx.GraphModule, inputs: object) -> object:
        return make_boxed_func(compiler(module, inputs))

    return aot_autograd(fw_compiler=boxed, bw_compiler=boxed, decompositions=select_decomp_table())


def has_functorch_transform(module: torch.fx.GraphModule) -> bool:
    """Whether a Dynamo graph calls a torch.func transform (grad, vmap, jvp)."""
    return any("_functorch" in str(getattr(n.target, "__module__", "")) for n in module.graph.nodes)


def count_aten_calls(
    target: Callable[..., object], args: Any, kwargs: Any, dynamic: bool | None
) -> int:
    """Return the number of call nodes in the ATen graphs of one compiled forward call."""
    from torch._dynamo.backends.common import aot_autograd

    calls = 0

    def count_calls(module: torch.fx.GraphModule, _: object) -> object:
        """Add the number of call nodes of an ATen graph to `calls`; return its forward."""
        nonlocal calls
        calls += sum(node.op == "call_function" for node in module.graph.nodes)
        return module.forward

    torch.compiler.reset()
    torch.compile(target, backend=aot_autograd(fw_compiler=count_calls), dynamic=dynamic)(
        *args, **kwargs
    )
    return calls
