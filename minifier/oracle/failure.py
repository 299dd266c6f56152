"""Failures, and whether two programs fail in the same way."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

import torch

from fullgraph.compiler.numerics import NOTHING, Mismatch
from fullgraph.minifier.oracle.signatures import (
    find_fake_tensor_error,
    normalize_message,
    strip_qualifiers,
)

TORCH = Path(torch.__file__).parent
SLOW_FACTOR = 1.5
"""Ratio of the compiled program's time to eager's above which the program counts as slow."""
SLOW_OVERHEAD = 0.0005
"""Seconds of guards and of calling the graph, which do not count as slow."""


STORM = 4
"""Calls before the one that may not compile again, if a program compiles at every call."""


class Kind(StrEnum):
    """Kind of a failure."""

    EXCEPTION = "exception"
    RESULT = "result"
    METADATA = "metadata"
    GRADIENT = "gradient"
    MUTATION = "mutation"
    CRASH = "crash"
    HANG = "hang"
    MEMORY = "memory"
    BREAK = "break"
    RECOMPILE = "recompile"
    SLOW = "slow"


NOT_BESIDE = (Kind.SLOW, Kind.MEMORY)
"""Kinds of failure that depend on which other candidates run at the same time."""


@dataclass(frozen=True)
class Failure:
    """A failure on one rung: its kind, signature and message."""

    rung: str
    """The rung on which it happened."""
    kind: Kind
    signature: tuple[str, ...]
    """The part that stays the same when the program gets smaller."""
    message: str
    """Text for the user: the exception's message, "expected …, got …", or the signal."""
    details: str = ""
    """The traceback or the output of the process; "" if there is none."""
    difference: Mismatch | None = None
    """The first difference from eager's results; None for other kinds of failure."""

    def same(self, other: Failure | None) -> bool:
        """Return whether `other` is the same failure, possibly of another program."""
        if other is None:
            return False
        mine = (self.rung, self.kind, self.signature)
        return mine == (other.rung, other.kind, other.signature)

    def __str__(self) -> str:
        return f"{self.kind} at {self.rung}: {self.message.strip().partition(chr(10))[0]}"


def failure_of_exception(rung: str, exception: BaseException) -> Failure:
    """Return the failure for an exception that the program raises on `rung`.

    Its signature consists of the exception's type, its message without names and numbers, and the
    function of torch that raised it.
    """
    inner = unwrap_exception(exception)
    message = _message_of(inner)
    signature = (
        type(inner).__name__,
        normalize_message(message),
        raising_function(inner.__traceback__),
    )
    details = "".join(traceback.format_exception(inner))
    return Failure(rung, Kind.EXCEPTION, signature, f"{type(inner).__name__}: {message}", details)


def failure_of_difference(rung: str, found: Mismatch) -> Failure:
    """Return the failure for a result that differs from eager's.

    Its signature is the aspect that differs, such as "stride". For a dtype, layout, type or
    `requires_grad`, it also has both values. For the keys of a container that the program changes,
    it also says whether a key is missing or left over.
    """
    pair: tuple[str, ...] = ()
    if found.aspect in ("dtype", "layout", "requires_grad", "type"):
        pair = (strip_qualifiers(found.expected), strip_qualifiers(found.got))
    elif found.aspect == "keys" and found.kind == "mutation":
        pair = ("lost" if found.got == NOTHING else "left",)
    signature = (found.aspect, *pair)
    return Failure(rung, Kind(found.kind), signature, str(found), difference=found)


def unwrap_exception(exception: BaseException) -> BaseException:
    """Return the exception inside those in which Dynamo and backends have wrapped it."""
    while True:
        inner = getattr(exception, "inner_exception", None)
        if not isinstance(inner, BaseException) or inner is exception:
            return exception
        exception = inner


def raising_function(trace: TracebackType | None) -> str:
    """Return the innermost function of torch in a traceback: "torch._inductor.ir.realize".

    "" if there is none.
    """
    names = [name for name in map(_torch_name, _frames(trace)) if name]
    return names[-1] if names else ""


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the frames of a traceback, outermost first."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _torch_name(frame: TracebackType) -> str:
    """Return the dotted name of a frame's function in torch; "" for other frames."""
    code = frame.tb_frame.f_code
    try:
        path = Path(code.co_filename).relative_to(TORCH.parent)
    except ValueError:
        return ""
    return f"{'.'.join(path.with_suffix('').parts)}.{code.co_name}"


def _message_of(exception: BaseException) -> str:
    """Return an exception's message without the hints that torch appends to every message."""
    try:
        text = str(exception)
    except Exception as failure:
        return f"(its message raised {type(failure).__name__})"
    error = re.search(r"^.*?\berror: .*$", text, re.MULTILINE)
    if "CppCompile" in type(exception).__name__ and error:
        return re.sub(r"^\S+:\d+:\d+: ", "", error.group())
    if inner := find_fake_tensor_error(text):
        return inner
    for end in ("\nfrom user code", "\nSet TORCH", "\n\nWhile executing", "\nOriginal traceback"):
        text = text.partition(end)[0]
    return text.strip()
