"""What functions and classes refer to: their closures, the globals they name, their members."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
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


def held_by(thing: FunctionType | type) -> Iterator[FunctionType | type]:
    """Yield the functions in the closure of a function, or the methods and bases of a class."""
    if isinstance(thing, FunctionType):
        yield from functions_inside([thing])
    elif not is_torchs(thing):
        yield from thing.__bases__
        for one in tuple(vars(thing).values()):
            if isinstance(function := function_of(one), FunctionType):
                yield function


def function_of(member: object) -> object:
    """Return the function behind a member of a class; the member itself if it is none."""
    match member:
        case staticmethod() | classmethod():
            return member.__func__
        case property():
            return member.fget
        case cached_property():
            return member.func
    return member


def named_by(thing: FunctionType | type) -> Iterator[FunctionType | type]:
    """Yield the functions and classes that a function looks up: `match`, `helper.match`.

    Also those in tables of them, and the classes of other objects.
    """
    if isinstance(thing, type) or is_torchs(thing):
        return
    names, waiting, seen = {*names_in(thing.__code__)}, [thing.__globals__], set[int]()
    while waiting:
        space = waiting.pop()
        if id(space) in seen:
            continue
        seen.add(id(space))
        for name in names & space.keys():
            match space[name]:
                case FunctionType() | type() as one:
                    yield one
                case ModuleType() as module:
                    waiting += [] if is_torchs(module) else [vars(module)]
                case table if type(table) in CONTAINERS:
                    items = table.values() if isinstance(table, dict) else table
                    yield from (one for one in items if isinstance(one, FunctionType | type))
                case other if not is_torchs(type(other)):
                    yield type(other)


def is_torchs(thing: FunctionType | type | ModuleType) -> bool:
    """Return whether something is part of torch, or built in."""
    if isinstance(thing, FunctionType):
        home = str(thing.__globals__.get("__name__"))
    else:
        home = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    return home.partition(".")[0] in ("torch", "builtins")
