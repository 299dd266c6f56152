"""A copy of a module or function that runs edited source, beside the original."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import EnumMeta
from functools import cached_property
from types import (
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import torch

from fullgraph.compiler.sources import find_live_functions, override_sources
from fullgraph.rewrites.fix.references import (
    CONTAINERS,
    function_of,
    functions_inside,
    held_by,
    is_torchs,
    named_by,
    names_in,
)
from fullgraph.rewrites.proof import convert_globals, convert_module, find_new_tensors


def patched(subject: Any, texts: Mapping[str, str]) -> Any:
    """Return a copy of `subject` that runs the new texts of its files.

    A module becomes a copy of its tree of modules that shares parameters and buffers; functions and
    classes from the edited files are copied, and those of other files that use them. The rest of
    the program keeps running the original. One thing is added to the globals of the original: names
    that a custom operator of an edit looks up, because an operator cannot be copied. As long as the
    copy lives, `sys.modules` has the modules of its functions, under names of their own.
    """
    if not texts:
        return subject
    new = find_new_tensors(texts)
    before = {f: f.__code__ for functions in find_live_functions(texts).values() for f in functions}
    with override_sources(texts) as overlay:
        codes = {f: f.__code__ for f in before}
        edited = {id(f.__globals__): dict(f.__globals__) for f in before}
    for function in before:
        names = new.variables.get(function.__code__.co_filename, ())
        convert_globals(edited[id(function.__globals__)], names)
    for space in edited.values():
        for one in overlay.decorated:
            space.update({name: one.before for name, value in space.items() if value is one.after})
    copies = _Copies(codes, {id(one.before): one.decorators for one in overlay.decorated})
    spaces = {key: copies.add_space(key, space) for key, space in edited.items()}
    for space in spaces.values():
        for name, value in tuple(space.items()):
            if isinstance(value, FunctionType | type):
                space[name] = copies.of(value)
    for real in {id(one.__globals__): one.__globals__ for one in before}.values():
        _lend_names(spaces[id(real)], real)
    copy = copies.of_held(subject)
    copies.link()
    owner = getattr(copy, "__self__", copy)
    for module in owner.modules() if isinstance(owner, torch.nn.Module) else ():
        convert_module(module, new)
    return copies.register(copy)


@dataclass
class _Copies:
    """Copies of functions, classes and modules, each made once."""

    codes: Mapping[FunctionType, CodeType]
    """The edited code of each function of an edited file."""
    decorators: Mapping[int, Sequence[CodeType]]
    """New decorators of functions, by their ids, innermost first."""
    edited: set[int] = field(default_factory=set)
    """The globals of the edited files, by their ids."""
    files: dict[int, ModuleType] = field(default_factory=dict)
    """Copies of the modules of files, by the ids of the globals of the original."""
    made: dict[int, Any] = field(default_factory=dict)
    """Copies by the id of the original."""
    unlinked: list[FunctionType] = field(default_factory=list)
    """Copied functions whose globals do not have all copies yet."""
    idle: set[int] = field(default_factory=set)
    """Functions and classes that use nothing that is edited, by their ids."""

    def add_space(self, key: int, space: dict[str, object]) -> dict[str, object]:
        """Return the globals of the copies of an edited file's functions.

        `key` is the id of the original globals, and `space` are they after the edit.
        """
        self.edited.add(key)
        return vars(self._add_file(key, space))

    def of(self, thing: object) -> Any:
        """Return the copy of an object that an edit reaches; other objects unchanged."""
        if id(thing) in self.made:
            return self.made[id(thing)]
        if isinstance(thing, FunctionType) and self._is_reached(thing):
            return self._copy_function(thing)
        if isinstance(thing, type) and not is_torchs(thing) and self._is_reached(thing):
            return self._copy_class(thing)
        return thing

    def link(self) -> None:
        """Let the copied functions find each other in their globals."""
        while self.unlinked:
            function = self.unlinked.pop()
            space = function.__globals__
            space.update(self._changes({*names_in(function.__code__)}, space))

    def register(self, subject: Any) -> Any:
        """Return `subject`; as long as it lives, `sys.modules` has the copied files.

        TorchDynamo imports a file by the name in a function's globals, to guard on what it has.
        """
        if isinstance(subject, FunctionType):  # its file holds it, and would keep it alive
            code, space = subject.__code__, subject.__globals__
            subject = _rebuild(subject, code, space, subject.__closure__ or ())
        owner = getattr(subject, "__self__", subject)
        for file in self.files.values():
            if "__name__" in vars(file):
                stem, number = f"{file.__name__}.fixed", 1
                while (name := f"{stem}_{number}") in sys.modules:
                    number += 1
                file.__name__, sys.modules[name] = name, file
                weakref.finalize(owner, sys.modules.pop, name, None)
        return subject

    def _add_file(self, key: int, space: Mapping[str, object]) -> ModuleType:
        """Return the copy of the module whose globals have the id `key`, made of `space`."""
        if key not in self.files:
            file = self.files[key] = ModuleType(str(space.get("__name__", "")))
            vars(file).clear()
            vars(file).update(space)
            self.made[id(file)] = file
        return self.files[key]

    def _changes(
        self, names: Collection[str], space: Mapping[str, object], within: Collection[int] = ()
    ) -> dict[str, Any]:
        """Return the copies of those values of `space` under `names` that an edit reaches.

        `names` are all names of a code object, so that `helper.match` finds `match` in `helper`.
        `within` are the ids of the modules on the way.
        """
        changes = {}
        for name in names & space.keys():
            value = space[name]
            copy: Any = value
            if isinstance(value, FunctionType | type):
                copy = self.of(value)
            elif isinstance(value, ModuleType):
                copy = value if is_torchs(value) else self._link_module(names, value, within)
            elif self._is_reached(type(value)) or type(value) in CONTAINERS:
                copy = self.of_held(value)
            if copy is not value:
                changes[name] = copy
        return changes

    def _link_module(
        self, names: Collection[str], module: ModuleType, within: Collection[int]
    ) -> ModuleType:
        """Return the copy of a module if an edit reaches what `names` find in it; else itself."""
        key = id(vars(module))
        if id(module) in self.made or key in within:
            return module
        space = vars(self.files.get(key, module))
        changes = self._changes(names, space, {*within, key})
        if key not in self.files and not changes:
            return module
        file = self._add_file(key, vars(module))
        vars(file).update(changes)
        if type(module) is not ModuleType:  # it may load what it has on demand
            vars(file).setdefault("__getattr__", lambda name: getattr(module, name))
        return file

    def _is_reached(self, thing: FunctionType | type) -> bool:
        """Return whether a function or class is of an edited file, or uses one that is."""
        waiting: list[FunctionType | type] = [thing]
        seen: set[int] = set()
        while waiting:
            one = waiting.pop()
            if id(one) in seen or id(one) in self.idle:
                continue
            seen.add(id(one))
            if isinstance(one, FunctionType) and id(one.__globals__) in self.edited:
                return True
            waiting += [*held_by(one), *named_by(one)]
        self.idle |= seen
        return False

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Return a copy of a module, with its class and children copied and its tensors shared."""
        if id(module) in self.made:
            known: torch.nn.Module = self.made[id(module)]
            return known
        copy = torch.nn.Module.__new__(self.of(type(module)))
        self.made[id(module)] = self.made[id(copy)] = copy
        vars(copy).update(vars(module))
        for name, value in vars(copy).items():
            vars(copy)[name] = self.of_held(value)
        return copy

    def of_held(self, value: Any) -> Any:
        """Return a copy of the value of an attribute or item; the value itself if it is shared.

        Copied are modules, functions and objects of edited files, and containers of those. Tensors
        and everything else are shared.
        """
        if id(value) in self.made:
            return self.made[id(value)]
        match value:
            case torch.nn.Module():
                return self.module(value)
            case dict() | list() | tuple() if type(value) in CONTAINERS:
                return self._copy_container(value)
            case MethodType():
                owner, function = self.of_held(value.__self__), self.of(value.__func__)
                same = owner is value.__self__ and function is value.__func__
                return value if same else MethodType(function, owner)
            case FunctionType() | type() | torch.Tensor() | ModuleType():
                return self.of(value)
        copied = isinstance(getattr(value, "__dict__", None), dict)
        copy = self._copy_object(value) if copied else value
        self.made[id(copy)] = copy
        return copy

    def _copy_object(self, value: Any) -> Any:
        """Return a copy of an object if its class or an attribute has one; else the object."""
        kind = self.of(type(value))
        if kind is type(value):
            self.made[id(value)] = value  # its attributes may lead back to it
            held = {name: self.of_held(one) for name, one in vars(value).items()}
            if all(held[name] is one for name, one in vars(value).items()):
                return value
        copy = self.made[id(value)] = object.__new__(kind)
        vars(copy).update({name: self.of_held(one) for name, one in vars(value).items()})
        return copy

    def _copy_container(self, held: Any) -> Any:
        """Return a copy of a container if one of its items has a copy; else the container."""
        self.made[id(held)] = held  # it may hold itself
        items = list(held.values() if isinstance(held, dict) else held)
        copies = [self.of_held(item) for item in items]
        if all(copy is item for copy, item in zip(copies, items, strict=True)):
            return held
        new = dict(zip(held, copies, strict=True)) if isinstance(held, dict) else copies
        made = type(held)(new)
        self.made[id(held)] = self.made[id(made)] = made
        return made

    def _copy_member(self, value: object) -> Any:
        """Return the copy of a class's member; the same member if it needs none."""
        match value:
            case FunctionType() if _names_its_class(value):
                return self.made.get(id(value)) or self._copy_function(value)
            case staticmethod() | classmethod():
                inner = self._copy_member(value.__func__)
                return value if inner is value.__func__ else type(value)(inner)
            case property():
                fget, fset, fdel = map(self._copy_member, (value.fget, value.fset, value.fdel))
                return property(fget, fset, fdel, value.__doc__)
            case cached_property():
                return cached_property(self._copy_member(value.func))
        return self.of(value)

    def _copy_function(self, function: FunctionType) -> Any:
        """Return a copy of a function with edited code, new decorators, cells and globals."""
        old_cells = function.__closure__ or ()
        cells = tuple(map(self._copy_cell, old_cells))
        space = function.__globals__
        links = id(space) in self.edited or any(map(self._is_reached, named_by(function)))
        if links:
            space = vars(self._add_file(id(space), space))
        code = self.codes.get(function, function.__code__)
        copy = _rebuild(function, code, space, cells)
        self.made[id(function)] = self.made[id(copy)] = copy
        self.unlinked += [copy] if links else []
        for old, new in zip(old_cells, cells, strict=True):
            if new is not old and isinstance(old.cell_contents, FunctionType):
                new.cell_contents = self._copy_member(old.cell_contents)
        if isinstance(inner := function.__dict__.get("__wrapped__"), FunctionType):
            copy.__dict__["__wrapped__"] = self._copy_member(inner)
        for decorator in self.decorators.get(id(function), ()):
            inside = functions_inside([function])
            real = next(one.__globals__ for one in inside if id(one.__globals__) in self.edited)
            copy = eval(decorator, vars(self.files[id(real)]))(copy)
            self.made[id(function)] = self.made[id(copy)] = copy
        return copy

    def _copy_cell(self, cell: CellType) -> CellType:
        """Return a new cell, to be filled, for one with a copied class (for `super()`) or function.

        Other cells stay shared.
        """
        try:
            content = cell.cell_contents
        except ValueError:
            return cell
        if isinstance(content, FunctionType):
            copied = _names_its_class(content) or self._is_reached(content)
        else:
            copied = isinstance(content, type) and self.made.get(id(content)) is not None
        new: CellType = self.made.setdefault(id(cell), CellType()) if copied else cell
        return new

    def _copy_class(self, kind: type) -> type:
        """Return a copy of a class, with copies of its bases, methods and class cells."""
        if isinstance(kind, EnumMeta):  # which makes its members of another kind of namespace
            return kind
        bases = tuple(self.of(base) for base in kind.__bases__)
        self.made[id(kind)] = kind  # its methods may meet it
        cells: list[CellType] = []
        names = {}
        for name, value in vars(kind).items():
            if not isinstance(value, GetSetDescriptorType | MemberDescriptorType):  # it makes them
                names[name] = self._copy_member(value)
                cells += _class_cells(names[name])
        copy = type(kind)(kind.__name__, bases, names)
        self.made[id(kind)] = self.made[id(copy)] = copy
        for cell in cells:
            cell.cell_contents = copy
        return copy


