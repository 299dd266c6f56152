"""AOTAutograd for a backend of our own, and symbolic sizes as sympy expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

GraphCompiler = Callable[[torch.fx.GraphModule, Sequence[object]], Callable[..., object]]


def compile_with_autograd(
    module: torch.fx.GraphModule,
    inputs: Sequence[object],
    *,
    forward: GraphCompiler,
    backward: GraphCompiler,
    decompositions: Mapping[Any, Callable[..., object]],
    partition: Callable[..., tuple[torch.fx.GraphModule, torch.fx.GraphModule]] | None = None,
) -> Callable[..., object]:
    """Return the compiled form of Dynamo's graph, with autograd and updates of inputs around it.

    `forward` and `backward` compile functional graphs of ATen operators. What they return takes
    one list of arguments, which it may empty. `partition` splits a joint graph; by default, torch's
    min-cut partitioner does.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    def boxed(compiler: GraphCompiler) -> GraphCompiler:
        """Return the compiler with AOTAutograd's marker of functions that take a list."""

        def compile_boxed(graph: torch.fx.GraphModule, args: Sequence[object]) -> Any:
            compiled = compiler(graph, args)
            run: Any = make_boxed_func(lambda *values: compiled(list(values)))
            run = compiled if _set_boxed(compiled) else run
            return run

        return compile_boxed

    backend = aot_autograd(
        fw_compiler=boxed(forward),
        bw_compiler=boxed(backward),
        inference_compiler=boxed(forward),
        decompositions=decompositions,
        partition_fn=partition or min_cut_rematerialization_partition,
    )
    return backend(module, inputs)


def _set_boxed(function: Any) -> bool:
    """Mark a function as one that takes a list of arguments; return whether it can be marked."""
    try:
        function._boxed_call = True
    except AttributeError:
        return False
    return True


def register_backend(name: str, backend: Any) -> None:
    """Register a backend of torch.compile, unless the name is taken.

    Where the package is installed, torch knows the name by its entry point, registers what it loads
    from there itself, and accepts no second one.
    """
    from torch._dynamo.backends import registry

    if not {name} & {*getattr(registry, "_BACKENDS", {}), *getattr(registry, "_COMPILER_FNS", {})}:
        registry.register_backend(backend, name=name)


def expression_of(value: object) -> sympy.Expr:
    """Return a size, an int or a torch.SymInt, as a sympy expression."""
    if isinstance(value, torch.SymInt):
        return value.node.expr
    return sympy.Integer(int(value))  # type: ignore[call-overload]
