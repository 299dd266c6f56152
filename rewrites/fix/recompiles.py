"""Search for settings of the caller with which a program breaks or recompiles less."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fullgraph.compiler.private import mark_dynamic
from fullgraph.compiler.program import CallArguments, Program
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.taxonomy import RootKind
from fullgraph.rewrites.fix.causes import count_recompiles
from fullgraph.rewrites.fix.config_ideas import Config
from fullgraph.rewrites.proof import Check, copy_calls, tensor_of_number

_INT_ATTRIBUTES = "torch._dynamo.config.allow_unspec_int_on_nn_module"
_MADE_LATE = {RootKind.NONE, RootKind.OBJECT, RootKind.FLAG, RootKind.KEYS, RootKind.LENGTH}
"""Kinds of values that may change in the first call and then stay the same."""


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


@dataclass(frozen=True)
class CheckedSetting:
    """A setting, explanations without and with it, and the check of a run with it."""

    setting: CompileSetting
    base: Explanation
    """The explanation of the program without the setting."""
    explanation: Explanation
    """The explanation of the program with the setting."""
    check: Check

    @property
    def before(self) -> int:
        """Number of recompiles over the user's calls without the setting."""
        return count_recompiles(self.base)

    @property
    def after(self) -> int:
        """Number of recompiles over the user's calls with the setting."""
        return count_recompiles(self.explanation)

    @property
    def rank_before(self) -> tuple[int, int]:
        """Numbers of causes and of recompiles without the setting."""
        return len(self.base.causes), self.before

    @property
    def rank(self) -> tuple[int, int]:
        """Numbers of causes and of recompiles with the setting."""
        return len(self.explanation.causes), self.after


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


def find_setting(
    explanation: Explanation,
    program: Program,
    explain: Callable[[CompileSetting], Explanation],
    verify: Callable[[CompileSetting], Check],
    is_late: Callable[[], bool],
) -> CheckedSetting | None:
    """Return the setting that leaves the fewest causes; None if no setting helps.

    Among equals it is the one that leaves the fewest recompiles, then the shortest. A setting whose
    check failed is returned only if no other setting helps. `explain` explains the program with a
    setting. `verify` compares a run with a setting to one in eager. Once `is_late` returns True, no
    further setting is tried.
    """
    found: list[CheckedSetting] = []
    for setting in _candidates(explanation, program):
        if is_late():
            break
        try:
            trial = explain(setting)
        except AttributeError:  # a setting that this torch does not have
            continue
        made = CheckedSetting(setting, explanation, trial, Check("setting", True))
        if trial.error or trial.crashes or made.after > made.before:
            continue
        if made.rank < min([made.rank_before, *(one.rank for one in found if one.check.ok)]):
            found.append(replace(made, check=verify(setting)))
            if found[-1].check.ok and found[-1].rank == (0, 0):
                break
    return min(found, key=lambda one: (not one.check.ok, one.rank), default=None)


def _candidates(explanation: Explanation, program: Program) -> Iterator[CompileSetting]:
    """Yield settings that may help against causes and failed guards, the shortest first."""
    kinds = {recompile.category for recompile in explanation.recompiles}
    marks = tuple(_differing_dimensions(program)) if RootKind.SIZE in kinds else ()
    tensors = tuple(_differing_numbers(program)) if RootKind.ARGUMENT in kinds else ()
    config = {_INT_ATTRIBUTES: True} if RootKind.ATTRIBUTE in kinds else {}
    if explanation.causes or kinds & _MADE_LATE:
        yield CompileSetting(warm_up=True)
    if marks:
        yield CompileSetting(marks=marks)
        yield CompileSetting(marks=marks, bounded=True)
    if tensors:
        yield CompileSetting(tensors=tensors)
    if marks and tensors:
        yield CompileSetting(marks=marks, tensors=tensors)
    dynamic = program.dynamic is None and any(r.guards for r in explanation.recompiles)
    if dynamic:
        yield CompileSetting(True)
    if config:
        yield CompileSetting(None, config)
        if marks:
            yield CompileSetting(None, config, marks)
        if dynamic:
            yield CompileSetting(True, config)


def _differing_dimensions(program: Program) -> Iterator[DynamicDimension]:
    """Yield the dimensions of tensor arguments whose sizes differ between the calls."""
    for name, values in _values_by_name(program).items():
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if len(tensors) != len(values) or len({tensor.dim() for tensor in tensors}) != 1:
            continue
        for dimension, sizes in enumerate(zip(*(t.shape for t in tensors), strict=True)):
            if min(sizes) != max(sizes):
                yield DynamicDimension(name, dimension, min(sizes), max(sizes))


def _differing_numbers(program: Program) -> Iterator[str]:
    """Yield the names of arguments that are numbers and differ between calls."""
    for name, values in _values_by_name(program).items():
        if all(type(value) in (int, float) for value in values) and len(set(values)) > 1:
            yield name


def _values_by_name(program: Program) -> dict[str, list[Any]]:
    """Return the values of each argument that all calls have, in the order of the calls."""
    calls = [arguments_of(program, call) for call in program.calls]
    return {name: [c[name] for c in calls] for name in calls[0] if all(name in c for c in calls)}
