"""AOTAutograd and Inductor with stages of our own: joint graphs, their split, code generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from fullgraph.compiler.private.operator_names import is_mutating_op
from fullgraph.compiler.private.torch_state import compile_uncached

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

    backend = aot_autograd(
        fw_compiler=_boxed(forward),
        bw_compiler=_boxed(backward),
        inference_compiler=_boxed(forward),
        decompositions=decompositions,
        partition_fn=partition,
    )
    return backend(module, inputs)


def compile_with_inductor(
    module: torch.fx.GraphModule,
    inputs: Sequence[object],
    *,
    mode: str | None,
    options: Mapping[str, object],
    decompositions: Mapping[Any, Callable[..., object]] | None = None,
    partition: Callable[..., Modules] | None = None,
    compile_graph: GraphCompiler | None = None,
) -> Callable[..., object]:
    """Return Dynamo's graph compiled by Inductor, with its stages replaced by those given.

    The arguments are as `compile_with_autograd` takes them; `compile_graph` stands for Inductor's
    code generation, with its passes after AOTAutograd. `mode` and `options` are torch.compile's.
    No cache is used.
    """
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    patches = {**(list_mode_options(mode) if mode else {}), **options, "fx_graph_cache": False}
    if partition is not None:
        patches["custom_partitioner_fn"] = _inductor_partitioner(partition)
    replaced: dict[str, Any] = {}
    if compile_graph is not None:
        compiler = _boxed(compile_graph)
        replaced["inner_compile"] = lambda graph, args, **_: compiler(graph, args)
    if decompositions is not None:
        replaced["decompositions"] = dict(decompositions)
    with compile_uncached(random=False):
        compiled: Any = compile_fx(
            module, cast(Sequence[Any], inputs), config_patches=patches, **replaced
        )
    return compiled


def inductor_decompositions() -> Mapping[Any, Callable[..., object]]:
    """Return the decompositions with which Inductor traces."""
    from torch._inductor.compile_fx import select_decomp_table

    return select_decomp_table()


def inductor_partition(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Modules:
    """Split a joint graph as Inductor does: AOTAutograd's min-cut partitioner."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    return min_cut_rematerialization_partition(module, inputs, compiler="inductor", **options)


def _boxed(compiler: GraphCompiler) -> GraphCompiler:
    """Return the compiler with AOTAutograd's marker of functions that take a list."""

    def compile_boxed(graph: torch.fx.GraphModule, args: Sequence[object]) -> Any:
        compiled: Any = compiler(graph, args)
        compiled._boxed_call = True
        return compiled

    return compile_boxed


def _inductor_partitioner(partition: Callable[..., Modules]) -> object:
    """Return a partitioner as Inductor's settings take it."""
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioner(CustomPartitionerFn):
        """Calls `partition`."""

        def __call__(self, gm: torch.fx.GraphModule, joint_inputs: Any, **options: Any) -> Modules:
            return partition(gm, joint_inputs, **options)

        def uuid(self) -> None:
            """Return None: nothing is cached."""

    return Partitioner()


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
    """Return a number, such as a size, or a condition as a sympy expression."""
    if isinstance(value, torch.SymInt | torch.SymBool | torch.SymFloat):
        return value.node.expr
    import sympy

    return sympy.sympify(value)
