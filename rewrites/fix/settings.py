"""Settings of the compiler and of the caller, with which a program is tried."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fullgraph.compiler.private import mark_dynamic
from fullgraph.compiler.program import CallArguments, Program
from fullgraph.rewrites.proof import copy_calls, tensor_of_number

Config = Mapping[str, object]
"""Configuration values by name: {"torch._dynamo.config.allow_rnn": True}."""


@dataclass(frozen=True)
class DynamicDimension:
    """A dimension of a tensor argument whose size differs between calls."""

    argument: str
    dimension: int
    least: int
    greatest: int

    def code(self, bounded: bool) -> str:
        """Return the code that marks the dimension as dynamic; if `bounded`, with its bounds."""
        bounds = f", min={self.least}, max={self.greatest}" if bounded else ""
        return f"torch._dynamo.mark_dynamic({self.argument}, {self.dimension}{bounds})"


@dataclass(frozen=True)
class CompileSetting:
    """A way to compile or call the program differently without editing its code."""

    dynamic: bool | None = None
    config: Config = field(default_factory=dict)
    marks: tuple[DynamicDimension, ...] = ()
    bounded: bool = False
    """Whether the marks give the least and greatest size as bounds."""
    tensors: tuple[str, ...] = ()
    """Number arguments that become 0-d tensors."""
    warm_up: bool = False
    """Whether the first call also runs once in eager before all others, so that values which it
    creates exist when the program is compiled."""

    def __str__(self) -> str:
        """Return the code with which the caller makes this setting."""
        lines = [f"{name} = {value!r}" for name, value in self.config.items()]
        lines += [mark.code(self.bounded) for mark in self.marks]
        lines += [f"{name} = torch.tensor({name})" for name in self.tensors]
        if self.warm_up:
            lines += ["model(*inputs)", "model = torch.compile(model)"]
        if self.dynamic is not None:
            lines.append(f"torch.compile(model, dynamic={self.dynamic})")
        return "; ".join(lines)

    def of(self, program: Program) -> Program:
        """Return `program` with this setting, except `config`, which the caller has to set."""
        if self.dynamic is not None:
            program = replace(program, dynamic=self.dynamic)
        if self.warm_up:
            calls = (*copy_calls(program.calls[:1]), *program.calls)
            program = replace(program, calls=calls, eager_calls=1)
        if not self.marks and not self.tensors:
            return program
        calls = copy_calls(program.calls)
        return replace(program, calls=tuple(self._change_call(program, call) for call in calls))

    def _change_call(self, program: Program, call: CallArguments) -> CallArguments:
        """Mark the tensors of a call as dynamic, and return the call with tensors for numbers."""
        given = arguments_of(program, call)
        for mark in self.marks:
            bounds = (mark.least, mark.greatest) if self.bounded else None
            mark_dynamic(given[mark.argument], mark.dimension, bounds)
        new = {name: tensor_of_number(given[name]) for name in self.tensors}
        names = [name for name, value in given.items() if name not in call.kwargs]
        args = tuple(new.get(name, value) for name, value in zip(names, call.args, strict=False))
        kwargs = {name: new.get(name, value) for name, value in call.kwargs.items()}
        return CallArguments((*args, *call.args[len(args) :]), kwargs)


def arguments_of(program: Program, call: CallArguments) -> Mapping[str, Any]:
    """Return the arguments of a call by parameter name; {} if the signature is unknown."""
    target = program.target
    function = target.forward if isinstance(target, torch.nn.Module) else target
    try:
        bound = inspect.signature(function).bind(*call.args, **call.kwargs)
    except (TypeError, ValueError):
        return {}
    variadic = {
        name
        for name, parameter in bound.signature.parameters.items()
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return {name: value for name, value in bound.arguments.items() if name not in variadic}
