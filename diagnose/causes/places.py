"""Which expression of the user's code a break belongs to."""

from __future__ import annotations

from fullgraph.compiler.events import Break, Position
from fullgraph.compiler.observe.slots import entered
from fullgraph.compiler.sources import Owner, is_user_code, owner_of


def place_of(brk: Break) -> Position:
    """The innermost position outside torch and the standard library, else the innermost of torch's.

    Other installed libraries count as the user's code: their lines are what breaks.
    """
    torchs = (p for p in reversed(brk.stack) if owner_of(p.file) is not Owner.PYTHON)
    return next(iter(callers(brk)), None) or next(torchs, brk.stack[-1])


def callers(brk: Break) -> tuple[Position, ...]:
    """The positions outside torch and the standard library, innermost first; may be empty.

    A frame of torch's that eager code called has the calling expression.
    """
    inlined = tuple(position for position in reversed(brk.stack) if is_user_code(position.file))
    found = inlined or (() if brk.called_from is None else (brk.called_from,))
    return tuple(exact(position) for position in found)


def exact(position: Position) -> Position:
    """`position`; for a `with` of one manager, whose instructions span all that is in it, that."""
    managers = entered(position)
    return managers[0] if len(managers) == 1 else position


Key = tuple[str, int, int | None, int | None]


def key(position: Position) -> Key:
    """What makes two positions the same expression: in `a.b().c()` two calls share their start."""
    return position.file, position.line, position.column, position.end_column
