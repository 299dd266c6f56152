"""What a script checks: the failure, its values, and the comment that shows them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from fullgraph.minifier.oracle.failure import Failure, Kind

_COMMENT = 84
"""Characters of a line of comment."""
_WIDE = 100
"""Characters of an error in a title, a comment or a table."""
_TYPES = re.compile(r"(?:[\w.]+: )*[\w.]+")
"""Types of exceptions alone: "TorchRuntimeError: RuntimeError"."""


@dataclass(frozen=True)
class ScriptCheck:
    """The failure that a script checks for, and how it reports it."""

    kind: Kind
    expected: str = ""
    """What eager returns, as text."""
    got: str = ""
    """What the compiled program returns, as text: also an exception or a signal."""
    tol: float | None = None
    """Relative and absolute tolerance; None: the program's."""
    aspect: str = "value"
    """What differs, as `Mismatch` names it."""
    where: str = "output"
    """Where, as `Mismatch` names it."""
    backward: bool = False
    """Whether a backward runs."""
    limit: float = 0.0
    """Seconds of a hang, bytes of memory; 0: the default."""
    calls: int = 1
    """How often the program is called before the check."""
    signature: tuple[str, ...] = ()
    """An exception's type, message without names and numbers, and function of torch."""
    element: str = ""
    """Index of the element that is shown, as source: "[0, 2]"; "" if there is only one."""


def check_of(
    failure: Failure,
    *,
    tol: float | None = None,
    backward: bool = False,
    limit: float = 0.0,
    calls: int = 1,
) -> ScriptCheck:
    """Return the check that shows `failure` in a script."""
    found = failure.difference
    if found is None:
        return ScriptCheck(
            failure.kind,
            got=failure.message.strip().partition("\n")[0],
            backward=backward,
            limit=limit,
            calls=calls,
            signature=failure.signature,
        )
    return ScriptCheck(
        failure.kind,
        found.expected,
        found.got,
        tol,
        found.aspect,
        found.where,
        backward or failure.kind is Kind.GRADIENT,
        limit,
        calls,
        element=found.element,
    )


def describe_check(check: ScriptCheck) -> list[str]:
    """Return the values or the error that a script shows, as lines of comment."""
    if check.kind in (Kind.RESULT, Kind.METADATA, Kind.GRADIENT, Kind.MUTATION):
        at = f" at {check.element}" if check.element else ""
        told = f"expected {check.expected}, got {check.got}{at}"
    else:
        told = first_clauses(check.got)
    lines = textwrap.wrap(told, _COMMENT, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in lines]


def replace_comment(text: str, old: ScriptCheck, new: ScriptCheck) -> str:
    """Return a script whose comment tells the values of `new` instead of those of `old`."""
    before, after = describe_check(old), describe_check(new)
    lines = text.split("\n")
    for start, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        end = start + len(before)
        if before and lines[start:end] == [indent + one for one in before]:
            return "\n".join([*lines[:start], *(indent + one for one in after), *lines[end:]])
    return text


def first_clauses(text: str) -> str:
    """Return the first line of an error, up to the last whole clause that fits into a title.

    Where only the exception's type fits, the words after it that fit follow, and "…"."""
    line = text.strip().partition("\n")[0].rstrip(".")
    if len(line) <= _WIDE:
        return line
    ends = [end.start() for end in re.finditer(r"(?:\. |: |; |, | \()", line)]
    fitting = [end for end in ends if end <= _WIDE]
    clauses = line[: fitting[-1]] if fitting else line.partition(" ")[0].rstrip(":")
    words = line[:_WIDE].rpartition(" ")[0].rstrip(" :,;")
    return f"{words} …" if _TYPES.fullmatch(clauses) and len(words) > len(clauses) else clauses
