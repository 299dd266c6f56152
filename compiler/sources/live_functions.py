"""Search for live function objects by the source file of their code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from weakref import ref


class FunctionIndex:
    """Functions among the frozen objects of this process, which `gc.get_objects` does not list.

    `functions` maps each file that was searched to weak references to its functions; it is None
    outside `index_live_functions`.
    """

    def __init__(self) -> None:
        self.functions: dict[str, list[ref[FunctionType]]] | None = None


_INDEX = FunctionIndex()


def freeze_inherited_objects() -> None:
    """Make the garbage collector of this forked child ignore the objects that it inherited.

    A collection would copy their memory, because it writes to each object. The parent collects
    those that are garbage, and runs their finalizers.
    """
    _INDEX.functions = _weak_references(find_live_functions(_INDEX.functions or ()))
    gc.freeze()


@contextmanager
def index_live_functions() -> Iterator[None]:
    """Inside the block, also in forked children, make `find_live_functions` fast.

    The first search looks at all objects, then freezes them (`gc.freeze`). Later searches look only
    at younger objects. If the user has frozen objects, every search looks at all objects.
    """
    if _INDEX.functions is not None or gc.get_freeze_count():
        yield
        return
    gc.freeze()
    _INDEX.functions = {}
    try:
        yield
    finally:
        _INDEX.functions = None
        gc.unfreeze()


def find_live_functions(files: Iterable[str]) -> dict[str, list[FunctionType]]:
    """Return the live functions whose code comes from `files`: {file: [function, …]}.

    The list is empty for a file without live functions; {} if there are no files.
    """
    asked = tuple(dict.fromkeys(files))
    if not asked:
        return {}
    known = _INDEX.functions
    if known is None:
        return _find_in_all_objects(asked)
    objects = gc.get_objects()
    new = set(asked) - known.keys()
    if new and _are_young(new, objects):
        known.update({file: [] for file in new})
    elif new:  # this freezes the young objects, too
        known.update(_weak_references(_find_in_all_objects(known.keys() | new)))
        objects = gc.get_objects()
    young = _functions_of(asked, objects)
    old = {file: [f for one in known[file] if (f := one()) is not None] for file in asked}
    return {file: list(dict.fromkeys(old[file] + young[file])) for file in asked}


def _weak_references(found: dict[str, list[FunctionType]]) -> dict[str, list[ref[FunctionType]]]:
    return {file: [ref(function) for function in functions] for file, functions in found.items()}


def _find_in_all_objects(files: Collection[str]) -> dict[str, list[FunctionType]]:
    """Return the live functions of `files`, by file, found among all objects of the process.

    If some objects were frozen (`gc.freeze`), the search unfreezes them, then freezes all.
    """
    if _INDEX.functions is None and not gc.get_freeze_count():  # the count walks all of them
        return _find_in_unfrozen_objects(files)
    gc.unfreeze()
    try:
        return _find_in_unfrozen_objects(files)
    finally:
        gc.freeze()


def _find_in_unfrozen_objects(files: Collection[str]) -> dict[str, list[FunctionType]]:
    """Return the live functions of `files`, by file, found among the objects not frozen.

    A function refers to the globals of its module, so it is found among the referrers of these. No
    other object is touched: in a forked child, that would copy its memory. If a file has no module
    (a notebook cell, code from exec), all unfrozen objects are looked at.
    """
    namespaces = _module_globals(files)
    if len({names["__file__"] for names in namespaces}) < len(files):
        return _functions_of(files, gc.get_objects())
    return _functions_of(files, gc.get_referrers(*namespaces))


def _are_young(files: Collection[str], objects: Iterable[object]) -> bool:
    """Return whether each file's module was imported after the last `gc.freeze`.

    Then all functions of the file are that young, too. `objects` are those made since the freeze.
    """
    namespaces = _module_globals(files)
    young = {id(thing) for thing in objects if type(thing) is dict}
    return {names["__file__"] for names in namespaces} == set(files) and all(
        id(names) in young for names in namespaces
    )


def _module_globals(files: Collection[str]) -> list[dict[str, object]]:
    """Return the globals of each module loaded from one of `files`.

    A file may have two: a script can also be imported.
    """
    modules = [vars(m) for m in tuple(sys.modules.values()) if isinstance(m, ModuleType)]
    return [names for names in modules if names.get("__file__") in files]


def _functions_of(
    files: Collection[str], objects: Iterable[object]
) -> dict[str, list[FunctionType]]:
    """Return the functions among `objects` whose code comes from one of the files, by file."""
    found: dict[str, list[FunctionType]] = {file: [] for file in files}
    for thing in objects:
        if type(thing) is FunctionType:
            file = thing.__code__.co_filename
            if file in found and _is_hashable(thing.__code__):
                found[file].append(thing)
    return found


def _is_hashable(code: CodeType) -> bool:
    """Whether `code` can be hashed; code that Dynamo makes may have a dict among its constants."""
    try:
        hash(code)
    except TypeError:
        return False
    return True
