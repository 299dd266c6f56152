"""Search for settings of the caller with which a program breaks or recompiles less."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from fullgraph.compiler.isolation import TimeUp
from fullgraph.compiler.program import Program
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.taxonomy import RootKind
from fullgraph.rewrites.fix.causes import count_recompiles
from fullgraph.rewrites.fix.edited_program import EditedProgram
from fullgraph.rewrites.fix.runs import ProgramRuns
from fullgraph.rewrites.fix.search import SearchState
from fullgraph.rewrites.fix.settings import CompileSetting, DynamicDimension, arguments_of
from fullgraph.rewrites.proof import Check

_INT_ATTRIBUTES = "torch._dynamo.config.allow_unspec_int_on_nn_module"
_MADE_LATE = {RootKind.NONE, RootKind.OBJECT, RootKind.FLAG, RootKind.KEYS, RootKind.LENGTH}
"""Kinds of values that may change in the first call and then stay the same."""


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


def find_setting(base: SearchState, runs: ProgramRuns) -> CheckedSetting | None:
    """Return the setting that leaves the fewest causes in `base`; None if no setting helps.

    Among equals it is the one that leaves the fewest recompiles, then the shortest. A setting whose
    check failed is returned only if no other setting helps. Settings for which there was no time
    are left out.
    """
    found: list[CheckedSetting] = []
    explanation, texts = base.program.explanation, base.program.texts
    with suppress(TimeUp):
        for setting in _candidates(base.program, runs):
            try:
                trial = runs.explain_with_setting(setting, texts)
            except AttributeError:  # a setting that this torch does not have
                continue
            made = CheckedSetting(setting, explanation, trial, Check("setting", True))
            if trial.error or trial.crashes or made.after > made.before:
                continue
            if made.rank < min([made.rank_before, *(one.rank for one in found if one.check.ok)]):
                check = runs.verify_setting(setting, texts, base.accepted)
                found.append(replace(made, check=check))
                if check.ok and made.rank == (0, 0):
                    break
    return min(found, key=lambda one: (not one.check.ok, one.rank), default=None)


def _candidates(edited: EditedProgram, runs: ProgramRuns) -> Iterator[CompileSetting]:
    """Yield settings that may help against causes and failed guards, the shortest first.

    A first call in eager can help where that call does more than a second one.
    """
    explanation, program = edited.explanation, runs.program
    kinds = {recompile.category for recompile in explanation.recompiles}
    marks = tuple(_differing_dimensions(program)) if RootKind.SIZE in kinds else ()
    tensors = tuple(_differing_numbers(program)) if RootKind.ARGUMENT in kinds else ()
    config = {_INT_ATTRIBUTES: True} if RootKind.ATTRIBUTE in kinds else {}
    if kinds & _MADE_LATE or (explanation.causes and runs.changes_when_repeated(edited.texts)):
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
