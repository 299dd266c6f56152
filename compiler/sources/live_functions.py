"""Finding functions that live now by the file they come from."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any
from weakref import ref

_aside: dict[str, list[ref[FunctionType]]] | None = None
"""By file, the functions among the objects that are set aside; None while none are."""


def freeze_objects() -> None:
    """Take the parent's objects, garbage too, out of a forked child's garbage collection.

    Their finalizers are the parent's to run, and a look at them copies the memory they are in.
    """
    global _aside
    _aside = _references(find_live_functions(_aside or ()))
    gc.freeze()


@contextmanager
def index_live_functions() -> Iterator[None]:
    """Search for the functions of a file once, not at each `live` in here and in forked children.

    What lives now is set aside meanwhile, so that only what is younger is looked at again. Where
    the user froze objects, which could not be told from ours, each search is a whole one.
    """
    global _aside
    if _aside is not None or gc.get_freeze_count():
        yield
        return
    gc.freeze()
    _aside = {}
    try:
        yield
    finally:
        _aside = None
        gc.unfreeze()


def find_live_functions(files: Iterable[str]) -> dict[str, list[FunctionType]]:
    """Every function that lives now and whose code comes from one of the files."""
    asked = tuple(dict.fromkeys(files))
    if not asked:
        return {}
    if _aside is None:
        return _searched_among_all(asked)
    things = gc.get_objects()
    new = set(asked) - _aside.keys()
    if new and _all_young(new, things):
        _aside.update({file: [] for file in new})
    elif new:  # what is young now is set aside, too
        _aside.update(_references(_searched_among_all(_aside.keys() | new)))
        things = gc.get_objects()
    young = _of(asked, things)
    old = {file: [f for one in _aside[file] if (f := one()) is not None] for file in asked}
    return {file: list(dict.fromkeys(old[file] + young[file])) for file in asked}


def _references(found: dict[str, list[FunctionType]]) -> dict[str, list[ref[FunctionType]]]:
    return {file: [ref(function) for function in functions] for file, functions in found.items()}


def _searched_among_all(files: Collection[str]) -> dict[str, list[FunctionType]]:
    """The same also among frozen objects, which are not listed; if there are any, everything is
    frozen then."""
    if _aside is None and not gc.get_freeze_count():  # which walks through all of them
        return _searched(files)
    gc.unfreeze()
    try:
        return _searched(files)
    finally:
        gc.freeze()


def _searched(files: Collection[str]) -> dict[str, list[FunctionType]]:
    """What the garbage collector lists of them.

    A function refers to the globals of its module: asking who does leaves the other objects
    untouched, which a forked child would else have to copy. A file without a module (a cell of a
    notebook, executed text) is searched for among all objects.
    """
    namespaces = _namespaces(files)
    if len({names["__file__"] for names in namespaces}) < len(files):
        return _of(files, gc.get_objects())
    return _of(files, gc.get_referrers(*namespaces))


def _all_young(files: Collection[str], things: Iterable[object]) -> bool:
    """Whether each file is of a module that is among `things`: then so are its functions."""
    namespaces = _namespaces(files)
    young = {id(thing) for thing in things if type(thing) is dict}
    return {names["__file__"] for names in namespaces} == set(files) and all(
        id(names) in young for names in namespaces
    )


def _namespaces(files: Collection[str]) -> list[dict[str, Any]]:
    """The globals of each module of the files; one run as a script may be imported, too."""
    modules = [vars(m) for m in tuple(sys.modules.values()) if isinstance(m, ModuleType)]
    return [names for names in modules if names.get("__file__") in files]


def _of(files: Collection[str], things: Iterable[object]) -> dict[str, list[FunctionType]]:
    """Those of the things that are functions of the files."""
    found: dict[str, list[FunctionType]] = {file: [] for file in files}
    for thing in things:
        if type(thing) is FunctionType and thing.__code__.co_filename in found:
            found[thing.__code__.co_filename].append(thing)
    return found
