"""The checked files as modules: their imports and definitions, and names across files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fullgraph.rewrites.check.methods import Signature, attributes_set_by, self_writes, signature_of
from fullgraph.rewrites.check.module_files import ModuleFiles
from fullgraph.rewrites.check.sources import CannotRead, Source, read_source
from fullgraph.rewrites.check.syntax import (
    Scope,
    absolute_module,
    assignments_in,
    declared_globals,
    dotted,
    functions_around,
    imported_names,
    own_nodes,
    statements_of,
    walk,
)

_INDENTED_CLASS = re.compile(r"^[ \t]+class\b", re.MULTILINE)
MODULES_READ = 2000
"""Number of files that are read only because a checked file imports from them, at most."""


@dataclass(frozen=True, eq=False)
class FunctionDefinition:
    """Definition of a function, method or lambda in a file of the project."""

    node: Scope
    module: Module
    owner: ClassDefinition | None = None
    prefix: str = ""
    """Qualified name of the class or function that contains it, and a dot: "Net."."""

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "<lambda>")

    @property
    def qualified(self) -> str:
        return f"{self.prefix}{self.name}"

    @cached_property
    def signature(self) -> Signature:
        """Its parameters and their defaults."""
        return signature_of(self.node)

    @cached_property
    def sets(self) -> frozenset[str] | None:
        """Attributes of `self` that it sets; None if it may change other objects."""
        return attributes_set_by(self.node)

    @cached_property
    def decorators(self) -> tuple[str, ...]:
        """Qualified names of the decorators, without arguments; "?" for one without a name."""
        found = getattr(self.node, "decorator_list", ())
        called = (one.func if isinstance(one, ast.Call) else one for one in found)
        return tuple(self.module.qualified(dotted(one)) or dotted(one) or "?" for one in called)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Nodes of its body, without those of functions and classes inside."""
        return tuple(own_nodes(self.node))


@dataclass(frozen=True, eq=False)
class ClassDefinition:
    """Definition of a class in a file of the project."""

    node: ast.ClassDef
    module: Module
    prefix: str = ""

    @property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def own_methods(self) -> dict[str, FunctionDefinition]:
        """Methods that the class itself defines, by name."""
        inside = f"{self.prefix}{self.name}."
        return {
            one.name: FunctionDefinition(one, self.module, self, inside)
            for one in statements_of(self.node.body)
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            and not any(dotted(d).endswith((".setter", "overload")) for d in one.decorator_list)
        }

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """Expressions that the class body assigns, by attribute."""
        return dict(assignments_in(statements_of(self.node.body)))

    @cached_property
    def annotated(self) -> dict[str, ast.expr]:
        """Annotations in the class body, by attribute."""
        return {
            one.target.id: one.annotation
            for one in statements_of(self.node.body)
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }

    @cached_property
    def bases(self) -> tuple[ClassDefinition | str, ...]:
        """Base classes: definitions of the project, or qualified names of external classes."""
        found: list[ClassDefinition | str] = []
        for node in self.node.bases:
            name = dotted(node.value if isinstance(node, ast.Subscript) else node)
            known = self.module.find(name)
            if isinstance(known, ClassDefinition) and known is not self:
                found.append(known)
            else:
                found.append(known if isinstance(known, str) else name or "?")
        return tuple(found)

    @cached_property
    def order(self) -> tuple[ClassDefinition | str, ...]:
        """The class and its bases, in the order in which attributes are looked up."""
        found: list[ClassDefinition | str] = []
        self._collect(found, 0)
        return tuple(found)

    def _collect(self, found: list[ClassDefinition | str], depth: int) -> None:
        if self in found or depth > 40:
            return
        found.append(self)
        for base in self.bases:
            if isinstance(base, ClassDefinition):
                base._collect(found, depth + 1)
            elif base not in found:
                found.append(base)

    @property
    def is_open(self) -> bool:
        """Whether some base class is unknown, so that attributes may come from it."""
        return any(isinstance(one, str) and one not in _CLOSED for one in self.order)

    def method(self, name: str, after: ClassDefinition | None = None) -> FunctionDefinition | None:
        """Return the method called `name`, own or inherited; None if the project defines none.

        With `after`, only bases later than this class in the lookup order count, as in `super()`.
        """
        if after is None or after not in self.order:
            return self.methods.get(name)
        for one in self.order[self.order.index(after) + 1 :]:
            if isinstance(one, ClassDefinition) and name in one.own_methods:
                return one.own_methods[name]
        return None

    @cached_property
    def methods(self) -> dict[str, FunctionDefinition]:
        """Methods, own or inherited, by name."""
        found: dict[str, FunctionDefinition] = {}
        for one in reversed(self.order):
            if isinstance(one, ClassDefinition):
                found |= one.own_methods
        return found

    @cached_property
    def written_outside_init(self) -> frozenset[str]:
        """Attributes of `self` that methods, own or inherited, except `__init__` assign."""
        known = (one.own_writes for one in self.order if isinstance(one, ClassDefinition))
        return frozenset().union(*known)

    @cached_property
    def own_writes(self) -> frozenset[str]:
        """Attributes of `self` that the class's own methods other than `__init__` assign."""
        return frozenset(
            attribute
            for name, method in self.own_methods.items()
            if name not in ("__init__", "__new__")
            for attribute in self_writes(method.node)
        )

    def has_base(self, names: Iterable[str]) -> bool:
        """Return whether an external class among `names` is a direct or indirect base."""
        return not self.external_bases.isdisjoint(names)

    @cached_property
    def external_bases(self) -> frozenset[str]:
        """Direct and indirect base classes outside the project."""
        return frozenset(one for one in self.order if isinstance(one, str))


