"""Hooks into Dynamo: functions of torch that are wrapped while a listener is installed.

What each reports in torch 2.10 to 2.15:

- `InstructionTranslatorBase.log_graph_break` sees every break inside the tracer;
- `ConvertFrameAssert.__call__` sees what leaves the tracer as an exception: generators, the
  recompile limit, `fullgraph=True` errors, crashes;
- `CatchErrorsWrapper._handle_skip` (2.13) sees frames left to eager, with the reason;
- `OutputGraph.call_user_compiler` sees every graph that goes to the backend;
- `get_and_maybe_log_recompilation_reasons` sees the guards that failed;
- the metrics context's exit sees compile times.

A handler of `torch.__trace` would report much of this, but makes torch print every graph as text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch

from fullgraph.compiler.private.dynamo_objects import Frame, OutputGraph, Tracer

if TYPE_CHECKING:
    from torch._dynamo.convert_frame import ConvertFrameReturn

T = TypeVar("T")


class CompileListener(Protocol):
    """Receiver of compile events. Arguments are torch's live objects: do not keep references."""

    def on_break(self, tx: Tracer, reason: str, exc: BaseException | None) -> None:
        """The tracer `tx` broke the graph."""

    def on_unhandled_exception(self, frame: Frame, exc: BaseException, one_graph: bool) -> None:
        """An exception left the tracer of `frame`; `one_graph` is the value of `fullgraph`."""

    def on_skip(self, code: CodeType, reason: str) -> None:
        """Dynamo left a frame of `code` to eager."""

    def on_graph(self, output: OutputGraph, gm: torch.fx.GraphModule) -> None:
        """A graph goes to the backend."""

    def on_graph_split(self, pieces: int) -> None:
        """DDPOptimizer split the last graph into this many pieces."""

    def on_recompile(self, frame: Frame, reasons: list[str]) -> None:
        """Guards of `frame` failed, for `reasons`."""

    def on_compile_times(self, metrics: object) -> None:
        """A compilation ended; `metrics` are torch's `CompilationMetrics`."""


@contextlib.contextmanager
def listen(listener: CompileListener) -> Iterator[tuple[str, ...]]:
    """Report compile events to `listener` inside the block.

    Yields the kinds of event that this torch does not report. Listeners can be nested; each
    receives all events.
    """
    with contextlib.ExitStack() as stack:
        yield tuple(sentence for install, sentence in _HOOKS if not install(stack, listener))


def _replace(
    stack: contextlib.ExitStack,
    owner: object,
    name: str,
    wrap: Callable[[Callable[..., T]], Callable[..., T]],
) -> bool:
    """Replace `owner.name` by `wrap(owner.name)` until `stack` closes.

    Returns False, and does nothing, if `owner` has no such attribute.
    """
    old = vars(owner).get(name)
    if old is None:
        return False
    setattr(owner, name, wrap(old))
    stack.callback(setattr, owner, name, old)
    return True


