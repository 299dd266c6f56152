"""Parser of guard failure messages.

The message of a guard on a value or a size holds the line that installed it, and the whole stack
since 2.13:

    0/1: k == 0.0    # return x * k  # model.py:26 in forward
    User stack trace:
      File "/home/me/model.py", line 26, in forward

A guard on an object has a sentence:

    0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fullgraph.compiler.events import Position

_ID = re.compile(r"\A!?[\w\[\]]*/\d+: ")
_STACK_LINE = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)')
_COMMENT = re.compile(r"\s+# ")
_SOURCE = re.compile(r"'([^']+)'|\b([A-Za-z_]\w*)\b")


@dataclass(frozen=True)
class GuardText:
    """Fields of the message that a guard failed: condition, user line, guarded sources."""

    text: str
    """Condition or sentence, without the compile id and the source comment."""
    position: Position | None
    """User line that installed the guard; None if the message has none."""
    sources: frozenset[str]
    """Dynamo's names for the sources of the guarded values: "L['x']"."""


def parse_guard(reason: str) -> GuardText:
    """Parse `reason`, the message of one guard that failed before a recompile."""
    reason = _ID.sub("", reason)
    stack = _STACK_LINE.findall(reason)
    position = Position(stack[-1][0], int(stack[-1][1]), function=stack[-1][2]) if stack else None
    text = _COMMENT.split(reason.partition("\nUser stack trace:")[0])[0].strip()
    names = {quoted or bare for quoted, bare in _SOURCE.findall(text)}
    return GuardText(text, position, frozenset({f"L['{n}']" for n in names} | names))
