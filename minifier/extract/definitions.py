"""Definitions of live functions and classes, with everything that they use."""

from __future__ import annotations

import ast
import builtins
import importlib
import keyword
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType

import torch

from fullgraph.compiler.private import public_name
from fullgraph.compiler.sources import first_line
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.extract.origins import (
    Origin,
    find_binding,
    find_origin,
    global_names,
    is_user_object,
    text_of,
    unwrap_function,
)

_ALIASES = {
    "torch.nn": "nn",
    "torch.nn.functional": "F",
    "numpy": "np",
}
"""Usual aliases of modules in imports."""
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
"""Types whose values are written as literals."""
_KEPT = (*keyword.kwlist, "build")
"""Names that no definition may have."""
_CONTAINERS = (tuple, list, dict, set, frozenset)


@dataclass(eq=False)
class Sources:
    """Definitions of a script, each written once, after those that it depends on."""

    spell: Callable[[object], str]
    """Returns an expression for an object that has no name. Raises Unwritable."""
    imports: dict[str, str] = field(default_factory=dict)
    """Import lines, by the name that each binds."""
    texts: list[str] = field(default_factory=list)
    """Definitions, in the order in which they can run."""
    future: bool = False
    """Whether a copied file has `from __future__ import annotations`."""
    _bound: dict[str, object] = field(default_factory=dict)
    """Objects by the name that they have in the script."""
    _pieces: dict[tuple[object, ...], str] = field(default_factory=dict)
    """Names of the copied definitions, by file, line and closure cells."""

    def name(self, thing: object) -> str | None:
        """Return the script's name for a module, class or function; define or import it if needed.

        None for other objects. Raises Unwritable if its source cannot be read.
        """
        if isinstance(thing, ModuleType):
            return self._import_module(thing)
        if isinstance(thing, type) or callable(thing):
            if isinstance(thing, type) or isinstance(unwrap_function(thing), FunctionType):
                return self._name_or_define(thing)
            return self._import_object(thing)
        return None

    def define_names(self, text: str, names: Mapping[str, object]) -> str:
        """Return `text` after defining in the script those of its global names that are in `names`.

        The text is changed where a definition needs another name. Raises Unwritable.
        """
        self._bound.update((name, None) for name in global_names(text) - names.keys())
        return self._define_globals(text, names, {})

    def reserve_name(self, stem: str, thing: object) -> str:
        """Return an unused name like `stem` for a variable of the script, reserved for `thing`."""
        name = self._unused_name(stem, thing)
        self._bound[name] = thing
        return name

    def text(self) -> str:
        """Return the source of all imports and definitions."""
        lines = ["from __future__ import annotations\n"] if self.future else []
        imports = sorted(self.imports.values(), key=lambda line: (line.startswith("from"), line))
        return "\n".join([*lines, *imports, "", *self.texts])

    # Classes and functions.

    def _name_or_define(self, thing: object) -> str | None:
        """Return the script's name for a class or function; import or define it if needed."""
        title = getattr(thing, "__name__", "")
        if title in vars(builtins) and vars(builtins)[title] is thing:
            return str(title)
        known = next((name for name, held in self._bound.items() if held is thing), None)
        if known is not None:
            return known
        if not is_user_object(thing):
            return self._import_object(thing)
        place = find_origin(thing)
        if place is None:
            raise Unwritable(
                f"The source of {getattr(thing, '__qualname__', thing)} cannot be read."
            )
        return self._copy_definition(place, thing)

    def _import_object(self, thing: object) -> str | None:
        """Return an expression for a library's object, such as `F.gelu`; add the import.

        None if the object cannot be imported.
        """
        for path, alias in _ALIASES.items():
            library = sys.modules.get(path)
            title = getattr(thing, "__name__", "")
            if library is not None and title and getattr(library, title, None) is thing:
                return f"{self._import_module(library) or alias}.{title}"
        where = _import_path(thing)
        if where is None:
            return None
        module, _, title = where.rpartition(":")
        if module == "torch" or module.startswith("torch."):
            self._bind_import("torch", "import torch", torch)
            if module == "torch" or _is_reachable(f"{module}.{title}"):
                return f"{module}.{title}"
        head = title.partition(".")[0]
        value = getattr(importlib.import_module(module), head)
        return self._bind(head, value, f"from {module} import {head}") + title[len(head) :]

    def _import_module(self, module: ModuleType) -> str | None:
        """Return the name by which the script imports a module; None for user modules."""
        if is_user_object(module):
            return None
        path = module.__name__
        alias = _ALIASES.get(path, path if "." not in path else "")
        known = next((name for name, held in self._bound.items() if held is module), None)
        if known is not None:
            return known
        if alias:
            return self._bind(alias, module, _import_line(path, alias))
        self._bind_import(path.partition(".")[0], f"import {path}", module)
        return path

    def _bind_import(self, name: str, line: str, thing: object) -> None:
        """Record the import line that binds `name` to `thing`."""
        self.imports[line if "." in line else name] = line
        if "." not in line:
            self._bound[name] = thing

    def _bind(self, name: str, thing: object, line: str) -> str:
        """Import `thing` by `line`, which binds `name`, and return the name it gets.

        It gets another name if that one is taken.
        """
        free = self._unused_name(name, thing)
        if free not in self._bound:
            self._bound[free] = thing
            self.imports[free] = line if free == name else f"{line.partition(' as ')[0]} as {free}"
        return free

    def _unused_name(self, name: str, thing: object) -> str:
        """Return `name`, or `name` and a number if another object than `thing` has it."""
        free, number = name, 2
        while free in _KEPT or (free in self._bound and self._bound[free] is not thing):
            free, number = f"{name}_{number}", number + 1
        return free

    # Pieces of source.

    def _copy_definition(self, place: Origin, thing: object, wanted: str = "") -> str:
        """Copy a definition into the script after all that it uses; return its name there.

        `wanted` is the name of a definition that has none itself, such as a lambda.
        """
        start = first_line(place.node)
        key: tuple[object, ...] = place.source.file, start, *_cell_ids(thing)
        if key in self._pieces and not isinstance(place.node, ast.Lambda):
            return self._pieces[key]
        own = getattr(place.node, "name", "") or wanted or "function"
        name = self._unused_name(own, thing)
        self._bound[name] = thing
        self._pieces[key] = name
        self.future |= "from __future__ import annotations" in place.source.text
        text = text_of(place)
        if isinstance(place.node, ast.Lambda):
            text = f"{name} = {text}"
        self.texts.append(
            self._define_globals(text, place.names, {own: name} if own != name else {})
        )
        self._copy_registrations(place, own)
        return name

    def _define_globals(
        self, text: str, names: Mapping[str, object], renamed: dict[str, str]
    ) -> str:
        """Define the globals that `text` uses, and return `text` with their names in the script.

        `names` are the values of the globals; `renamed` maps names to those they have in the
        script.
        """
        tree = ast.parse(text)
        edits: list[tuple[ast.expr, str]] = []
        for name in sorted(global_names(text)):
            if name in renamed or name not in names:
                continue
            value = names[name]
            if isinstance(value, ModuleType) and is_user_object(value):
                edits += self._define_through(tree, name, value)
                continue
            now = self._define_global(name, value, names)
            if now != name:
                renamed[name] = now
        edits += [
            (node, renamed[node.id])
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and node.id in renamed
        ]
        text = _splice(text, edits)
        for own, now in renamed.items():
            text = re.sub(rf"^((?:async )?def|class) {own}\b", rf"\1 {now}", text, flags=re.M)
        return text

    def _define_through(
        self, tree: ast.AST, name: str, module: ModuleType
    ) -> Iterator[tuple[ast.expr, str]]:
        """Define what `tree` uses of a user's module; yield each use with the new name."""
        outer = {n.value: n for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Name) or node.id != name:
                continue
            at: ast.expr = node
            holder, value = module, module
            while isinstance(value, ModuleType) and is_user_object(value):
                if at not in outer:
                    raise Unwritable(f"The module {value.__name__} is used as a value.")
                attribute = outer[at]
                holder, value, at = value, getattr(value, attribute.attr), attribute
            yield at, self._define_global(attribute.attr, value, vars(holder))

    def _define_global(self, name: str, value: object, names: Mapping[str, object]) -> str:
        """Define a global in the script and return its name there.

        `value` is the object and `names` are the globals of the user's module.
        """
        if self._bound.get(name, self) is value:
            return name
        if isinstance(value, ModuleType):
            return self._bind(name, value, _import_line(value.__name__, name))
        if isinstance(value, type) or isinstance(unwrap_function(value), FunctionType):
            if is_user_object(value):
                return self._require_name(name, self._name_or_define(value))
            where = _import_path(value)
            if where is not None and "." not in where.partition(":")[2]:
                module, _, title = where.partition(":")
                line = f"from {module} import {title}" + (f" as {name}" if title != name else "")
                return self._bind(name, value, line)
        if _is_constant(value):
            return self._assign_global(name, value, self.spell(value))
        statement = find_binding(name, names)
        if statement is not None and not isinstance(statement.node, ast.Import | ast.ImportFrom):
            return self._copy_definition(statement, value, name)
        if statement is not None:
            assert isinstance(statement.node, ast.Import | ast.ImportFrom)
            home = _imported_from(statement.node, names)
            if home is not None and is_user_object(home):
                return self._define_global(_original_name(statement.node, name), value, vars(home))
            return self._bind(name, value, _single_import(statement.node, name))
        return self._assign_global(name, value, self.name(value) or self.spell(value))

    def _require_name(self, name: str, own: str | None) -> str:
        """Return `own`; raise Unwritable for `name` if it is None."""
        if own is None:
            raise Unwritable(f"{name} has no name that a script could have.")
        return own

    def _assign_global(self, name: str, value: object, text: str) -> str:
        """Assign the expression `text` to an unused global like `name`, and return that global."""
        if self._bound.get(text, self) is value:  # it has a variable already
            return text
        free = self._unused_name(name, value)
        if free not in self._bound:
            self._bound[free] = value
            self.texts.append(f"{free} = {text}")
        return free

    def _copy_registrations(self, place: Origin, name: str) -> None:
        """Copy the statements of a module that register something with the definition `name`."""
        for statement in place.source.tree.body:
            if _registers_with(statement, name):
                key = place.source.file, first_line(statement)
                if key not in self._pieces:
                    self._pieces[key] = getattr(statement, "name", "")
                    text = text_of(Origin(place.source, statement, place.names))
                    self.texts.append(self._define_globals(text, place.names, {}))


