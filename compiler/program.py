"""The program under analysis: a callable, the calls to make, and how to compile it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.events import Position
from fullgraph.compiler.ladder import RUNGS, Backend, CompileOptions, Rung, ladder, resolve_backend
from fullgraph.compiler.private import (
    compile_modes,
    isolate_recompiles_kwargs,
    tree_leaves,
    unwrap_compiled,
)
from fullgraph.compiler.results import Loss, backward


@dataclass(frozen=True)
class CallArguments:
    """The positional and keyword arguments of one call."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object]


@dataclass(frozen=True)
class Program:
    """A callable, the calls to make, and the arguments of `torch.compile`."""

    target: Callable[..., object]
    calls: tuple[CallArguments, ...]
    loss: Loss
    backend: Backend
    mode: str | None
    dynamic: bool | None
    options: CompileOptions | None
    eager_calls: int = 0
    """Number of calls at the start that run in eager; the others are compiled."""

    @property
    def name(self) -> str:
        """Display name: the class of a module, the qualified name of a function."""
        name = getattr(self.target, "__qualname__", None) or type(self.target).__name__
        return str(name).rpartition("<locals>.")[2]

    @property
    def position(self) -> Position | None:
        """Where the function, or the module's forward, is defined; None without Python code."""
        function = self.target if self.module is None else self.module.forward
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None:
            return None
        return Position(code.co_filename, code.co_firstlineno, function=code.co_name)

    @property
    def backend_name(self) -> str:
        """Display name of the backend."""
        return self.backend if isinstance(self.backend, str) else _name_of(self.backend)

    @property
    def module(self) -> torch.nn.Module | None:
        """The target if it is a module; else None."""
        return self.target if isinstance(self.target, torch.nn.Module) else None

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The ladder from eager up to the backend with its mode and options."""
        return ladder(self.backend, mode=self.mode, options=self.options)

    def run(
        self, function: Callable[..., object], after: Callable[[int], object] = lambda call: None
    ) -> None:
        """Make every call of `function`, with a backward pass after each if there is a loss.

        After each call and its backward pass, `after` is called with the call's index.
        """
        function = self.after_eager_calls(function)
        for number, call in enumerate(self.calls):
            output = function(*call.args, **call.kwargs)
            if self.loss is not None and self.loss is not False:
                self.backward(output)
            after(number)

    def after_eager_calls(self, compiled: Callable[..., object]) -> Callable[..., object]:
        """Return a function that runs its first `eager_calls` calls in eager, then `compiled`."""
        if not self.eager_calls:
            return compiled
        numbers = itertools.count()

        def call(*args: object, **kwargs: object) -> object:
            """Run the target or `compiled`, depending on the number of calls so far."""
            function = self.target if next(numbers) < self.eager_calls else compiled
            return function(*args, **kwargs)

        return call

    def backward(self, output: object) -> None:
        """Run the backward pass of one call's output.

        Raises RuntimeError if `loss` is True and no output requires a gradient.
        """
        if isinstance(output, Mapping) and not callable(self.loss):
            output = list(output.values())
        if not backward(output, self.loss):
            raise RuntimeError("loss=True: no output requires a gradient")

    def compiled(self, *, fullgraph: bool = False, isolated: bool = False) -> Callable[..., object]:
        """Return the target under torch.compile; with `isolated`, it gets its own Dynamo cache."""
        extra: dict[str, Any] = isolate_recompiles_kwargs() if isolated else {}
        return torch.compile(
            self.target,
            fullgraph=fullgraph,
            backend=self.backend,
            mode=self.mode,
            dynamic=self.dynamic,
            options=dict(self.options) if self.options else None,
            **extra,
        )

    def objects(self) -> tuple[object, ...]:
        """Return every object of the user's that a call may change."""
        return (self.target, *((call.args, call.kwargs) for call in self.calls))