def _rebuild(
    function: FunctionType, code: CodeType, space: dict[str, Any], cells: tuple[CellType, ...]
) -> FunctionType:
    """Return a function like `function` with other code, globals and cells."""
    copy = FunctionType(code, space, function.__name__, function.__defaults__, cells or None)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def _lend_names(space: Mapping[str, object], real: dict[str, object]) -> None:
    """Add the names that new custom operators need to `real`, the globals of the original file.

    `space` holds the globals of the edited file. From it come those names that such an operator
    looks up in `real` and that `real` does not have.
    """
    added = [name for name in space if name not in real]
    for function in functions_inside([space[name] for name in added]):
        if function.__globals__ is real:
            real.update({n: space[n] for n in names_in(function.__code__) if n in added})


def _names_its_class(function: FunctionType) -> bool:
    """Return whether a method, or one that it decorates, has the cell of `super()`."""
    return any("__class__" in one.__code__.co_freevars for one in functions_inside([function]))


def _class_cells(value: object) -> list[CellType]:
    """Return the empty `__class__` cells of a copied method, to be filled with its class.

    Also those of a method inside its decorators.
    """
    inside = functions_inside([function_of(value)])
    cells = [cell for one in inside for cell in one.__closure__ or ()]
    return [cell for cell in cells if cell == CellType()]
