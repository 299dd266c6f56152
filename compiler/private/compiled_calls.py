"""Recorder of the calls of functions that `torch.compile` returns."""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class CompiledFunction:
    """A function or module that `torch.compile` was applied to, and its calls."""

    name: str
    """The class of a module, or the qualified name of a function."""
    file: str
    line: int
    calls: int = 0
    seconds: float = 0.0
    """Wall time of the calls, compilation included."""
    events: list[tuple[int, int]] = field(default_factory=list)
    """(start, stop) index ranges of the recorded compile events during calls; stop is excluded."""


@dataclass
class CompiledCalls:
    """All compiled functions, and whether one of them is running."""

    functions: list[CompiledFunction] = field(default_factory=list)
    started: float | None = None
    """`time.perf_counter()` at the first call."""
    depth: int = 0
    """Number of nested calls that are running now."""
    seconds: float = 0.0
    """Wall time of all outermost calls."""


@contextlib.contextmanager
def observe_compiled_calls(count_events: Callable[[], int]) -> Iterator[CompiledCalls]:
    """Record the calls of every function that `torch.compile` is applied to inside the block.

    `count_events` returns the number of compile events so far. Nothing is recorded if this torch
    has no `_TorchDynamoContext.__call__`.
    """
    from torch._dynamo import eval_frame

    seen = CompiledCalls()
    owner = getattr(eval_frame, "_TorchDynamoContext", None)
    original = None if owner is None else vars(owner).get("__call__")
    if owner is None or original is None:
        yield seen
        return

    def apply(self: Any, fn: Any) -> Any:
        """Apply torch.compile, and record the calls of the result."""
        result = original(self, fn)
        if type(self).__name__ != "OptimizeContext" or not inspect.isfunction(result):
            return result
        function = _describe(fn)
        seen.functions.append(function)
        return _record_calls(result, function, seen, count_events)

    owner.__call__ = apply
    try:
        yield seen
    finally:
        owner.__call__ = original


def _record_calls(
    compiled: Callable[..., Any],
    function: CompiledFunction,
    seen: CompiledCalls,
    count_events: Callable[[], int],
) -> Callable[..., Any]:
    """Return a wrapper of `compiled` that counts and times its calls.

    It writes to `function`, the entry of this function, and to `seen`, the record of all.
    `count_events` returns the number of compile events so far.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        """Call `compiled`, and record the call's time and compile events."""
        function.calls += 1
        if seen.started is None:
            seen.started = time.perf_counter()
        seen.depth += 1
        first, start = count_events(), time.perf_counter()
        try:
            return compiled(*args, **kwargs)
        finally:
            seconds = time.perf_counter() - start
            function.seconds += seconds
            seen.depth -= 1
            if not seen.depth:
                seen.seconds += seconds
            if count_events() > first:
                function.events.append((first, count_events()))

    with contextlib.suppress(ImportError, AttributeError):
        from torch._dynamo.eval_frame import skip_code

        skip_code(call.__code__)  # else Dynamo compiles it where it is called between graphs
    return functools.wraps(compiled)(call)


def _describe(fn: Any) -> CompiledFunction:
    """Return an entry for a compiled function or module: name, file and line, no calls yet."""
    target = inspect.unwrap(fn)  # a module of torch.nn is wrapped in a function
    module = target if isinstance(target, torch.nn.Module) else getattr(target, "__self__", None)
    if isinstance(module, torch.nn.Module):
        name, function = type(module).__name__, type(module).forward
    else:
        name = str(getattr(target, "__qualname__", type(target).__name__))
        name, function = name.rpartition("<locals>.")[2], getattr(target, "__func__", target)
    code = getattr(function, "__code__", None)
    return CompiledFunction(
        name, code.co_filename if code else "", code.co_firstlineno if code else 0
    )
