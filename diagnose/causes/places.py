"""The expression in the user's code that a graph break belongs to."""

from __future__ import annotations

import ast

from fullgraph.compiler.events import Break, Position
from fullgraph.compiler.observe import context_managers_at
from fullgraph.compiler.sources import FunctionNode, Owner, is_user_code, owner_of, read_source


def place_of(brk: Break) -> Position:
    """Return the innermost position outside torch and the standard library.

    Without one, return torch's innermost position. Other installed libraries count as user code.
    """
    inside_torch = (p for p in reversed(brk.stack) if owner_of(p.file) is not Owner.PYTHON)
    return next(iter(calling_positions(brk)), None) or next(inside_torch, brk.stack[-1])


def calling_positions(brk: Break) -> tuple[Position, ...]:
    """Return the positions outside torch and the standard library, innermost first.

    For a frame of torch's that eager code called, return the calling expression, if it is known.
    """
    inlined = tuple(position for position in reversed(brk.stack) if is_user_code(position.file))
    found = inlined or (() if brk.called_from is None else (brk.called_from,))
    return tuple(exact_manager(position) for position in found)


def exact_manager(position: Position) -> Position:
    """Return the position of the context expression of a `with`, for a span that is its whole
    body."""
    managers = context_managers_at(position)
    return managers[0] if len(managers) == 1 else position


def expression_at(place: Position) -> str:
    """Return the source text of a place: its line if the column is unknown, "" if unreadable."""
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
    """Return whether the function at `place` handles exceptions that are raised there."""
    file = read_source(place.file)
    statement = None if file is None else file.statement_at(place.line)
    if file is None or statement is None:
        return False
    inside: list[ast.AST] = [statement]
    for node in file.ancestors(statement):
        if isinstance(node, FunctionNode):
            break
        if isinstance(node, ast.Try) and node.handlers and inside[-1] in node.body:
            return True
        inside.append(node)
    return False


def lines_around(place: Position, around: int = 3) -> tuple[tuple[int, str], ...]:
    """Return the numbered lines of a place, with `around` lines before and after it."""
    file = read_source(place.file)
    if file is None:
        return ()
    lines = file.text.splitlines()
    last = min(place.end_line or place.line, place.line + 8)
    numbers = range(max(1, place.line - around), min(len(lines), last + around) + 1)
    return tuple((n, lines[n - 1]) for n in numbers)
