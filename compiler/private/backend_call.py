"""What a backend can know while Dynamo calls it, and do outside of that call."""

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
    backend: str | Callable[..., Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]:
    """What torch.compile makes of a backend, mode and options. Raises what it raises."""
    chosen = dict(options) if options else None
    if backend == "inductor":
        return torch._TorchCompileInductorWrapper(mode, chosen, dynamic)
    return torch._TorchCompileWrapper(backend, mode, chosen, dynamic)


def import_inductor() -> None:
    """Import what Inductor needs, so that a forked child finds it."""
    import torch._inductor.compile_fx  # noqa: F401


def dynamo_control_exceptions() -> tuple[type[BaseException], ...]:
    """The exceptions with which a backend talks to Dynamo: start again, skip, break the graph."""
    from torch._dynamo import exc

    known = [getattr(exc, name, None) for name in ("RestartAnalysis", "SkipFrame")]
    known += getattr(exc, "exceptions_allowed_to_be_fallback", ())
    return tuple(kind for kind in known if kind is not None)


def find_graph_origin(module: torch.fx.GraphModule) -> tuple[str, int, str]:
    """File, line and function of the user's code with which a graph begins; ("", 0, "") if
    nothing tells."""
    for node in module.graph.nodes:
        found = _FRAME.search(node.meta.get("stack_trace") or "")
        if found:
            return found["file"], int(found["line"]), found["function"]
    return "", 0, ""


def copy_graph_module(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph once more, on the same parameters and buffers: compilers edit theirs."""
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
    """Run compiled code as if no compilation were going on."""
    from torch._guards import compile_context, tracing

    metrics = _metrics()
    before = vars(metrics).copy()
    vars(metrics).update(_metrics={}, _edits=[], _level=0)
    try:
        with tracing(None), compile_context(None):
            yield
    finally:
        vars(metrics).update(before)


def save_compilation_metrics() -> Callable[[], None]:
    """A function that takes back what compilers note of themselves from now on: another one, in
    the same compilation, must not note it twice."""
    metrics = _metrics()
    before = dict(vars(metrics).get("_metrics", {}))
    return lambda: vars(metrics).update(_metrics=before)


def _metrics() -> Any:
    from torch._dynamo.utils import get_metrics_context

    return get_metrics_context()


@contextlib.contextmanager
def keep_compiler_in_children() -> Iterator[None]:
    """Let children that are forked now have the compiler as it is, in the middle of its work."""
    reset, here = torch.compiler.reset, os.getpid()
    torch.compiler.reset = lambda: reset() if os.getpid() == here else None
    try:
        yield
    finally:
        torch.compiler.reset = reset


def unwrap_compiled_graph(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph without the wrapper that keeps Dynamo out of it, for a caller that Dynamo
    wraps itself: each costs about two microseconds a call."""
    from torch._dynamo import eval_frame

    return getattr(eval_frame, "innermost_fn", lambda graph: graph)(compiled)


def hint_of_symbol(symbol: Any) -> Any:
    """The number that a symbolic one stands for in the call that is compiled; None if none."""
    return symbol.node.hint


def may_be_zero_or_one(symbol: Any) -> bool:
    """Whether a graph with this size may also be called with 0 or 1."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return not statically_known_true(symbol >= 2)


def is_fake_tensor(thing: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(thing, FakeTensor)


def draws_eager_random_numbers(options: Mapping[str, Any]) -> bool:
    """Whether Inductor draws the random numbers that eager draws."""
    import torch._inductor.config as config

    return bool(options.get("fallback_random", config.fallback_random))
