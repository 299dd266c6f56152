"""What functions and classes refer to: their closures, the globals they name, their members."""

from __future__ import annotations

import dis
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import CellType, CodeType, FunctionType, ModuleType

import torch

CONTAINERS = (dict, list, tuple, OrderedDict)
"""Types of tables that are searched; their subclasses may load what they have on demand."""


def functions_inside(values: Sequence[object]) -> Iterator[FunctionType]:
    """Yield the functions in `values`, in their closures, and in attributes of custom operators."""
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType):
            yield value
            waiting += [
                cell.cell_contents for cell in value.__closure__ or () if cell != CellType()
            ]
        elif isinstance(value, torch.library.CustomOpDef):
            waiting += vars(value).values()


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that `code` and the functions nested in it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def functions_of(member: object) -> list[FunctionType]:
    """Return the functions behind a member of a class: a method, or those of a property."""
    match member:
        case staticmethod() | classmethod():
            found: Sequence[object] = [member.__func__]
        case property():
            found = [member.fget, member.fset, member.fdel]
        case cached_property() | partial():
            found = [member.func]
        case _:
            found = [member]
    return [one for one in found if isinstance(one, FunctionType)]


def held_by(thing: FunctionType | type) -> Iterator[FunctionType | type]:
    """Yield the functions that a function holds (closure, defaults), or a class, and its bases."""
    if isinstance(thing, FunctionType):
        yield from functions_inside([thing])
        for one in (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()):
            yield from functions_of(one)
    elif not is_torchs(thing):
        yield from thing.__bases__
        for one in tuple(vars(thing).values()):
            yield from functions_of(one)


def named_by(function: FunctionType) -> Iterator[FunctionType | type]:
    """Yield the functions and classes that a function looks up: `match`, `helper.match`.

    Also those in tables, and the classes of other objects.
    """
    if is_torchs(function):
        return
    names, waiting, seen = {*names_in(function.__code__)}, [function.__globals__], set[int]()
    while waiting:
        space = waiting.pop()
        if id(space) in seen:
            continue
        seen.add(id(space))
        for name in names & space.keys():
            match space[name]:
                case type() as one:
                    yield one
                case ModuleType() as module:
                    waiting += [] if is_torchs(module) else [vars(module)]
                case table if type(table) in CONTAINERS:
                    items = table.values() if isinstance(table, dict) else table
                    yield from (one for item in items for one in functions_of(item))
                case other:
                    yield from (functions := functions_of(other))
                    yield from () if functions else [type(other)]