def parse_program(
    model: object,
    inputs: object,
    *,
    kwargs: Mapping[str, object] | None = None,
    calls: Sequence[object] = (),
    loss: Loss = None,
    backend: Backend = "eager",
    mode: str | None = None,
    dynamic: bool | None = None,
    options: CompileOptions | None = None,
    command: str = "explain",
) -> Program:
    """Return the program that the arguments of `explain` or a similar function describe.

    A compiled model or function is replaced by the original. `inputs` and each of `calls` are a
    tensor, a tuple of positional arguments or a dict of keyword arguments; `kwargs` are further
    arguments of the first call. `command` is the name of the function, for error messages. Raises
    FullgraphError if the arguments do not describe a program that can be called.
    """
    target = unwrap_compiled(model)
    _check_kind(target, command)
    if not callable(target):
        raise FullgraphError(
            f"{command} needs a module or a function, and got {_article(type(model).__name__)}: "
            "pass what you would pass to torch.compile."
        )
    if inspect.isclass(target):
        raise FullgraphError(
            f"{command} got the class {target.__name__}, not an instance: "
            f"pass {target.__name__}(...) as the model."
        )
    if mode is not None and options is not None:
        raise FullgraphError("torch.compile takes either mode= or options=, not both: drop one.")
    every = tuple(
        _parse_call(each, kwargs if i == 0 else None) for i, each in enumerate((inputs, *calls))
    )
    for number, call in enumerate(every):
        _check_signature(target, call, number)
    if mode is not None:
        _check_mode(mode, backend)
    if loss is not None and not isinstance(loss, bool) and not callable(loss):
        raise FullgraphError(
            f"loss must be a callable on the output, or True for its sum, "
            f"not {_article(type(loss).__name__)}."
        )
    _check_devices(target, every)
    return Program(target, every, loss, resolve_backend(backend), mode, dynamic, options)


def _parse_call(inputs: object, kwargs: Mapping[str, object] | None) -> CallArguments:
    """Return `inputs` and `kwargs` as the arguments of one call."""
    if isinstance(inputs, CallArguments):
        return inputs
    if isinstance(inputs, Mapping):
        return CallArguments((), {**inputs, **(kwargs or {})})
    args = inputs if isinstance(inputs, tuple) and type(inputs) is tuple else (inputs,)
    return CallArguments(args, dict(kwargs or {}))


def _check_signature(target: Any, call: CallArguments, number: int) -> None:
    """Raise FullgraphError if the target does not accept the arguments of a call.

    `number` is the index of the call, from 0; the message names the call by it.
    """
    function = target
    if isinstance(target, torch.nn.Module) and type(target).__call__ is torch.nn.Module.__call__:
        function = target.forward
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a C function has no signature; the call will raise
    try:
        signature.bind(*call.args, **call.kwargs)
    except TypeError as error:
        which = "inputs do" if number == 0 else f"calls[{number - 1}] does"
        name = getattr(target, "__name__", type(target).__name__)
        raise FullgraphError(
            f"The {which} not fit {name}{signature}: {error}. Give a tensor, a tuple of "
            "positional arguments, or a dict of keyword arguments."
        ) from None


def _check_kind(target: object, command: str) -> None:
    """Raise FullgraphError for TorchScript, an ExportedProgram or an uninitialised module.

    The message says that `command`, such as "explain", got it.
    """
    name = type(target).__name__
    if isinstance(target, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        raise FullgraphError(
            f"{command} got a {name}: TorchScript has compiled it, and torch.compile does not "
            "trace into it. Pass the module or function that it was made from."
        )
    if isinstance(target, torch.export.ExportedProgram):
        raise FullgraphError(
            f"{command} got an ExportedProgram, which cannot be called: pass its .module()."
        )
    if isinstance(target, torch.nn.Module) and not hasattr(target, "_parameters"):
        raise FullgraphError(
            f"{name} cannot be compiled: its __init__ does not call super().__init__(), which "
            "every nn.Module needs; call it first."
        )


def _check_mode(mode: str, backend: Backend) -> None:
    """Raise FullgraphError for a mode that torch.compile does not have.

    With a backend that is not on the ladder, any mode is accepted: it may have modes of its own.
    """
    known = compile_modes()
    if mode not in known and isinstance(backend, str) and backend in {r.backend for r in RUNGS}:
        raise FullgraphError(f"torch.compile has no mode {mode!r}; there are {', '.join(known)}.")


def _check_devices(target: object, calls: tuple[CallArguments, ...]) -> None:
    """Raise FullgraphError if only some tensors are on the meta device."""
    tensors = tree_leaves([(c.args, dict(c.kwargs)) for c in calls])
    if isinstance(target, torch.nn.Module):
        tensors += [*target.parameters(), *target.buffers()]
    devices = {t.device.type for t in tensors if isinstance(t, torch.Tensor)}
    if "meta" in devices and len(devices) > 1:
        raise FullgraphError(
            "Some tensors of the model or its inputs are on the meta device and hold no values: "
            "move the model with to_empty() and initialise it, or move the inputs to meta too."
        )


def _name_of(backend: object) -> str:
    return getattr(backend, "__name__", type(backend).__name__)


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
