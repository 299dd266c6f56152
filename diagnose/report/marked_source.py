"""Source lines around a cause, with the characters of its expression marked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fullgraph.diagnose.explanation_data import Cause
from fullgraph.diagnose.report.wording import printable

_TAB = 4


@dataclass(frozen=True)
class Line:
    """One source line as it is shown: tabs expanded, common indentation removed."""

    number: int
    text: str
    hit: bool
    """Whether this line holds a part of the expression."""
    start: int | None = None
    end: int | None = None
    """Range of the expression in `text`; None where columns are unknown."""

    @property
    def parts(self) -> tuple[str, str, str]:
        """Return the text before the expression, the expression, and the text after it."""
        if self.start is None or self.end is None:
            return self.text, "", ""
        return self.text[: self.start], self.text[self.start : self.end], self.text[self.end :]


def source_lines(cause: Cause, around: int = 1) -> tuple[Line, ...]:
    """Return the lines of `cause`, its expression marked, and `around` more lines on each side."""
    first, last = cause.position.lines[0], cause.position.lines[-1]
    near = ((n, text) for n, text in cause.source if first - around <= n <= last + around)
    shown = tuple(_mark_line(cause, number, text.rstrip("\r\n")) for number, text in near)
    indents = [len(x.text) - len(x.text.lstrip(" ")) for x in shown if x.text.strip(" ")]
    return tuple(_dedent_line(line, min(indents, default=0)) for line in shown)


def _mark_line(cause: Cause, number: int, raw: str) -> Line:
    """Return line `number`, whose text is `raw`, with the columns of the expression of `cause`."""
    position = cause.position
    hit = number in position.lines
    text, offsets = _expand_tabs(raw)
    if not hit or position.column is None:
        return Line(number, text, hit)
    start = len(raw) - len(raw.lstrip())
    if number == position.line:
        start = _count_characters(raw, position.column)
    end = len(raw.rstrip())
    if number == position.lines[-1]:
        end = _end_of_expression(cause, raw, start)
    if not 0 <= start < end <= len(raw):
        return Line(number, text, hit)
    return Line(number, text, hit, offsets[start], offsets[end])


def _end_of_expression(cause: Cause, raw: str, start: int) -> int:
    """Return the offset at which the expression of `cause` ends in `raw`, its last line.

    `start` is the offset in `raw` at which the expression, or its part in this line, begins.
    """
    if cause.position.end_column is not None:
        return _count_characters(raw, cause.position.end_column)
    expression = cause.expression.partition("\n")[0].rstrip()
    if expression and raw.startswith(expression, start):
        return start + len(expression)
    return start + 1


def _count_characters(raw: str, column: int) -> int:
    """Return the number of characters in the first `column` UTF-8 bytes of `raw`."""
    size = 0
    for index, character in enumerate(raw):
        if size >= column:
            return index
        size += len(character.encode("utf-8", "surrogatepass"))
    return len(raw)


def _expand_tabs(raw: str) -> tuple[str, list[int]]:
    """Return `raw` with tabs as spaces, and the new offset of each character and of the end.

    A tab, then "x", becomes four spaces, then "x", with the offsets [0, 4, 5].
    """
    text = ""
    offsets = []
    for character in raw:
        offsets.append(len(text))
        if character == "\t":
            text += " " * (_TAB - len(text) % _TAB)
        else:
            text += printable(character).replace("\n", "\\n")
    return text, [*offsets, len(text)]


def _dedent_line(line: Line, indent: int) -> Line:
    """Return `line` without its first `indent` columns; the marked columns move with the text."""
    if line.start is None or line.end is None:
        return replace(line, text=line.text[indent:])
    start, end = max(0, line.start - indent), line.end - indent
    if end <= start:  # the expression covers only indentation
        return replace(line, text=line.text[indent:], start=None, end=None)
    return replace(line, text=line.text[indent:], start=start, end=end)
