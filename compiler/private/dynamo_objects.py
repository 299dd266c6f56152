"""Protocols of Dynamo's live objects: the attributes that this project reads."""

from __future__ import annotations

import dis
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Protocol


class Frame(Protocol):
    """A Python frame, or Dynamo's own frame object."""

    @property
    def f_code(self) -> CodeType: ...


class Instruction(Protocol):
    """Bytecode instruction of `torch._dynamo.bytecode_transformation`."""

    @property
    def opname(self) -> str: ...
    @property
    def target(self) -> Instruction | None: ...
    @property
    def positions(self) -> dis.Positions | None: ...


class Tracer(Protocol):
    """Dynamo's symbolic interpreter of one frame: an `InstructionTranslatorBase`."""

    lineno: int
    instruction_pointer: int | None

    @property
    def f_code(self) -> CodeType: ...
    @property
    def f_locals(self) -> Mapping[str, object]: ...
    @property
    def symbolic_locals(self) -> Mapping[str, object]:
        """The `VariableTracker`s of the local variables."""

    @property
    def current_instruction(self) -> Instruction: ...
    @property
    def instructions(self) -> Sequence[Instruction]: ...
    @property
    def parent(self) -> Tracer | None:
        """The tracer of the caller if this call is inlined; None for the compiled frame."""

    def maybe_has_backedge(self) -> bool: ...


class OutputGraph(Protocol):
    """The graph that Dynamo is building, with its guards."""

    @property
    def root_tx(self) -> Tracer: ...
