"""Find the names that a source text reads before it binds them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Point = tuple[int, int]
"""Line and column."""
_START: Point = (0, 0)
_GIVEN = {*dir(builtins), "__file__", "__name__", "__doc__", "__spec__", "__class__"}
"""Names that every module has."""


@dataclass(frozen=True)
class NameUse:
    """A variable, or an attribute of `self`, that a statement reads."""

    name: str
    statement: ast.stmt


@dataclass(frozen=True)
class NameUses:
    """The variables that a text reads before it binds them, and its attributes: read, defined."""

    unbound: tuple[NameUse, ...]
    """Variables that are read before they are bound."""
    attributes: tuple[NameUse, ...]
    """Attributes of `self` that are read."""
    provided: frozenset[str]
    """Attributes that the text assigns or defines."""

    def lost(self, before: NameUses) -> list[NameUse]:
        """Return the reads of names that are bound in `before` but not here."""
        known = {use.name for use in before.unbound}
        gone = before.provided - self.provided
        return [
            *(use for use in self.unbound if use.name not in known),
            *(use for use in self.attributes if use.name in gone),
        ]


def find_names(tree: ast.Module) -> NameUses:
    """Return the variables that a module reads before it binds them, and its attributes."""
    walk = _NameCollector()
    module = _NameScope("module", None)
    for statement in tree.body:
        walk.visit(statement, module, statement, ())
    unbound = () if walk.star else tuple(u.use for u in walk.uses if not u.bound())
    return NameUses(unbound, tuple(_self_reads(tree)), frozenset(_attributes_provided(tree)))


@dataclass(eq=False)
class _NameScope:
    """The names that a module, class, function or comprehension binds, and where it binds them."""

    kind: Literal["module", "class", "function", "comprehension"]
    parent: _NameScope | None
    bindings: dict[str, list[tuple[Point, tuple[ast.AST, ...]]]] = field(default_factory=dict)
    """By name, the position of each binding and the loops around it."""
    elsewhere: set[str] = field(default_factory=set)
    """Names that are declared global or nonlocal."""

    def add_binding(self, name: str, at: Point, loops: tuple[ast.AST, ...]) -> None:
        self.bindings.setdefault(name, []).append((at, loops))


@dataclass(frozen=True, eq=False)
class _Read:
    """A read of a name: its scope, its position and the loops around it."""

    use: NameUse
    scope: _NameScope
    at: Point
    loops: tuple[ast.AST, ...]

    def bound(self) -> bool:
        """Return whether the name may be bound when it is read.

        Code runs in text order, except in loops, and in functions, which run later.
        """
        scope: _NameScope | None = self.scope
        at_once, inner = True, True
        while scope is not None:
            seen = scope.kind != "class" or inner
            if seen and self.use.name in scope.bindings and self.use.name not in scope.elsewhere:
                if not at_once or scope.kind == "comprehension":
                    return True
                if any(self._may_follow(*binding) for binding in scope.bindings[self.use.name]):
                    return True
                if scope.kind == "function":
                    return False
            if scope.kind != "comprehension":
                inner = False
            if scope.kind == "function":
                at_once = False
            scope = scope.parent
        return self.use.name in _GIVEN

    def _may_follow(self, at: Point, loops: tuple[ast.AST, ...]) -> bool:
        """Return whether the read may run after a binding: it is later or in the same loop."""
        return at <= self.at or any(loop in loops for loop in self.loops)


class _NameCollector:
    """Visitor that collects the bindings and reads of a module."""

    def __init__(self) -> None:
        self.uses: list[_Read] = []
        self.star = False
        """Whether there is an `import *`, which may bind any name."""

    def visit(
        self, node: ast.AST, scope: _NameScope, statement: ast.stmt, loops: tuple[ast.AST, ...]
    ) -> None:
        """Collect the bindings and reads in a node.

        `statement` is the innermost statement that contains it, `loops` are the loops around it.
        """

        def go(*nodes: ast.AST | None, scope: _NameScope = scope) -> None:
            """Visit nodes, in this scope or another."""
            for one in nodes:
                if one is not None:
                    self.visit(one, scope, one if isinstance(one, ast.stmt) else statement, loops)

        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                go(*node.decorator_list, *_header_expressions(node.args), node.returns)
                scope.add_binding(node.name, _end_of(node), loops)
                self._visit_function(node.args, node.body, scope, statement)
            case ast.Lambda():
                go(*_header_expressions(node.args))
                self._visit_function(node.args, [node.body], scope, statement)
            case ast.ClassDef():
                go(*node.decorator_list, *node.bases, *node.keywords)
                go(*node.body, scope=_NameScope("class", scope))
                scope.add_binding(node.name, _end_of(node), loops)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                go(node.generators[0].iter)
                inner = _NameScope("comprehension", scope)
                for position, one in enumerate(node.generators):
                    go(one.target, *([one.iter] if position else ()), *one.ifs, scope=inner)
                go(*_elements_of(node), scope=inner)
            case ast.For() | ast.AsyncFor():
                go(node.iter)
                self._bind_targets(node.target, scope, statement, loops, _end_of(node.iter))
                loops = (*loops, node)
                go(*node.body)
                loops = loops[:-1]
                go(*node.orelse)
            case ast.While():
                loops = (*loops, node)
                go(node.test, *node.body)
                loops = loops[:-1]
                go(*node.orelse)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    go(item.context_expr)
                    if item.optional_vars is not None:
                        end = _end_of(item.context_expr)
                        self._bind_targets(item.optional_vars, scope, statement, loops, end)
                go(*node.body)
            case ast.ExceptHandler():
                go(node.type)
                if node.name:
                    scope.add_binding(node.name, (node.lineno, node.col_offset), loops)
                go(*node.body)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    self.star |= alias.name == "*"
                    name = alias.asname or alias.name.partition(".")[0]
                    scope.add_binding(name, _end_of(node), loops)
            case ast.Global() | ast.Nonlocal():
                scope.elsewhere.update(node.names)
                if isinstance(node, ast.Global):
                    for name in node.names:
                        _module_scope(scope).add_binding(name, _START, ())
            case ast.NamedExpr():
                go(node.value)
                while scope.kind == "comprehension" and scope.parent is not None:
                    scope = scope.parent
                scope.add_binding(node.target.id, _end_of(node), loops)
            case ast.AugAssign():
                go(node.value)
                if isinstance(node.target, ast.Name):
                    self._add_read(node.target, scope, statement, loops)
                self._bind_targets(node.target, scope, statement, loops, _end_of(statement))
            case ast.MatchAs() | ast.MatchStar() | ast.MatchMapping():
                held = node.rest if isinstance(node, ast.MatchMapping) else node.name
                if held:
                    scope.add_binding(held, _end_of(node), loops)
                go(*ast.iter_child_nodes(node))
            case ast.Name(ctx=ast.Store()):
                at = _START if scope.kind == "comprehension" else _end_of(statement)
                scope.add_binding(node.id, at, loops)
            case ast.Name():
                self._add_read(node, scope, statement, loops)
            case _:
                go(*ast.iter_child_nodes(node))

    def _add_read(
        self, node: ast.Name, scope: _NameScope, statement: ast.stmt, loops: tuple[ast.AST, ...]
    ) -> None:
        """Record that a name is read."""
        at = node.lineno, node.col_offset
        self.uses.append(_Read(NameUse(node.id, statement), scope, at, loops))

    def _bind_targets(
        self,
        target: ast.expr,
        scope: _NameScope,
        statement: ast.stmt,
        loops: tuple[ast.AST, ...],
        at: Point,
    ) -> None:
        """Record the names that an assignment target binds at `at`, and those that it reads."""
        for one in ast.walk(target):
            if isinstance(one, ast.Name):
                if isinstance(one.ctx, ast.Store):
                    scope.add_binding(one.id, at, loops)
                else:
                    self._add_read(one, scope, statement, loops)

    def _visit_function(
        self,
        args: ast.arguments,
        body: list[ast.stmt] | list[ast.expr],
        scope: _NameScope,
        statement: ast.stmt,
    ) -> None:
        """Collect the parameters and the body of a function in a new scope."""
        inner = _NameScope("function", scope)
        for arg in _parameters_of(args):
            inner.add_binding(arg.arg, _START, ())
        for one in body:
            self.visit(one, inner, one if isinstance(one, ast.stmt) else statement, ())


def _parameters_of(args: ast.arguments) -> list[ast.arg]:
    """Return all parameters of a function."""
    every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return [arg for arg in every if arg is not None]


def _header_expressions(args: ast.arguments) -> list[ast.expr | None]:
    """Return the defaults and annotations of parameters: code that runs when `def` runs."""
    notes = [arg.annotation for arg in _parameters_of(args)]
    return [*args.defaults, *args.kw_defaults, *notes]


def _elements_of(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
) -> list[ast.expr]:
    """Return the element expressions of a comprehension: [`k`, `v`] for `{k: v for …}`."""
    return [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]


def _end_of(node: ast.AST) -> Point:
    return node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def _module_scope(scope: _NameScope) -> _NameScope:
    """Return the outermost scope around `scope`, which is that of its module."""
    while scope.parent is not None:
        scope = scope.parent
    return scope


def _self_reads(tree: ast.Module) -> Iterator[NameUse]:
    """Yield each read of `self.name` in a method, with the innermost statement around it."""
    for kind in ast.walk(tree):
        if not isinstance(kind, ast.ClassDef):
            continue
        for method in kind.body:
            if isinstance(method, ast.FunctionDef) and method.args.args:
                own = method.args.args[0].arg
                for statement in method.body:
                    yield from _attribute_reads(own, statement, statement)


def _attribute_reads(own: str, node: ast.AST, statement: ast.stmt) -> Iterator[NameUse]:
    """Yield each read of an attribute in `node`: `self.x`, if `own` is "self".

    `statement` is the innermost statement around `node`.
    """
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id == own
    ):
        yield NameUse(node.attr, statement)
    for child in ast.iter_child_nodes(node):
        yield from _attribute_reads(own, child, child if isinstance(child, ast.stmt) else statement)


def _attributes_provided(tree: ast.Module) -> Iterator[str]:
    """Yield the attributes that a text may define.

    They are `a` of `x.a = 1`, names bound in a class body, and strings, which `setattr` may get.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr
            case ast.ClassDef():
                for statement in node.body:
                    yield from _class_names_bound(statement)
            case ast.Constant(value=str(value)) if value.isidentifier():
                yield value


def _class_names_bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a class body binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
