"""Lines of source, and which characters of them are the expression."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fullgraph.diagnose.explanation_data import Cause
from fullgraph.diagnose.report.wording import printable

_TAB = 4


@dataclass(frozen=True)
class Line:
    """One line as it is shown: tabs expanded, common indentation taken away."""

    number: int
    text: str
    hit: bool
    """Whether the expression lies on this line, be it only in part."""
    start: int | None = None
    end: int | None = None
    """The characters of `text` that are the expression; None where columns are unknown."""

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text before the expression, of it, and after it."""
        if self.start is None or self.end is None:
            return self.text, "", ""
        return self.text[: self.start], self.text[self.start : self.end], self.text[self.end :]


def lines(cause: Cause) -> tuple[Line, ...]:
    """The lines around `cause` with its expression marked, ready to be drawn."""
    shown = tuple(_line(cause, number, text.rstrip("\r\n")) for number, text in cause.source)
    indents = [len(x.text) - len(x.text.lstrip(" ")) for x in shown if x.text.strip(" ")]
    return tuple(_dedented(line, min(indents, default=0)) for line in shown)


def _line(cause: Cause, number: int, raw: str) -> Line:
    position = cause.position
    last = max(position.line, position.end_line or position.line)
    hit = position.line <= number <= last
    text, offsets = _expanded(raw)
    if not hit or position.column is None:
        return Line(number, text, hit)
    start = len(raw) - len(raw.lstrip())
    if number == position.line:
        start = _characters(raw, position.column)
    end = len(raw.rstrip())
    if number == last:
        end = _end(cause, raw, start)
    if not 0 <= start < end <= len(raw):
        return Line(number, text, hit)
    return Line(number, text, hit, offsets[start], offsets[end])


def _end(cause: Cause, raw: str, start: int) -> int:
    """Where the expression ends on its last line, in characters of `raw`."""
    if cause.position.end_column is not None:
        return _characters(raw, cause.position.end_column)
    expression = cause.expression.partition("\n")[0].rstrip()
    if expression and raw.startswith(expression, start):
        return start + len(expression)
    return start + 1


def _characters(raw: str, column: int) -> int:
    """The number of characters in the first `column` UTF-8 bytes of `raw`."""
    size = 0
    for index, character in enumerate(raw):
        if size >= column:
            return index
        size += len(character.encode("utf-8", "surrogatepass"))
    return len(raw)


def _expanded(raw: str) -> tuple[str, list[int]]:
    """`raw` as it is shown, and for each of its characters (and its end) where that is."""
    text = ""
    offsets = []
    for character in raw:
        offsets.append(len(text))
        if character == "\t":
            text += " " * (_TAB - len(text) % _TAB)
        else:
            text += printable(character).replace("\n", "\\n")
    return text, [*offsets, len(text)]


def _dedented(line: Line, indent: int) -> Line:
    if line.start is None or line.end is None:
        return replace(line, text=line.text[indent:])
    start, end = max(0, line.start - indent), line.end - indent
    if end <= start:  # nothing of it but indentation
        return replace(line, text=line.text[indent:], start=None, end=None)
    return replace(line, text=line.text[indent:], start=start, end=end)
