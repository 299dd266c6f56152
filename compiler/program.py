"""A program: a callable, its inputs, and how it is to be compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.ladder import Backend, resolve
from fullgraph.compiler.private import compile_config as settings
from fullgraph.compiler.private.pytrees import leaves
from fullgraph.compiler.results import Loss


@dataclass(frozen=True)
class Call:
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Program:
    """A callable with the calls to make."""

    target: Callable[..., Any]
    calls: tuple[Call, ...]
    loss: Loss
    backend: Backend
    mode: str | None
    dynamic: bool | None
    options: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """A name for people: the class of a module, the qualified name of a function."""
        target = self.target
        name = getattr(target, "__qualname__", None) or type(target).__name__
        return str(name).rpartition("<locals>.")[2]

    @property
    def backend_name(self) -> str:
        return self.backend if isinstance(self.backend, str) else _name(self.backend)

    def run(
        self, function: Callable[..., Any], after: Callable[[int], object] = lambda call: None
    ) -> None:
        """Call `function` with each call's arguments, backward included if there is a loss.

        `after` is told the number of each call that is done.
        """
        for number, call in enumerate(self.calls):
            output = function(*call.args, **call.kwargs)
            if self.loss is not None and self.loss is not False:
                self.backward(output)
            after(number)

    def backward(self, output: Any) -> None:
        """Go backward from the loss of one call's output."""
        _loss_of(output, self.loss).backward()

    def compiled(self, *, fullgraph: bool = False, isolated: bool = False) -> Callable[..., Any]:
        """The target under torch.compile; `isolated` keeps its cache apart, where torch can."""
        extra: dict[str, Any] = settings.isolated_recompiles() if isolated else {}
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
        """Everything of the user's that a call may change."""
        return (self.target, *((call.args, call.kwargs) for call in self.calls))


def program(
    model: Any,
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    calls: Sequence[Any] = (),
    loss: Loss = None,
    backend: Backend = "eager",
    mode: str | None = None,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    command: str = "explain",
) -> Program:
    """Read the arguments of `explain`, or of another `command`.

    Raises FullgraphError where they cannot be a program. A compiled model or function is taken
    for what it was made of.
    """
    target = settings.unwrap(model)
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
        _call(each, kwargs if i == 0 else None) for i, each in enumerate((inputs, *calls))
    )
    for number, call in enumerate(every):
        _check_signature(target, call, number)
    if loss is not None and not isinstance(loss, bool) and not callable(loss):
        raise FullgraphError(
            f"loss must be a callable on the output, or True for its sum, "
            f"not {_article(type(loss).__name__)}."
        )
    _check_devices(target, every)
    return Program(target, every, loss, resolve(backend), mode, dynamic, options)


def _call(inputs: Any, kwargs: Mapping[str, Any] | None) -> Call:
    if isinstance(inputs, Call):
        return inputs
    if isinstance(inputs, Mapping):
        return Call((), {**inputs, **(kwargs or {})})
    args = inputs if isinstance(inputs, tuple) and type(inputs) is tuple else (inputs,)
    return Call(args, dict(kwargs or {}))


def _check_signature(target: Any, call: Call, number: int) -> None:
    function = target.forward if isinstance(target, torch.nn.Module) else target
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a C function tells nothing; the call itself will
    try:
        signature.bind(*call.args, **call.kwargs)
    except TypeError as error:
        which = "inputs do" if number == 0 else f"calls[{number - 1}] does"
        name = getattr(target, "__name__", type(target).__name__)
        raise FullgraphError(
            f"The {which} not fit {name}{signature}: {error}. Give a tensor, a tuple of "
            "positional arguments, or a dict of keyword arguments."
        ) from None


def _check_devices(target: Any, calls: tuple[Call, ...]) -> None:
    tensors = leaves([(c.args, dict(c.kwargs)) for c in calls])
    if isinstance(target, torch.nn.Module):
        tensors += [*target.parameters(), *target.buffers()]
    devices = {t.device.type for t in tensors if isinstance(t, torch.Tensor)}
    if "meta" in devices and len(devices) > 1:
        raise FullgraphError(
            "Some tensors of the model or its inputs are on the meta device and hold no values: "
            "move the model with to_empty() and initialise it, or move the inputs to meta too."
        )


def _loss_of(output: Any, loss: Loss) -> torch.Tensor:
    if callable(loss):
        return loss(output)
    outputs = output.values() if isinstance(output, Mapping) else leaves(output)
    sums = [
        leaf.float().sum()
        for leaf in leaves(list(outputs))
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if not sums:
        raise RuntimeError("loss=True: no output requires a gradient")
    return torch.stack(sums).sum()


def _name(backend: Any) -> str:
    return getattr(backend, "__name__", type(backend).__name__)


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
