"""AOTAutograd and Inductor with stages of our own: joint graphs, their split, code generation."""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch

from fullgraph.compiler.private.operator_names import is_mutating_op
from fullgraph.compiler.private.torch_state import compile_uncached

if TYPE_CHECKING:
    import sympy

Modules = tuple[torch.fx.GraphModule, torch.fx.GraphModule]
GraphCompiler = Callable[[torch.fx.GraphModule, Sequence[object]], Callable[..., object]]
MIN_SAVED = 64
"""Fewest calls in a graph whose code is kept on disk: torch's key takes as long as 50 calls."""


class Loadable(Protocol):
    """Code of a compiled graph, which can be pickled."""

    def load(self) -> Callable[[list[object]], object]:
        """Return the function, which takes a list of inputs."""


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


def compile_with_autograd_cache(
    module: torch.fx.GraphModule,
    inputs: Sequence[object],
    *,
    compiler: Callable[[torch.fx.GraphModule], Loadable],
    decompositions: Mapping[Any, Callable[..., object]],
    partition: Callable[..., Modules],
    tag: str | None,
) -> Callable[..., object]:
    """Return what `compile_with_autograd` returns, from AOTAutograd's cache on disk if it is there.

    `tag` stands for everything but the graph on which the code depends; None for no cache. Where
    the cache lies and whether it is used, torch's own settings say. A short graph is compiled each
    time, and so is every graph by a torch that keeps no code but Inductor's.
    """
    calls = sum(node.op.startswith("call_") for node in module.graph.nodes)
    is_kept = tag is not None and calls >= MIN_SAVED
    saved_type = _saved_code_type() if is_kept else None  # it imports a part of Inductor
    if saved_type is None:

        def compile_graph(graph: torch.fx.GraphModule, _: Sequence[object]) -> Any:
            return compiler(graph).load()

        return compile_with_autograd(
            module,
            inputs,
            forward=compile_graph,
            backward=compile_graph,
            decompositions=decompositions,
            partition=partition,
        )
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import config as functorch
    from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler

    config: Any = torch.compiler.config

    def make() -> Any:  # aot_autograd changes that of the backward
        return SerializableAOTDispatchCompiler(
            saved_type, lambda graph, _: saved_type(compiler(graph))
        )

    backend = aot_autograd(
        fw_compiler=make(),
        bw_compiler=make(),
        inference_compiler=make(),
        decompositions=decompositions,
        partition_fn=partition,
    )
    # an entry holds both directions: a backward that is compiled later would not be kept
    settings = {"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}
    tags = " ".join(filter(None, (config.cache_key_tag, tag)))
    with functorch.patch(settings), config.patch(cache_key_tag=tags), _key_without_inductor():
        return backend(module, inputs)


@contextlib.contextmanager
def _key_without_inductor() -> Iterator[None]:
    """Inside the block, no key of a cache imports Inductor's code generators to ask for passes."""
    import torch._inductor.codecache

    codecache: Any = torch._inductor.codecache
    register = getattr(codecache, "init_backend_registration", None)
    if register is None:
        yield
        return
    codecache.init_backend_registration = lambda: None
    try:
        yield
    finally:
        codecache.init_backend_registration = register


@functools.cache
def _saved_code_type() -> Any:
    """Return the class of code that AOTAutograd's cache keeps; None if this torch has none."""
    try:
        from torch._functorch import config as functorch
        from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
        from torch._functorch._aot_autograd.schemas import (
            SerializableAOTDispatchCompiler,  # noqa: F401  # asked for, not used
        )
        from torch._inductor.output_code import OutputCode

        functorch.bundled_autograd_cache, functorch.force_non_lazy_backward_lowering  # noqa: B018
    except (ImportError, AttributeError):
        return None

    class SavedCode(OutputCode):
        """Code of a compiled graph, and its function once it is loaded."""

        def __init__(self, code: Loadable, is_saved: bool = False) -> None:
            super().__init__()
            self._code = code
            self._boxed_call = True
            self._run: Any = None if is_saved else code.load()

        def __call__(self, inputs: Any) -> object:
            """Run the graph on a list of inputs."""
            return self._run(inputs)

        def prepare_for_serialization(self) -> None:
            """Raise torch's own refusal if the code cannot be pickled."""
            try:
                pickle.dumps(self._code)
            except Exception as error:
                raise BypassAOTAutogradCache(str(error)) from error

        def post_compile(self, *_: object) -> None:
            """Load the function, after the code was read from disk."""
            self._run = self._run or self._code.load()

        def __reduce__(self) -> Any:
            return _restore_saved_code, (self._code,)

    return SavedCode


def _restore_saved_code(code: Loadable) -> Any:
    return _saved_code_type()(code, is_saved=True)


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


def python_text(number: sympy.Expr) -> str:
    """Return an expression of sizes as Python, which needs the names `math` and `torch`."""
    from torch.utils._sympy.printers import PythonPrinter

    text: str = PythonPrinter().doprint(number)
    return text


def expression_of(value: object) -> sympy.Expr:
    """Return a number, such as a size, or a condition as a sympy expression."""
    if isinstance(value, torch.SymInt | torch.SymBool | torch.SymFloat):
        return value.node.expr
    import sympy

    return sympy.sympify(value)
