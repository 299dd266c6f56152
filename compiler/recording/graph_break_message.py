"""Parser of graph break messages.

`torch._dynamo.exc.format_graph_break_message` has used this format since 2.8:

    gb_type
      Explanation: …
      Hint: …

      Developer debug context: …

     For more details about this graph break, please visit: …/gb0170.html

A break raised while another one is handled follows it after a separator line: the first part is
the root cause, the rest are wrappers ("Graph break in loop").
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

_ANOTHER = "*** While handling this graph break, another graph break occurred: ***"
_PART = re.compile(
    r"\A\s*(?P<type>.*?)(?:\n  Higher Order Operator: [^\n]*)?"
    r"\n  Explanation: (?P<explanation>.*?)(?P<hints>(?:\n  Hint: .*?)*)"
    r"\n\n?  Developer debug context: (?P<context>.*?)"
    r"(?:\n\n For more details about this graph break, please visit: (?P<link>\S+).*)?\s*\Z",
    re.DOTALL,
)
_ID = re.compile(r"gb(\d{4})", re.IGNORECASE)


@dataclass(frozen=True)
class GraphBreakText:
    """Fields of Dynamo's message for a graph break: `gb_type`, explanation, hints, …"""

    gb_type: str
    gb_id: str | None = None
    explanation: str = ""
    context: str = ""
    hints: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    """`gb_type`s of the wrapping breaks, outermost first."""


def parse_graph_break(message: str) -> GraphBreakText:
    """Parse a graph break message. For other text, `gb_type` is its first line."""
    root, *wrapped = message.split(_ANOTHER)
    wrappers = tuple(_parse_one(part).gb_type for part in reversed(wrapped))
    text = _parse_one(root)
    return GraphBreakText(
        text.gb_type, text.gb_id, text.explanation, text.context, text.hints, wrappers
    )


def _parse_one(text: str) -> GraphBreakText:
    """Parse the message of one graph break."""
    found = _PART.match(text)
    if found is None:
        return GraphBreakText(text.strip().partition("\n")[0])
    link = _ID.search(found["link"] or "")
    return GraphBreakText(
        found["type"].strip().rpartition("\n")[2],
        f"GB{link[1]}" if link else None,
        _dedent(found["explanation"]),
        _dedent(found["context"]),
        tuple(_dedent(hint) for hint in found["hints"].split("\n  Hint: ")[1:]),
    )


def _dedent(text: str) -> str:
    """Return `text` stripped, without the common indent of all lines but the first."""
    first, newline, rest = text.partition("\n")
    return (first + newline + textwrap.dedent(rest)).strip()
