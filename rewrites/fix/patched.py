"""A copy of a module or function that runs edited source, beside the original."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import EnumMeta
from functools import cached_property, partial
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
    Reach,
    functions_inside,
    functions_of,
    is_torchs,
    names_in,
)
from fullgraph.rewrites.proof import convert_globals, convert_module, find_new_tensors


def patched(subject: Any, texts: Mapping[str, str]) -> Any:
    """Return a copy of `subject` that runs the new texts of its files.

    A module becomes a copy of its tree of modules that shares parameters and buffers. Functions and
    classes of the edited files are copied, and functions of other files that use a changed one. The
    copies see the globals of their files as they are now, and other objects in them are shared. The
    rest of the program keeps running the original. One thing is added to the globals of the
    original: names that a custom operator of an edit looks up, because an operator cannot be
    copied.
    """
    if not texts:
        return subject
    new = find_new_tensors(texts)
    before = {f: f.__code__ for functions in find_live_functions(texts).values() for f in functions}
    with override_sources(texts) as overlay:
        codes = {f: f.__code__ for f in before}
        spaces = {id(f.__globals__): dict(f.__globals__) for f in before}
    for function in before:
        names = new.variables.get(function.__code__.co_filename, ())
        convert_globals(spaces[id(function.__globals__)], names)
    for space in spaces.values():
        for one in overlay.decorated:
            space.update({name: one.before for name, value in space.items() if value is one.after})
    decorators = {id(one.before): one.decorators for one in overlay.decorated}
    changed = {id(f) for f, code in codes.items() if code is not before[f]} | decorators.keys()
    copies = _Copies(codes, spaces, decorators, Reach({*spaces}, changed))
    for space in tuple(spaces.values()):
        for name, value in tuple(space.items()):
            if isinstance(value, FunctionType | type):
                space[name] = copies.of(value)
    for real in {id(one.__globals__): one.__globals__ for one in before}.values():
        _lend_names(spaces[id(real)], real)
        if spaces[id(real)].keys() - real.keys():
            # TorchDynamo looks names up in the file of that name, which does not have the new ones
            spaces[id(real)].pop("__name__", None)
    copy = copies.of_held(subject)
    copies.link()
    owner = getattr(copy, "__self__", copy)
    for module in owner.modules() if isinstance(owner, torch.nn.Module) else ():
        convert_module(module, new)
    return copy


@dataclass
class _Copies:
    """Copies of functions, classes and modules, each made once."""

    codes: Mapping[FunctionType, CodeType]
    """The edited code of each function of an edited file."""
    spaces: dict[int, dict[str, Any]]
    """The globals of the copied functions, by the id of the original globals."""
    decorators: Mapping[int, Sequence[CodeType]]
    """New decorators of functions, by their ids, innermost first."""
    reach: Reach
    made: dict[int, Any] = field(default_factory=dict)
    """Copies by the id of the original."""
    unlinked: list[FunctionType] = field(default_factory=list)
    """Copied functions whose globals do not have all copies yet."""

    def of(self, thing: object) -> Any:
        """Return the copy of a function or class, found by its name; other objects unchanged.

        A class of another file is copied where an object of it is, so that `isinstance` stays true
        for objects that come from outside.
        """
        if id(thing) in self.made:
            return self.made[id(thing)]
        if isinstance(thing, FunctionType) and self._needs_copy(thing):
            return self._copy_function(thing)
        if type(thing) is partial and self.of(thing.func) is not thing.func:
            copy = partial(self.of(thing.func), *thing.args, **thing.keywords)
            return self._keep(thing, copy)
        if isinstance(thing, type) and self.reach.is_edited_class(thing):
            return self._copy_class(thing)
        return thing

    def of_class(self, kind: type) -> Any:
        """Return the copy of the class of an object or of a class; itself if it needs none."""
        if id(kind) in self.made:
            return self.made[id(kind)]
        needed = self.reach.is_edited_class(kind) or self.reach.reaches(kind)
        return self._copy_class(kind) if needed else kind

    def _keep(self, thing: object, copy: Any) -> Any:
        """Return `copy`, which from now on is the copy of `thing` and of itself."""
        self.made[id(thing)] = self.made[id(copy)] = copy
        return copy

    def _needs_copy(self, function: FunctionType) -> bool:
        return self.reach.edited_in(function) is not None or self.reach.reaches(function)

    def link(self) -> None:
        """Let the copied functions find each other in their globals."""
        while self.unlinked:
            function = self.unlinked.pop()
            space = function.__globals__
            space.update(self._changes({*names_in(function.__code__)}, space, ()))

    def _changes(
        self, names: Set[str], space: Mapping[str, Any], within: Collection[int]
    ) -> dict[str, Any]:
        """Return the copies of those values of `space` under `names` that have one.

        `names` are all names of a code object, so that `helper.match` finds `match` in `helper`.
        `within` are the ids of the modules on the way.
        """
        changes = {}
        for name in names & space.keys():
            value = space[name]
            match value:
                case ModuleType():
                    copy = self._link_module(names, value, within)
                case _ if type(value) in CONTAINERS:
                    copy = self._copy_container(value, self.of)
                case _ if not isinstance(value, type) and self.reach.is_changed_class(type(value)):
                    copy = self.of_held(value)
                case _:
                    copy = self.of(value)
            if copy is not value:
                changes[name] = copy
        return changes

    def _link_module(
        self, names: Set[str], module: ModuleType, within: Collection[int]
    ) -> ModuleType:
        """Return a copy of a module if what `names` find in it has copies; else itself."""
        key = id(vars(module))
        known: ModuleType = self.made.get(id(module), module)
        if is_torchs(module) or key in within:
            return known
        space = self.spaces.get(key, vars(module))
        changes = self._changes(names, space, {*within, key})
        changes |= {name: space[name] for name in names & space.keys() - changes.keys()}
        changes = {n: one for n, one in changes.items() if vars(known).get(n) is not one}
        if not changes:
            return known
        if known is module:
            known = ModuleType(module.__name__)
            vars(known).update(vars(module))
            if type(module) is not ModuleType:  # it may load what it has on demand
                vars(known).setdefault("__getattr__", lambda name: getattr(module, name))
            self._keep(module, known)
        vars(known).update(changes)
        return known

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Return a copy of a module, with its class and children copied and its tensors shared."""
        if id(module) in self.made:
            known: torch.nn.Module = self.made[id(module)]
            return known
        copy = self._keep(module, torch.nn.Module.__new__(self.of_class(type(module))))
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
                return self._copy_container(value, self.of_held)
            case MethodType():
                owner, function = self.of_held(value.__self__), self.of(value.__func__)
                same = owner is value.__self__ and function is value.__func__
                return value if same else MethodType(function, owner)
            case FunctionType() | type() | partial() | torch.Tensor() | ModuleType():
                return self.of(value)
        copied = isinstance(getattr(value, "__dict__", None), dict)
        copy = self._copy_object(value) if copied else value
        self.made[id(copy)] = copy
        return copy

    def _copy_object(self, value: Any) -> Any:
        """Return a copy of an object if its class or an attribute has one; else the object."""
        kind = self.of_class(type(value))
        if kind is type(value):
            self.made[id(value)] = value  # its attributes may lead back to it
            held = {name: self.of_held(one) for name, one in vars(value).items()}
            if all(held[name] is one for name, one in vars(value).items()):
                return value
        try:
            copy = self.made[id(value)] = object.__new__(kind)
        except TypeError:  # it is a dict, a thread's, of C: all share it
            self.made[id(value)] = value
            return value
        vars(copy).update({name: self.of_held(one) for name, one in vars(value).items()})
        return copy

    def _copy_container(self, held: Any, copy_item: Callable[[Any], Any]) -> Any:
        """Return a copy of a container if one of its items has a copy; else the container."""
        self.made[id(held)] = held  # it may hold itself
        items = list(held.values() if isinstance(held, dict) else held)
        copies = [copy_item(item) for item in items]
        if all(copy is item for copy, item in zip(copies, items, strict=True)):
            return held
        new = dict(zip(held, copies, strict=True)) if isinstance(held, dict) else copies
        return self._keep(held, type(held)(new))

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
        if id(space) in self.spaces or self.reach.reaches_by_name(function):
            space = self.spaces.setdefault(id(space), dict(space))
        code = _fresh(self.codes.get(function, function.__code__))
        copy = FunctionType(code, space, function.__name__, None, cells or None)
        self._keep(function, copy)
        self.unlinked += [copy] if space is not function.__globals__ else []
        for old, new in zip(old_cells, cells, strict=True):
            if new is not old and isinstance(old.cell_contents, FunctionType):
                new.cell_contents = self._copy_member(old.cell_contents)
        if function.__defaults__:
            copy.__defaults__ = tuple(map(self._copy_default, function.__defaults__))
        if function.__kwdefaults__:
            named = function.__kwdefaults__.items()
            copy.__kwdefaults__ = {name: self._copy_default(one) for name, one in named}
        for name, one in function.__dict__.items():
            if name != "get_compiler_config":  # torch.compile sets it, and only once
                copy.__dict__[name] = self._copy_default(one)
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        for decorator in self.decorators.get(id(function), ()):
            inner = self.reach.edited_in(function)
            assert inner is not None, "only functions of edited files get decorators"
            copy = eval(decorator, self.spaces[id(inner.__globals__)])(copy)
        return self._keep(function, copy)

    def _copy_default(self, value: object) -> object:
        """Return the copy of a default or attribute of a function, if that is a function."""
        return self._copy_member(value) if isinstance(value, FunctionType | partial) else value

    def _copy_cell(self, cell: CellType) -> CellType:
        """Return a new cell, to be filled, for one with a copied class (for `super()`) or function.

        Other cells stay shared.
        """
        try:
            content = cell.cell_contents
        except ValueError:
            return cell
        if isinstance(content, FunctionType):
            copied = _names_its_class(content) or self._needs_copy(content)
        else:
            copied = isinstance(content, type) and self.made.get(id(content)) is not None
        new: CellType = self.made.setdefault(id(cell), CellType()) if copied else cell
        return new

    def _copy_class(self, kind: type) -> type:
        """Return a copy of a class, with copies of its bases, methods and class cells."""
        if isinstance(kind, EnumMeta):  # which makes its members of another kind of namespace
            return kind
        bases = tuple(map(self.of_class, kind.__bases__))
        self.made[id(kind)] = kind  # its methods may meet it
        cells: list[CellType] = []
        names = {}
        for name, value in vars(kind).items():
            if not isinstance(value, GetSetDescriptorType | MemberDescriptorType):  # it makes them
                names[name] = self._copy_member(value)
                cells += _class_cells(names[name])
        copy: type = self._keep(kind, _make_class(kind, bases, names))
        for cell in cells:
            cell.cell_contents = copy
        return copy


def _fresh(code: CodeType) -> CodeType:
    """Return a copy of code: TorchDynamo keeps what it compiled by the code object."""
    constants = (_fresh(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_consts=tuple(constants))


def _make_class(kind: type, bases: tuple[type, ...], names: dict[str, Any]) -> type:
    """Return a class like `kind`, of which the program's `__init_subclass__` does not hear."""
    new = ABCMeta.__new__ if isinstance(kind, ABCMeta) else type.__new__
    quiet = object.__init_subclass__
    if all(getattr(base.__init_subclass__, "__func__", quiet) is quiet for base in bases):
        return new(type(kind), kind.__name__, bases, names)
    copy = new(type(kind), kind.__name__, (_Quiet, *bases), names)
    try:
        copy.__bases__ = bases
    except TypeError:  # it has slots, or is a dict
        return new(type(kind), kind.__name__, bases, names)
    return copy


class _Quiet:
    """First base of a class whose other bases are not told."""

    def __init_subclass__(cls, **options: object) -> None:
        pass


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
    inside = functions_inside(functions_of(value))
    cells = [cell for one in inside for cell in one.__closure__ or ()]
    return [cell for cell in cells if cell == CellType()]
