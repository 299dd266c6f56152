"""Facts observed in one eager run: types, shapes and values of expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.private import force_eager
from fullgraph.compiler.sources import (
    ORIGINAL,
    FunctionEdit,
    FunctionNode,
    Source,
    edit_functions,
    first_line,
    read_source,
)
from fullgraph.rewrites.analysis.seen import Plain, Seen, TensorSeen

VALUES = 16
"""Largest number of distinct values kept for an expression."""
Key = tuple[str, int, int | None, int | None, int | None]


@dataclass(frozen=True)
class Facts:
    """Observations by source position; plain data."""

    seen: dict[Key, Seen] = field(default_factory=dict)
    raised: str | None = None
    """Exception that ended the run early, as "ValueError: text"."""

    def at(self, position: Position) -> Seen | None:
        """Return the observations of the expression at `position`; None if there are none."""
        return self.seen.get(_key(position))


def observe(run: Callable[[], object], places: Iterable[Position]) -> Facts:
    """Run the user's code once in eager, and record the values of its expressions.

    Recorded are the functions around `places` and those of the same file that they call. Evaluation
    order, results and exceptions are those of the plain code. Call this in isolation."""
    records: dict[Key, _ValueRecord] = {}
    edits: list[FunctionEdit] = []
    for source, function in _functions_around(places):
        for node in _expressions(function):
            position = source.position(node)
            if _key(position) in records:
                continue
            name = f"_fullgraph_seen_{len(records)}"
            record = records[_key(position)] = _ValueRecord()
            edits.append(FunctionEdit(position, f"{name}({ORIGINAL})", {name: record}))
    with edit_functions(edits):
        raised = None
        try:
            with force_eager():
                run()
        except Exception as error:
            raised = f"{type(error).__name__}: {error}".partition("\n")[0]
    seen = {key: record.seen() for key, record in records.items() if record.count}
    return Facts(seen, raised)


def _functions_around(places: Iterable[Position]) -> Iterator[tuple[Source, FunctionNode]]:
    """Yield the outermost function around each place, and those of its file that it calls."""
    done: set[tuple[str, int]] = set()
    for place in places:
        source = read_source(place.file)
        if source is None:
            continue
        around = [
            node
            for node in source.parents
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and first_line(node) <= place.line <= (node.end_lineno or 0)
        ]
        for function in (*around[:1], *(_called_functions(source, around[0]) if around else ())):
            if (place.file, function.lineno) not in done:
                done.add((place.file, function.lineno))
                yield source, function


def _called_functions(source: Source, function: FunctionNode) -> Iterator[FunctionNode]:
    """Yield functions of this file that `function` calls as `helper(x)` or `self.helper(x)`."""
    names, methods = set[str](), set[str]()
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                names.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                methods.add(name)
    owner = source.parents.get(function)
    for node, parent in source.parents.items():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            beside = node.name in methods and parent is owner and isinstance(owner, ast.ClassDef)
            if beside or (node.name in names and isinstance(parent, ast.Module)):
                yield node


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions inside a function that a recording call can wrap."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            inner: list[ast.AST] = list(node.body)
        case ast.Lambda():
            inner = [node.body]
        case ast.AnnAssign():
            inner = [child for child in (node.target, node.value) if child]
        case ast.Match():
            parts = (part for case in node.cases for part in (case.guard, *case.body))
            inner = [node.subject, *(part for part in parts if part)]
        case ast.JoinedStr() | ast.Constant():
            inner = []
        case ast.Call(func=ast.Name(id="super")):
            inner = []
        case ast.Call():
            inner = [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
        case _:
            inner = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.expr) and _can_wrap(node):
        yield node
    for child in inner:
        yield from _expressions(child)


def _can_wrap(node: ast.expr) -> bool:
    """Whether a call that returns its argument can wrap `node`."""
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    if isinstance(node, ast.Tuple) and any(isinstance(item, ast.Slice) for item in node.elts):
        return False
    bare = ast.Constant | ast.Slice | ast.Starred | ast.NamedExpr | ast.JoinedStr
    return not isinstance(node, bare | ast.Yield | ast.YieldFrom | ast.Await)


@dataclass
class _ValueRecord:
    """Record of the values of one expression; calling it records a value and returns it."""

    count: int = 0
    types: dict[str, None] = field(default_factory=dict)
    tensors: dict[TensorSeen, None] = field(default_factory=dict)
    values: dict[tuple[type, Plain], None] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    items: dict[str, None] = field(default_factory=dict)

    def __call__(self, value: Any) -> Any:
        self.count += 1
        kind = type(value)
        self.types[_class_name(kind)] = None
        if isinstance(value, torch.Tensor):
            self._add_tensor(value)
        elif value is None or kind in (int, float, bool, str):
            if len(self.values) < VALUES:
                self.values[kind, value] = None
        elif isinstance(value, _NAMED | type):
            self.names[_qualified_name(value)] = None
        elif kind in (tuple, list, torch.Size):
            self.items |= dict.fromkeys(_class_name(type(item)) for item in value[:64])
        return value

    def seen(self) -> Seen:
        """Return this record as plain data."""
        return Seen(
            tuple(self.types),
            self.count,
            tuple(self.tensors),
            tuple(value for _, value in self.values),
            tuple(self.names),
            tuple(self.items),
        )

    def _add_tensor(self, value: torch.Tensor) -> None:
        """Record the metadata of a tensor."""
        if len(self.tensors) < VALUES:
            strided = value.layout is torch.strided
            tensor = TensorSeen(
                str(value.dtype).removeprefix("torch."),
                tuple(int(size) for size in value.shape),
                value.device.type,
                value.requires_grad,
                value.is_leaf,
                "strided" if strided else str(value.layout).removeprefix("torch."),
                type(value).__name__,
            )
            self.tensors[tensor] = None


_NAMED = FunctionType | BuiltinFunctionType | MethodType | ModuleType


def _class_name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _qualified_name(value: Any) -> str:
    """Return the name of a function, class or module, such as "torch.nn.functional.relu"."""
    if isinstance(value, ModuleType):
        return value.__name__
    owner = getattr(value, "__self__", None)
    name = str(getattr(value, "__qualname__", type(value).__name__))
    if isinstance(value, MethodType | BuiltinFunctionType) and not isinstance(
        owner, ModuleType | type | None
    ):
        return f"{_class_name(type(owner))}.{name.rpartition('.')[2]}"
    module = getattr(value, "__module__", None)
    return f"{module}.{name}" if module and module != "builtins" else name


def _key(position: Position) -> Key:
    return (
        position.file,
        position.line,
        position.column,
        position.end_line,
        position.end_column,
    )