_CLOSED = frozenset(
    {"torch.nn.Module", "object", "abc.ABC", "typing.Generic", "torch.nn.modules.Module"}
)


@dataclass(eq=False)
class Module:
    """A parsed file of the project, as a Python module."""

    source: Source
    name: str
    """Dotted name: "pkg.model"."""
    project: Project = field(repr=False)
    asked: set[str] = field(default_factory=set, repr=False)
    """Names of modules that were looked up for its code, whether or not a file was found."""

    @property
    def package(self) -> str:
        """Dotted name of the package to which its relative imports refer."""
        is_package = self.source.path.name == "__init__.py"
        return self.name if is_package else self.name.rpartition(".")[0]

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the text, numbered as in the syntax tree."""
        return self.source.lines

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """Statements of the module, also those nested in `if`, `try`, `with` and loops."""
        return list(statements_of(self.source.tree.body))

    @cached_property
    def imports(self) -> dict[str, str]:
        """Qualified names, by the names that imports bind."""
        return dict(imported_names(self.statements, self.package))

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """Modules from which `import *` takes all names."""
        return tuple(
            absolute_module(one, self.package)
            for one in statements_of(self.source.tree.body, types=False)
            if isinstance(one, ast.ImportFrom) and one.names[0].name == "*"
        )

    @cached_property
    def definitions(self) -> dict[str, FunctionDefinition | ClassDefinition]:
        """Functions and classes at the top level, by name."""
        found: dict[str, FunctionDefinition | ClassDefinition] = {}
        for one in self.statements:
            if isinstance(one, ast.ClassDef):
                found[one.name] = ClassDefinition(one, self)
            elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
                dotted(decorator).endswith("overload") for decorator in one.decorator_list
            ):
                found[one.name] = FunctionDefinition(one, self)
        return found

    @cached_property
    def local_classes(self) -> tuple[ClassDefinition, ...]:
        """Classes that functions of the module define."""
        tree = self.source.tree
        if not _INDENTED_CLASS.search(self.source.text):
            return ()
        return tuple(
            ClassDefinition(one, self, f"{around[0].name}.")
            for one in walk(tree)
            if isinstance(one, ast.ClassDef) and (around := functions_around(tree, one))
        )

    @cached_property
    def assigned(self) -> dict[str, list[ast.expr]]:
        """All expressions that the module assigns to each global name."""
        found: dict[str, list[ast.expr]] = {}
        for name, value in assignments_in(self.statements):
            found.setdefault(name, []).append(value)
        return found

    @cached_property
    def written_globals(self) -> frozenset[str]:
        """Names that functions of the module declare as `global`."""
        return frozenset(declared_globals(self.source.text, self.source.tree))

    def qualified(self, name: str) -> str:
        """Return the qualified name of a dotted name; "" if the file does not import it."""
        first, _, rest = name.partition(".")
        known = self.imports.get(first)
        if known is None:
            return ""
        return f"{known}.{rest}" if rest else known

    def find(self, name: str) -> FunctionDefinition | ClassDefinition | Module | str | None:
        """Return what a dotted name refers to in this module.

        This is a definition or module of the project, or the qualified name of something external;
        None if the name is unknown.
        """
        if not name:
            return None
        first, _, rest = name.partition(".")
        if first in self.definitions:
            return self.definitions[first] if not rest else None
        if (qualified := self.qualified(name)) != "":
            return self.project.find(qualified, self)
        for star in self.stars:
            inside = self.project.module(star, self)
            if inside is not None and inside is not self and (known := inside.find(name)):
                return known
        return None


class Project:
    """The checked files, and the files that they import from; each is read when first needed."""

    def __init__(self, files: Iterable[Path], texts: Iterable[Source] = ()) -> None:
        """`files` are the checked files; `texts` are sources used in place of the files on disk."""
        self.files = ModuleFiles(files)
        self._texts = {source.path.absolute(): source for source in texts}
        self._modules: dict[str, Module | None] = {}
        self._by_path: dict[Path, Module] = {}
        self._finding: set[str] = set()

    def with_text(self, source: Source) -> Project:
        """Return a project with one checked file, `source`, which shares all other modules."""
        other = Project([source.path], [source])
        own = other.files.name_of(source.path)
        other._modules = {name: one for name, one in self._modules.items() if name != own}
        other.files.find_as(self.files)
        return other

    def checked(self, file: Path) -> Module:
        """Return a checked file as a module. Raises CannotRead if it cannot be read or parsed."""
        path = file.absolute()
        if path not in self._by_path:
            self.files.digests.of(path)
            source = self._texts.get(path) or read_source(file)
            self._by_path[path] = Module(source, self.files.name_of(path), self)
        return self._by_path[path]

    def module(self, name: str, asking: Module | None = None) -> Module | None:
        """Return the module of a dotted name; None if the project has none.

        `asking` is the module whose code uses the name: its result depends on the answer.
        """
        if asking is not None:
            asking.asked.add(name)
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def _read(self, name: str) -> Module | None:
        path = self.files.locate(name)
        if path is None or len(self._by_path) > len(self.files.names) + MODULES_READ:
            return None
        with suppress(CannotRead):
            if path in self.files.names:
                return self.checked(path)
            if path not in self._by_path:
                self.files.digests.of(path)
                self._by_path[path] = Module(read_source(path), name, self)
            return self._by_path[path]
        return None

    def find(
        self, qualified: str, asking: Module | None = None
    ) -> FunctionDefinition | ClassDefinition | Module | str | None:
        """Return the definition or module that a qualified name refers to; else the name itself."""
        if qualified in self._finding:  # an import of itself
            return qualified
        self._finding.add(qualified)
        try:
            parts = qualified.split(".")
            for cut in range(len(parts), 0, -1):
                module = self.module(".".join(parts[:cut]), asking)
                if module is None:
                    continue
                rest = ".".join(parts[cut:])
                return module.find(rest) or qualified if rest else module
            return qualified
        finally:
            self._finding.discard(qualified)
