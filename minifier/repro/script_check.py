"""What a script checks: the failure, the values that it shows, and the comment on them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from fullgraph.minifier.oracle.failure import Failure, Kind

_COMMENT = 84
"""Maximum number of characters of a comment line."""
_WIDE = 100
"""Maximum number of characters of an error in a title, a comment or a table."""
_TYPES = re.compile(r"(?:[\w.]+: )*[\w.]+")
"""Matches a text of exception types only: "TorchRuntimeError: RuntimeError"."""


@dataclass(frozen=True)
class ScriptCheck:
    """The failure that a script checks for, and the values that it shows."""

    kind: Kind
    expected: str = ""
    """Eager's value, as text."""
    got: str = ""
    """The compiled program's value, exception or signal, as text."""
    tol: float | None = None
    """Relative and absolute tolerance; None: that of the program."""
    aspect: str = "value"
    """The aspect that differs, as in `Mismatch`."""
    where: str = "output"
    """Name of the result that differs, as in `Mismatch`: "output[1]"."""
    backward: bool = False
    """Whether the script calls `backward`."""
    limit: float = 0.0
    """Seconds before a hang, or bytes of memory; 0: the default."""
    calls: int = 1
    """How often the program is called before results are compared."""
    signature: tuple[str, ...] = ()
    """For an exception: its type, its message without names and numbers, the function of torch."""
    element: str = ""
    """Index of the element that differs, as source: "[0, 2]"; "" if there is only one."""


def check_of(
    failure: Failure,
    *,
    tol: float | None = None,
    backward: bool = False,
    limit: float = 0.0,
    calls: int = 1,
) -> ScriptCheck:
    """Return the check for `failure`; the other arguments become attributes of the result.

    `tol` is the tolerance, `backward` whether the script calls `backward`, `limit` the seconds of a
    hang or the bytes of memory, `calls` the number of calls before results are compared.
    """
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
    """Return comment lines on what a script shows: ["# expected 1.0, got 2.0 at [0]"]."""
    if check.kind in (Kind.RESULT, Kind.METADATA, Kind.GRADIENT, Kind.MUTATION):
        at = f" at {check.element}" if check.element else ""
        told = f"expected {check.expected}, got {check.got}{at}"
    else:
        told = first_clauses(check.got)
    lines = textwrap.wrap(told, _COMMENT, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in lines]


def replace_comment(text: str, old: ScriptCheck, new: ScriptCheck) -> str:
    """Return a script whose comment shows the values of `new` instead of those of `old`."""
    before, after = describe_check(old), describe_check(new)
    lines = text.split("\n")
    for start, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        end = start + len(before)
        if before and lines[start:end] == [indent + one for one in before]:
            return "\n".join([*lines[:start], *(indent + one for one in after), *lines[end:]])
    return text


def first_clauses(text: str) -> str:
    """Return the first clauses of an error's first line: as many as fit into a title, all whole.

    If only the exception's type fits, words of its message and "…" follow it.
    """
    line = text.strip().partition("\n")[0].rstrip(".")
    if len(line) <= _WIDE:
        return line
    ends = [end.start() for end in re.finditer(r"(?:\. |: |; |, | \()", line)]
    fitting = [end for end in ends if end <= _WIDE]
    clauses = line[: fitting[-1]] if fitting else line.partition(" ")[0].rstrip(":")
    words = line[:_WIDE].rpartition(" ")[0].rstrip(" :,;")
    return f"{words} …" if _TYPES.fullmatch(clauses) and len(words) > len(clauses) else clauses