def _cell_ids(thing: object) -> list[int]:
    """Return the ids of a function's closure cells; [] for other objects.

    They tell apart the functions that one `def` makes each time it runs.
    """
    function = unwrap_function(thing)
    cells = getattr(function, "__closure__", None) if isinstance(function, FunctionType) else None
    return [id(cell) for cell in cells or ()]


def _is_constant(value: object) -> bool:
    """Return whether a value can be written as a literal, with fewer than 100 items."""
    if isinstance(value, _CONTAINERS) and type(value) in _CONTAINERS:
        inner = value.values() if isinstance(value, dict) else value
        return all(map(_is_constant, inner)) and len(value) < 100
    return type(value) in _CONSTANTS


def _registers_with(statement: ast.stmt, name: str) -> bool:
    """Return whether a statement registers something with `name`: `@f.register…` for "f"."""
    called: list[ast.expr] = list(getattr(statement, "decorator_list", []))
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called.append(statement.value)
    for one in called:
        function = one.func if isinstance(one, ast.Call) else one
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) == name:
            return True
    return False


def _imported_from(
    statement: ast.Import | ast.ImportFrom, names: Mapping[str, object]
) -> ModuleType | None:
    """Return the module that `from … import …` imports from; None for `import a.b`.

    `names` are the globals of the file. None also for a module that is not loaded.
    """
    if isinstance(statement, ast.Import):
        return None
    package = str(names.get("__package__") or "").split(".")
    outer = package[: len(package) - statement.level + 1] if statement.level else []
    return sys.modules.get(".".join([*outer, *([statement.module] if statement.module else [])]))


