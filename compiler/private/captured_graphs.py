"""The graphs that a program becomes, Dynamo's and AOTAutograd's, with what they are called with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

CapturedGraph = tuple[torch.fx.GraphModule, tuple[Any, ...]]
GraphLevel = Literal["dynamo", "aot"]


class _Reached(BaseException):
    """The graph that was waited for is about to run."""


def count_graph_calls(
    run: Callable[[Callable[..., Any]], object], level: GraphLevel = "dynamo"
) -> int:
    """How many times graphs are called while `run(backend)` runs."""
    calls = []
    run(_backend(lambda module, inputs: calls.append(module), level))
    return len(calls)


def capture_graph(
    run: Callable[[Callable[..., Any]], object], number: int, level: GraphLevel = "dynamo"
) -> CapturedGraph | None:
    """The graph of call `number` (from 0) while `run(backend)` runs, and its inputs as they are
    just before; the run ends there. None if there is no such call."""
    found: list[CapturedGraph] = []
    calls = 0

    def listen(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        nonlocal calls
        calls += 1
        if calls > number:
            found.append((module, tuple(inputs)))
            raise _Reached

    try:
        run(_backend(listen, level))
    except _Reached:
        module, inputs = found[0]
        return torch.fx.GraphModule(module, module.graph), inputs  # Dynamo's own is not compilable
    return None


def _backend(
    listen: Callable[[torch.fx.GraphModule, Sequence[Any]], object], level: GraphLevel
) -> Callable[..., Any]:
    """A backend that runs graphs as they are, and tells `listen` of each call before."""

    def compiler(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            listen(module, inputs)
            return module(*inputs)

        return call

    if level == "dynamo":
        return compiler
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._inductor.decomposition import select_decomp_table

    def boxed(module: torch.fx.GraphModule, inputs: Any) -> Any:
        return make_boxed_func(compiler(module, inputs))

    return aot_autograd(fw_compiler=boxed, bw_compiler=boxed, decompositions=select_decomp_table())


def has_functorch_transform(module: torch.fx.GraphModule) -> bool:
    """Whether a graph of Dynamo's has calls inside a transform of torch.func (grad, vmap, jvp):
    it enters and leaves their levels by private functions."""
    return any("_functorch" in str(getattr(n.target, "__module__", "")) for n in module.graph.nodes)


def count_aten_calls(
    target: Callable[..., Any], args: Any, kwargs: Any, dynamic: bool | None
) -> int:
    """The number of calls in the ATen graphs of one forward."""
    from torch._dynamo.backends.common import aot_autograd

    calls = 0

    def compiler(module: torch.fx.GraphModule, _: Any) -> Any:
        nonlocal calls
        calls += sum(node.op == "call_function" for node in module.graph.nodes)
        return module.forward

    torch.compiler.reset()
    torch.compile(target, backend=aot_autograd(fw_compiler=compiler), dynamic=dynamic)(
        *args, **kwargs
    )
    return calls
