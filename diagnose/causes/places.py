"""The expression in the user's code that a graph break belongs to."""

from __future__ import annotations

from itertools import takewhile

from fullgraph.compiler.events import Break, Position
from fullgraph.compiler.observe import context_managers_at
from fullgraph.compiler.sources import FunctionNode, Owner, is_user_code, owner_of, read_source
from fullgraph.diagnose.taxonomy.usage import handles


def place_of(brk: Break) -> Position:
    """Return the position of a break: the innermost one outside torch and the standard library.

    If the stack is in torch alone, return torch's innermost position. Other installed libraries
    count as user code.
    """
    inside_torch = (p for p in reversed(brk.stack) if owner_of(p.file) is not Owner.PYTHON)
    return next(iter(calling_positions(brk)), None) or next(inside_torch, brk.stack[-1])


def calling_positions(brk: Break) -> tuple[Position, ...]:
    """Return the positions of a break's stack outside torch and Python, innermost first.

    If there are none, because eager code called a torch function that Dynamo compiled as a frame
    of its own, return the position of that call; () if it is unknown.
    """
    inlined = tuple(position for position in reversed(brk.stack) if is_user_code(position.file))
    found = inlined or (() if brk.called_from is None else (brk.called_from,))
    return tuple(exact_manager(position) for position in found)


def exact_manager(position: Position) -> Position:
    """Narrow the position of the statement `with f():` to its context manager, `f()`.

    Any other position, and a `with` of several context managers, is returned unchanged.
    """
    managers = context_managers_at(position)
    return managers[0] if len(managers) == 1 else position


def expression_at(place: Position) -> str:
    """Return the source code at a place; "" if its file is unreadable.

    If the columns of the place are unknown, return its whole line.
    """
    file = read_source(place.file)
    if file is None:
        return ""
    node = file.node(place)
    if node is not None:
        return file.segment(node)
    line = file.text.splitlines()[place.line - 1 : place.line]
    if not line:
        return ""
    if place.column is None or place.end_column is None or place.end_line != place.line:
        return line[0].strip()
    return line[0].encode()[place.column : place.end_column].decode(errors="replace")


def statement_of(brk: Break) -> str:
    """Return the statement of user code that holds a break; "" if its source is unreadable."""
    place = place_of(brk)
    if (file := read_source(place.file)) is None:
        return ""
    statement = file.statement_at(place.line)
    return "" if statement is None else file.segment(statement)


def is_handled(place: Position) -> bool:
    """Return whether a `try` in the same function catches exceptions raised at `place`."""
    file = read_source(place.file)
    statement = None if file is None else file.statement_at(place.line)
    if file is None or statement is None:
        return False
    above = takewhile(lambda one: not isinstance(one, FunctionNode), file.ancestors(statement))
    return handles([statement, *above], statement)


def lines_around(place: Position, around: int = 3) -> tuple[tuple[int, str], ...]:
    """Return the (line number, text) pairs of a place and `around` lines on each side.

    Of a long statement, only the first nine lines count; () if the source is unreadable.
    """
    file = read_source(place.file)
    if file is None:
        return ()
    lines = file.text.splitlines()
    last = min(place.lines[-1], place.line + 8)
    numbers = range(max(1, place.line - around), min(len(lines), last + around) + 1)
    return tuple((n, lines[n - 1]) for n in numbers)
