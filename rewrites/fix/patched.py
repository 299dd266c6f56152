"""A copy of a module or function that runs edited source, beside the original."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from fullgraph.compiler.sources import find_live_functions, override_sources
from fullgraph.rewrites.proof import convert_globals, convert_module, find_new_tensors


def patched(subject: Any, texts: Mapping[str, str]) -> Any:
    """Return a copy of `subject` that runs the new texts of its files.

    A module becomes a copy of its tree of modules that shares parameters and buffers; classes from
    the edited files are copied, too. The rest of the program keeps running the original. One thing
    is added to the globals of the original: names that a custom operator of an edit looks up,
    because an operator cannot be copied.
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
    copies = _Copies(codes, spaces, decorators)
    for space in spaces.values():
        for name, value in tuple(space.items()):
            if isinstance(value, FunctionType | type):
                space[name] = copies.of(value)
    for real in {id(one.__globals__): one.__globals__ for one in before}.values():
        _lend_names(spaces[id(real)], real)
    if not isinstance(subject, torch.nn.Module):
        return copies.of(subject)
    copy = copies.module(subject)
    for module in copy.modules():
        convert_module(module, new)
    return copy


@dataclass
class _Copies:
    """Copies of functions, classes and modules, each made once."""

    codes: Mapping[FunctionType, CodeType]
    """The edited code of each function of an edited file."""
    spaces: Mapping[int, dict[str, object]]
    """The globals of the copied functions, by the id of the original globals."""
    decorators: Mapping[int, Sequence[CodeType]] = field(default_factory=dict)
    """New decorators of functions, by their ids, innermost first."""
    made: dict[int, Any] = field(default_factory=dict)
    """Copies by the id of the original."""

    def of(self, thing: object) -> Any:
        """Return the copy of an object from an edited file; other objects unchanged."""
        if id(thing) in self.made:
            return self.made[id(thing)]
        match thing:
            case FunctionType() if id(thing.__globals__) in self.spaces:
                return self._copy_function(thing)
            case type() if _is_torchs(thing):  # whatever a program hung there: all share it
                return thing
            case type() if any(
                self._is_from_edited_file(value) for value in vars(thing).values()
            ) or any(self.of(base) is not base for base in thing.__bases__):
                return self._copy_class(thing)
        return thing

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Return a copy of a module, with its class and children copied and its tensors shared."""
        if id(module) in self.made:
            known: torch.nn.Module = self.made[id(module)]
            return known
        copy = self.made[id(module)] = torch.nn.Module.__new__(self.of(type(module)))
        vars(copy).update(vars(module))
        for name, value in vars(copy).items():
            vars(copy)[name] = self._copy_held(value)
        return copy

    def _copy_held(self, value: Any) -> Any:
        """Return a copy of the value of an attribute or item; the value itself if it is shared.

        Copied are modules, functions and objects of edited files, and containers of those. Tensors
        and everything else are shared.
        """
        if id(value) in self.made:
            return self.made[id(value)]
        match value:
            case torch.nn.Module():
                return self.module(value)
            case dict() | list() | tuple() if type(value) in (dict, list, tuple, OrderedDict):
                return self._copy_container(value)
            case MethodType():
                owner, function = self._copy_held(value.__self__), self.of(value.__func__)
                same = owner is value.__self__ and function is value.__func__
                return value if same else MethodType(function, owner)
            case FunctionType() | type() | torch.Tensor() | ModuleType():
                return self.of(value)
        return (
            self._copy_object(value)
            if isinstance(getattr(value, "__dict__", None), dict)
            else value
        )

    def _copy_object(self, value: Any) -> Any:
        """Return a copy of an object if its class or an attribute has one; else the object."""
        kind = self.of(type(value))
        if kind is type(value):
            self.made[id(value)] = value  # its attributes may lead back to it
            held = {name: self._copy_held(one) for name, one in vars(value).items()}
            if all(held[name] is one for name, one in vars(value).items()):
                return value
        copy = self.made[id(value)] = object.__new__(kind)
        vars(copy).update({name: self._copy_held(one) for name, one in vars(value).items()})
        return copy

    def _copy_container(self, held: Any) -> Any:
        """Return a copy of a container if one of its items has a copy; else the container."""
        self.made[id(held)] = held  # it may hold itself
        items = list(held.values() if isinstance(held, dict) else held)
        copies = [self._copy_held(item) for item in items]
        if all(copy is item for copy, item in zip(copies, items, strict=True)):
            return held
        new = dict(zip(held, copies, strict=True)) if isinstance(held, dict) else copies
        self.made[id(held)] = made = type(held)(new)
        return made

    def _is_from_edited_file(self, value: object) -> bool:
        """Return whether an object comes from an edited file."""
        value = getattr(value, "__func__", getattr(value, "fget", value))
        return isinstance(value, FunctionType) and id(value.__globals__) in self.spaces

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
        return self.of(value)

    def _copy_function(self, function: FunctionType) -> Any:
        """Return a copy of a function with edited code, new decorators, cells and globals."""
        copy = FunctionType(
            self.codes.get(function, function.__code__),
            self.spaces.get(id(function.__globals__), function.__globals__),
            function.__name__,
            function.__defaults__,
            tuple(map(self._copy_cell, function.__closure__)) if function.__closure__ else None,
        )
        self.made[id(function)] = copy
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__dict__.update(function.__dict__)
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        for decorator in self.decorators.get(id(function), ()):
            copy = self.made[id(function)] = eval(decorator, copy.__globals__)(copy)
        return copy

    def _copy_cell(self, cell: CellType) -> CellType:
        """Return a new cell for one with a copied class (for `super()`); others unchanged."""
        try:
            content = cell.cell_contents
        except ValueError:
            return cell
        if isinstance(content, FunctionType) and _names_its_class(content):
            return CellType(self._copy_member(content))
        if not isinstance(content, type) or self.made.get(id(content)) is None:
            return cell
        new: CellType = self.made.setdefault(id(cell), CellType())
        return new

    def _copy_class(self, kind: type) -> type:
        """Return a copy of a class, with copies of its bases, methods and class cells."""
        bases = tuple(self.of(base) for base in kind.__bases__)
        self.made[id(kind)] = kind  # its methods may meet it
        cells: list[CellType] = []
        names = {}
        for name, value in vars(kind).items():
            if name not in ("__dict__", "__weakref__"):
                names[name] = self._copy_member(value)
                cells += _class_cells(names[name])
        copy = type(kind)(kind.__name__, bases, names)
        self.made[id(kind)] = copy
        for cell in cells:
            cell.cell_contents = copy
        return copy


def _lend_names(space: Mapping[str, object], real: dict[str, object]) -> None:
    """Add the names that new custom operators need to `real`, the globals of the original file.

    `space` holds the globals of the edited file. From it come those names that such an operator
    looks up in `real` and that `real` does not have.
    """
    added = [name for name in space if name not in real]
    for function in _functions_inside([space[name] for name in added]):
        if function.__globals__ is real:
            real.update({n: space[n] for n in _names_in(function.__code__) if n in added})


def _functions_inside(values: Sequence[object]) -> Iterator[FunctionType]:
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


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that `code` and the functions nested in it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _is_torchs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("torch", "builtins")


def _names_its_class(function: FunctionType) -> bool:
    """Return whether a method, or one that it decorates, has the cell of `super()`."""
    return any("__class__" in one.__code__.co_freevars for one in _functions_inside([function]))


def _class_cells(value: object) -> list[CellType]:
    """Return the empty `__class__` cells of a copied method, to be filled with its class.

    Also those of a method inside its decorators.
    """
    value = getattr(value, "__func__", getattr(value, "fget", value))
    cells = [cell for one in _functions_inside([value]) for cell in one.__closure__ or ()]
    return [cell for cell in cells if cell == CellType()]
