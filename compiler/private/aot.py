"""AOTAutograd for a backend of our own: joint graphs, their split, and sizes as expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from fullgraph.compiler.private.operator_names import is_mutating_op

if TYPE_CHECKING:
    import sympy

Modules = tuple[torch.fx.GraphModule, torch.fx.GraphModule]
GraphCompiler = Callable[[torch.fx.GraphModule, Sequence[object]], Callable[..., object]]


def compile_with_autograd(
    module: torch.fx.GraphModule,
    inputs: Sequence[object],
    *,
    forward: GraphCompiler,
    backward: GraphCompiler,
    decompositions: Mapping[Any, Callable[..., object]],
    partition: Callable[..., Modules],
) -> Callable[..., object]:
    """Return the compiled form of Dynamo's graph, with autograd and updates of inputs around it.

    `forward` and `backward` compile functional graphs of ATen operators. They return a function of
    one list of arguments, which it may empty. `partition` splits a joint graph.
    """
    from torch._dynamo.backends.common import aot_autograd

    def boxed(compiler: GraphCompiler) -> GraphCompiler:
        """Return the compiler with AOTAutograd's marker of functions that take a list."""

        def compile_boxed(graph: torch.fx.GraphModule, args: Sequence[object]) -> Any:
            compiled: Any = compiler(graph, args)
            compiled._boxed_call = True
            return compiled

        return compile_boxed

    backend = aot_autograd(
        fw_compiler=boxed(forward),
        bw_compiler=boxed(backward),
        inference_compiler=boxed(forward),
        decompositions=decompositions,
        partition_fn=partition,
    )
    return backend(module, inputs)


def is_tangent(node: torch.fx.Node) -> bool:
    """Return whether a placeholder exists only in the backward: a tangent or its random seed."""
    name = str(node.target)
    return node.op == "placeholder" and ("tangents" in name or name.startswith("bwd_"))


def is_marked_backward(node: torch.fx.Node) -> bool:
    """Return whether AOTAutograd traced a node in the backward."""
    return node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")


def is_view_op(target: object) -> bool:
    """Return whether the result of an operator shares memory with an operand, by its schema."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    aliases = [result.alias_info for result in target._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def mutated_inputs(module: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """Return the placeholders that the graph, or AOTAutograd after it, updates in place."""
    placeholders = module.graph.find_nodes(op="placeholder")
    by_input = {node.meta.get("desc"): node for node in placeholders if node.meta.get("desc")}
    found = {node.args[0] for node in module.graph.nodes if is_mutating_op(node.target)}
    for output in module.graph.output_node().meta.get("desc", ()):
        found.add(by_input.get(getattr(output, "mutated_input", None)))
    return {node for node in placeholders if node in found}


def split_joint_graph(
    module: torch.fx.GraphModule,
    saved: Sequence[torch.fx.Node],
    saved_sizes: Sequence[torch.fx.Node],
    num_fwd_outputs: int,
) -> Modules:
    """Return the forward, which also returns `saved` and `saved_sizes`, and the backward.

    The backward takes these and the tangents, and computes everything else that it needs. Their
    order is that of AOTAutograd's runtime. Values that the backward does not use are not saved.
    """
    from torch._functorch import partitioners

    forward, backward = partitioners._extract_fwd_bwd_modules(
        module, list(saved), saved_sym_nodes=list(saved_sizes), num_fwd_outputs=num_fwd_outputs
    )
    return forward, backward


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
    import sympy

    return sympy.Integer(int(value))  # type: ignore[call-overload]