def assigned_globals(code: CodeType) -> Iterator[str]:
    """Yield the names of globals that `code` and the functions nested in it assign or delete."""
    for one in dis.get_instructions(code):
        if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            yield str(one.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from assigned_globals(constant)


def is_torchs(thing: FunctionType | type | ModuleType) -> bool:
    """Return whether something is part of torch, or built in."""
    if isinstance(thing, FunctionType):
        home = str(thing.__globals__.get("__name__"))
    else:
        home = str(thing.__name__ if isinstance(thing, ModuleType) else thing.__module__)
    return home.partition(".")[0] in ("torch", "builtins")


def independent_of(edited: Set[int]) -> Set[int]:
    """Return the globals of imported modules that have nothing of some others, by their ids.

    `edited` are the globals of these others. What a module has of another, it has imported.
    """
    modules = {name: one for name, one in sys.modules.items() if isinstance(one, ModuleType)}
    users: dict[int, set[int]] = {}
    for module in modules.values():
        own = id(vars(module))
        for value in () if is_torchs(module) else tuple(vars(module).values()):
            match value:
                case FunctionType():
                    homes = {id(one.__globals__) for one in functions_inside([value])}
                case ModuleType():
                    homes = {id(vars(value))}
                case _:
                    kind = value if isinstance(value, type) else type(value)
                    home = modules.get(str(kind.__module__))
                    homes = {id(vars(home))} if home is not None else set()
            for one in homes - {own}:
                users.setdefault(one, set()).add(own)
    found, waiting = set[int](), [*edited]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += users.get(one, ())
    return {id(vars(module)) for module in modules.values()} - found


@dataclass
class Reach:
    """Which functions and classes use a function that changed."""

    edited: Set[int]
    """The globals of edited files, by their ids."""
    changed: Set[int]
    """Functions with new code or decorators, by their ids."""
    known: dict[int, bool] = field(default_factory=dict)
    """Whether a function or class uses a changed one, by its id."""
    assigned: dict[int, set[str]] = field(default_factory=dict)
    """The globals that functions of other files assign, by the ids of these files' globals."""
    independent: Set[int] = field(init=False)
    """The globals of modules that have nothing of an edited file, by their ids."""

    def __post_init__(self) -> None:
        self.independent = independent_of(self.edited)

    def edited_in(self, function: FunctionType) -> FunctionType | None:
        """Return the first function of an edited file in `function`, which may be its decorator's.

        The wrapper that `torch.no_grad()` makes is a function of torch and holds the user's.
        """
        inside = functions_inside([function])
        return next((one for one in inside if id(one.__globals__) in self.edited), None)

    def is_edited_class(self, kind: type) -> bool:
        """Whether a class, or one of its bases, has a function of an edited file."""
        if is_torchs(kind):  # whatever a program hung there: all share it
            return False
        own = (one for member in tuple(vars(kind).values()) for one in functions_of(member))
        return any(self.edited_in(one) is not None for one in own) or any(
            map(self.is_edited_class, kind.__bases__)
        )

    def is_changed_class(self, kind: type) -> bool:
        """Whether a class of an edited file uses a changed function."""
        return self.is_edited_class(kind) and self.reaches(kind)

    def reaches(self, thing: FunctionType | type) -> bool:
        """Whether a function or class uses a changed function."""
        if id(thing) not in self.known:
            self._explore(thing)
        return self.known[id(thing)]

    def reaches_by_name(self, function: FunctionType) -> bool:
        """Whether a global that a function looks up is, or uses, a changed function."""
        return any(self.reaches(one) for one in self._named(function))

    def _named(self, function: FunctionType) -> Iterator[FunctionType | type]:
        for one in named_by(function):
            if isinstance(one, FunctionType) or self.is_edited_class(one):
                yield one

    def _explore(self, thing: FunctionType | type) -> None:
        """Find out about `thing` and all that it uses."""
        users: dict[int, list[FunctionType | type]] = {}
        seen: dict[int, FunctionType | type] = {}
        waiting = [thing]
        while waiting:
            one = waiting.pop()
            if id(one) in seen or id(one) in self.known:
                continue
            seen[id(one)] = one
            used = [*held_by(one)]
            if isinstance(one, FunctionType) and id(one.__globals__) not in self.independent:
                used += self._named(one)
            for other in used:
                users.setdefault(id(other), []).append(one)
            waiting += used
        reached = set[int]()
        ends = [key for key in (*seen, *users) if key in self.changed or self.known.get(key)]
        while ends:
            key = ends.pop()
            if key not in reached:
                reached.add(key)
                ends += [id(one) for one in users.get(key, ()) if not self._shares_state(one)]
        self.known.update({key: key in reached for key in seen})

    def _shares_state(self, thing: FunctionType | type) -> bool:
        """Whether a function of another file reads a global that functions of its file assign.

        A copy would not see the assignment.
        """
        if isinstance(thing, type) or is_torchs(thing) or id(thing.__globals__) in self.edited:
            return False
        space = thing.__globals__
        if id(space) not in self.assigned:
            members = [*space.values()]
            kinds = [one for one in members if isinstance(one, type)]
            members += [one for kind in kinds for one in vars(kind).values()]
            functions = [one for member in members for one in functions_of(member)]
            codes = [one.__code__ for one in functions if one.__globals__ is space]
            self.assigned[id(space)] = {n for code in codes for n in assigned_globals(code)}
        return bool(self.assigned[id(space)] & {*names_in(thing.__code__)})
