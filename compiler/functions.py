"""Finding functions that live now by the file they come from."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterable
from types import FunctionType, ModuleType
from weakref import ref

_aside: dict[str, list[ref[FunctionType]]] | None = None
"""In a forked child: by file, the functions among the objects that are set aside."""


def set_aside() -> None:
    """Take the parent's objects, garbage too, out of a forked child's garbage collection.

    Their finalizers are the parent's to run, and a look at them copies the memory they are in.
    """
    global _aside
    gc.freeze()
    _aside = {}


def live(files: Iterable[str]) -> dict[str, list[FunctionType]]:
    """Every function that lives now and whose code comes from one of the files."""
    asked = tuple(dict.fromkeys(files))
    if not asked:
        return {}
    if _aside is None:
        return _searched_among_all(asked) if gc.get_freeze_count() else _searched(asked)
    if not _aside.keys() >= set(asked):  # what is young now is set aside, too
        found = _searched_among_all({**_aside, **dict.fromkeys(asked)})
        _aside.update({file: [ref(f) for f in functions] for file, functions in found.items()})
    young = _searched(asked)
    old = {file: [f for one in _aside[file] if (f := one()) is not None] for file in asked}
    return {file: list(dict.fromkeys(old[file] + young[file])) for file in asked}


def _searched_among_all(files: Collection[str]) -> dict[str, list[FunctionType]]:
    """The same also among frozen objects, which are not listed; then everything is frozen."""
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
    found: dict[str, list[FunctionType]] = {file: [] for file in files}
    modules = [m for m in tuple(sys.modules.values()) if isinstance(m, ModuleType)]
    namespaces = {file: vars(m) for m in modules if (file := vars(m).get("__file__")) in found}
    whole = namespaces.keys() == found.keys()
    things = gc.get_referrers(*namespaces.values()) if whole else gc.get_objects()
    for thing in things:
        if type(thing) is FunctionType and thing.__code__.co_filename in found:
            found[thing.__code__.co_filename].append(thing)
    return found