def _original_name(statement: ast.Import | ast.ImportFrom, name: str) -> str:
    """Return "a" for the name "b" in the statement `from m import a as b`."""
    return next(a.name for a in statement.names if (a.asname or a.name) == name)


def _single_import(statement: ast.Import | ast.ImportFrom, name: str) -> str:
    """Return the import line for `name` alone, from a statement that may import other names."""
    kept = [a for a in statement.names if (a.asname or a.name.partition(".")[0]) == name]
    new = ast.Import(kept)
    if isinstance(statement, ast.ImportFrom):
        return ast.unparse(ast.ImportFrom(statement.module, kept, statement.level))
    return ast.unparse(new)


def _import_line(path: str, name: str) -> str:
    """Return the line that imports `path` as `name`: `from torch import nn`."""
    head, _, last = path.rpartition(".")
    if path == name:
        return f"import {path}"
    return f"from {head} import {last}" if last == name else f"import {path} as {name}"


def _import_path(thing: object) -> str | None:
    """Return "module:name" from which a library's object can be imported; None if there is none."""
    public = public_name(thing) if callable(thing) else None
    if public is not None and not public.startswith("torch.ops."):
        module, _, title = public.rpartition(".")
        return f"{module}:{title}" if module in sys.modules else None
    home, own = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not home or not own:
        return None
    for path in (home.partition(".")[0], home):
        value: object = sys.modules.get(path)
        for part in own.split("."):
            value = getattr(value, part, None)
        if value is thing:
            return f"{path}:{own}"
    return None


def _is_reachable(path: str) -> bool:
    """Return whether a dotted path, such as "torch.nn.init", exists after `import torch` alone."""
    value: object = torch
    for part in path.split(".")[1:]:
        value = getattr(value, part, None)
    return value is not None


def _splice(text: str, edits: Sequence[tuple[ast.expr, str]]) -> str:
    """Return `text` with new source for expressions in it; an edit is (expression, new source)."""
    lines = [line.encode() for line in text.split("\n")]
    for node, new in sorted(edits, key=lambda e: (-e[0].lineno, -e[0].col_offset)):
        line, end = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        tail = lines[end][node.end_col_offset :]
        lines[line : end + 1] = [lines[line][: node.col_offset] + new.encode() + tail]
    return b"\n".join(lines).decode()
