"""The graphs that Dynamo captures of a program, with what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class _Reached(BaseException):
    """The graph that was waited for is about to run."""


def count(run: Callable[[Callable[..., Any]], object]) -> int:
    """How many times graphs are called while `run(backend)` runs."""
    calls = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            calls.append(module)
            return module(*inputs)

        return call

    run(backend)
    return len(calls)


def reach(
    run: Callable[[Callable[..., Any]], object], number: int
) -> tuple[torch.fx.GraphModule, tuple[Any, ...]] | None:
    """The graph of call `number` (from 0) while `run(backend)` runs, and its inputs as they are
    just before; the run ends there. None if there is no such call."""
    found: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []
    calls = 0

    def backend(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > number:
                found.append((module, inputs))
                raise _Reached
            return module(*inputs)

        return call

    try:
        run(backend)
    except _Reached:
        module, inputs = found[0]
        return torch.fx.GraphModule(module, module.graph), inputs  # Dynamo's own is not compilable
    return None


def count_aten(target: Callable[..., Any], args: Any, kwargs: Any, dynamic: bool | None) -> int:
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