def _hook_breaks(stack: contextlib.ExitStack, listener: CompileListener) -> bool:
    """Until `stack` closes, report to `listener` each graph break inside the tracer.

    Returns False if this torch lacks the function to hook.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    def wrap(old: Callable[..., T]) -> Callable[..., T]:
        def log_graph_break(
            tx: Tracer, code_options: object, reason: str = "", *a: object, **k: object
        ) -> T:
            exc = next((x for x in (*a, *k.values()) if isinstance(x, BaseException)), None)
            listener.on_break(tx, reason, exc)
            return old(tx, code_options, reason, *a, **k)

        return log_graph_break

    return _replace(stack, InstructionTranslatorBase, "log_graph_break", wrap)


def _hook_exceptions(stack: contextlib.ExitStack, listener: CompileListener) -> bool:
    """Until `stack` closes, report to `listener` each exception that leaves the tracer.

    Returns False if this torch lacks the function to hook.
    """
    from torch._dynamo.convert_frame import ConvertFrameAssert

    def wrap(old: Callable[..., T]) -> Callable[..., T]:
        def __call__(self: object, frame: Frame, *args: object, **kwargs: object) -> T:
            try:
                return old(self, frame, *args, **kwargs)
            except Exception as exc:
                listener.on_unhandled_exception(frame, exc, getattr(self, "_one_graph", False))
                raise

        return __call__

    return _replace(stack, ConvertFrameAssert, "__call__", wrap)


def _hook_skips(stack: contextlib.ExitStack, listener: CompileListener) -> bool:
    """Until `stack` closes, report to `listener` each frame left to eager, with the reason.

    Returns False if this torch lacks the function to hook.
    """
    from torch._dynamo.convert_frame import CatchErrorsWrapper

    def wrap(old: Callable[..., T]) -> Callable[..., T]:
        def _handle_skip(self: object, result: ConvertFrameReturn, frame: Frame) -> T:
            if result.skip_reason is not None and result.guarded_code is None:
                listener.on_skip(frame.f_code, result.skip_reason)
            return old(self, result, frame)

        return _handle_skip

    return _replace(stack, CatchErrorsWrapper, "_handle_skip", wrap)


def _hook_graphs(stack: contextlib.ExitStack, listener: CompileListener) -> bool:
    """Until `stack` closes, report to `listener` each graph that goes to the backend.

    The report says whether DDPOptimizer split the graph. Returns False if this torch lacks the
    function to hook.
    """
    from torch._dynamo.output_graph import OutputGraph as TorchOutputGraph

    def wrap(old: Callable[..., T]) -> Callable[..., T]:
        def call_user_compiler(
            self: TorchOutputGraph, gm: torch.fx.GraphModule, example_inputs: object
        ) -> T:
            listener.on_graph(self, gm)
            compiled = old(self, gm, example_inputs)
            buckets = getattr(getattr(self.compiler_fn, "__self__", None), "buckets", None)
            if buckets:  # DDPOptimizer's
                listener.on_graph_split(len(buckets))
            return compiled

        return call_user_compiler

    return _replace(stack, TorchOutputGraph, "call_user_compiler", wrap)


def _hook_recompiles(stack: contextlib.ExitStack, listener: CompileListener) -> bool:
    """Until `stack` closes, report to `listener` the guards that failed before each recompile.

    Returns False if this torch lacks the function to hook.
    """
    from torch._dynamo import convert_frame

    def wrap(old: Callable[..., list[str]]) -> Callable[..., list[str]]:
        def get_and_maybe_log_recompilation_reasons(
            entries: object, frame: Frame, backend: object, skip_logging: bool = False
        ) -> list[str]:
            reasons = old(entries, frame, backend, skip_logging)
            if reasons and not skip_logging:
                listener.on_recompile(frame, reasons)
            return reasons

        return get_and_maybe_log_recompilation_reasons

    return _replace(stack, convert_frame, "get_and_maybe_log_recompilation_reasons", wrap)


def _hook_timings(stack: contextlib.ExitStack, listener: CompileListener) -> bool:
    """Until `stack` closes, report to `listener` the times of each compilation when it ends.

    Returns False if this torch lacks the function to hook.
    """
    from torch._dynamo import utils

    context = utils.get_metrics_context()  # of this thread, where CPU backward runs too

    def wrap(old: Callable[..., T]) -> Callable[..., T]:
        @torch.compiler.disable  # a lazily compiled backward exits it while user code runs
        def on_exit(*args: object, **kwargs: object) -> T:
            result = old(*args, **kwargs)
            metrics = utils.get_compilation_metrics()
            if metrics:
                listener.on_compile_times(metrics[-1])
            return result

        return on_exit

    return _replace(stack, context, "_on_exit", wrap)


_HOOKS: tuple[tuple[Callable[[contextlib.ExitStack, CompileListener], bool], str], ...] = (
    (_hook_breaks, "graph breaks inside the tracer"),
    (_hook_exceptions, "generators, recompile limits and crashes"),
    (_hook_skips, "why a frame ran eager without a break"),
    (_hook_graphs, "the graphs"),
    (_hook_recompiles, "the guards behind a recompile"),
    (_hook_timings, "compile times"),
)
