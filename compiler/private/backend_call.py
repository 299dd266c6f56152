"""The registry of backends, and functions for a backend to use while Dynamo calls it."""

from __future__ import annotations

import contextlib
import copy
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)')


def resolve_backend(
    backend: str | Callable[..., object],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    dynamic: bool | None = None,
) -> Callable[[torch.fx.GraphModule, list[object]], Callable[..., object]]:
    """Return the callable that torch.compile would use as its backend.

    It takes a graph and example inputs, and returns the compiled graph. Raises what torch.compile
    raises.
    """
    given_options = dict(options) if options else None
    if backend == "inductor":
        return torch._TorchCompileInductorWrapper(mode, given_options, dynamic)
    return torch._TorchCompileWrapper(backend, mode, given_options, dynamic)


def find_backend(name: str) -> Callable[..., object] | None:
    """Return the backend registered under `name`; None if none is yet. This loads no module."""
    from torch._dynamo.backends import registry

    return getattr(registry, "_COMPILER_FNS", {}).get(name)


def is_local_backend(name: str) -> bool:
    """Return whether the running program itself registered the backend `name`.

    False for torch's own backends, for those of installed packages, and for unknown names.
    """
    from torch._dynamo.backends import registry

    function = find_backend(name)
    if function is None or getattr(registry, "_BACKENDS", {}).get(name) is not None:
        return False
    return not str(getattr(function, "__module__", "")).startswith("torch.")


def import_inductor() -> None:
    """Import Inductor, so that a forked child need not import it."""
    import torch._inductor.compile_fx  # noqa: F401


def dynamo_control_exceptions() -> tuple[type[BaseException], ...]:
    """Return the exceptions by which a backend requests a restart, a skip or a graph break."""
    from torch._dynamo import exc

    known = [getattr(exc, name, None) for name in ("RestartAnalysis", "SkipFrame")]
    known += getattr(exc, "exceptions_allowed_to_be_fallback", ())
    return tuple(kind for kind in known if kind is not None)


def find_graph_origin(module: torch.fx.GraphModule) -> tuple[str, int, str]:
    """Return file, line and function of a graph's first user frame; ("", 0, "") if unknown."""
    for node in module.graph.nodes:
        found = _FRAME.search(node.meta.get("stack_trace") or "")
        if found:
            return found["file"], int(found["line"]), found["function"]
    return "", 0, ""


def copy_graph_module(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy of a graph for a compiler to edit; parameters and buffers are not copied."""
    graph = copy.deepcopy(module.graph)
    for old, new in zip(module.graph.nodes, graph.nodes, strict=True):
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    made = torch.fx.GraphModule(module, graph)
    made.meta.update(module.meta)
    for attribute in ("_param_name_to_source", "_source_to_user_stacks"):
        if attribute in vars(module):
            setattr(made, attribute, vars(module)[attribute])
    return made


@contextlib.contextmanager
def outside_compilation() -> Iterator[None]:
    """Run the block as if no compilation were in progress, outside its context and metrics."""
    from torch._guards import compile_context, tracing

    metrics = _metrics_context()
    before = vars(metrics).copy()
    vars(metrics).update(_metrics={}, _edits=[], _level=0)
    try:
        with tracing(None), compile_context(None):
            yield
    finally:
        vars(metrics).update(before)


def save_compilation_metrics() -> Callable[[], None]:
    """Return a function that sets the compilation metrics back to their present values.

    Without it, a second compiler in the same compilation raises when it sets a metric again.
    """
    metrics = _metrics_context()
    before = dict(vars(metrics).get("_metrics", {}))
    return lambda: vars(metrics).update(_metrics=before)


def _metrics_context() -> object:
    """Return torch's object that collects the current compilation's metrics."""
    from torch._dynamo.utils import get_metrics_context

    return get_metrics_context()


@contextlib.contextmanager
def keep_compiler_in_children() -> Iterator[None]:
    """Disable `torch.compiler.reset` in children forked inside the block.

    The children need the state of the compilation in progress.
    """
    reset, here = torch.compiler.reset, os.getpid()
    torch.compiler.reset = lambda: reset() if os.getpid() == here else None
    try:
        yield
    finally:
        torch.compiler.reset = reset


def unwrap_compiled_graph(compiled: Callable[..., object]) -> Callable[..., object]:
    """Return a compiled graph without its `torch.compiler.disable` wrapper.

    Call the result only from code that Dynamo does not trace. The wrapper costs about two
    microseconds a call.
    """
    from torch._dynamo import eval_frame

    return getattr(eval_frame, "innermost_fn", lambda graph: graph)(compiled)


def hint_of_symbol(symbol: Any) -> object:
    """Return the hint of a symbolic number: its value in the call being compiled, such as 8.

    None if it has none, because it depends on data.
    """
    return symbol.node.hint


def may_have_size_zero_or_one(symbol: Any) -> bool:
    """Return whether the graph being compiled must also work if `symbol` is 0 or 1.

    Usually torch specializes on these sizes, and then `symbol` is at least 2.
    """
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return not statically_known_true(symbol >= 2)


def is_fake_tensor(thing: object) -> bool:
    """Return whether an object is a FakeTensor."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(thing, FakeTensor)


@contextlib.contextmanager
def draw_eager_random_numbers() -> Iterator[None]:
    """Make Inductor draw the same random numbers as eager, for graphs compiled in the block."""
    import torch._inductor.config as config

    with config.patch(fallback_random=True):
        yield


def draws_eager_random_numbers(options: Mapping[str, object]) -> bool:
    """Whether Inductor, with these options, draws the same random numbers as eager."""
    import torch._inductor.config as config

    return bool(options.get("fallback_random", config.fallback_random))
