"""Which assignments change state from call to call, so that guards fail."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from fullgraph.rewrites.check.interpreter.machine import Frame, Note
from fullgraph.rewrites.check.interpreter.values import (
    ClassObject,
    Function,
    Instance,
    Literal,
    Plain,
    Value,
)
from fullgraph.rewrites.check.project import ClassDefinition, FunctionDefinition
from fullgraph.rewrites.check.syntax import dotted, walk

NUMBERS = frozenset({"int", "float", "bool"})
READ = "state.read"
"""Note of a read of an attribute or global that may hold what an earlier call assigned."""
READ_VALUE = "state.read_value"
"""The same, by an operator that None does not have."""
READ_MISSING = "state.read_missing"
"""The same, by `hasattr`, or by `getattr` with a default."""
MADE = "state.made"
"""Note of an instance that the compiled code makes: what it holds does not outlive the call."""
CALLED = "state.called"
"""Note of a function that compiled code calls: its arguments come from there."""
ANY_READ = (READ, READ_VALUE, READ_MISSING)
_REMOVES = frozenset({"pop", "popleft", "popitem", "clear", "remove", "discard"})
_JOINS = frozenset({"cat", "concat", "concatenate", "hstack", "vstack"})


def construct_of_update(
    kind: ClassDefinition, name: str, before: Value | None, after: Value, carried: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the construct of an assignment to an attribute, and the reads that it needs.

    An example is "recompile.module_int" for `self.n += 1` in a module; "" if the assignment causes
    no recompiles. It causes some only if the compiled code reads the attribute by one of the reads.

    `kind` is the class, `name` the attribute, `before` its value after `__init__`, `after` the
    assigned one. `carried` is True if `after` is computed from the old value.
    """
    owner = owner_of(kind)
    if before is None:
        return f"recompile.{owner}_none", (READ_MISSING,)
    if _is_none(before):
        return ("", ()) if _is_none(after) else (f"recompile.{owner}_none", (READ, READ_MISSING))
    if any(isinstance(one, Function) and one.scope is not None for one in after):
        return f"recompile.{owner}_function", ANY_READ
    known = kind_of_plain(before)
    if known and (carried or differs(initial_constant(kind, name), after)):
        return f"recompile.{owner}_{known}", ANY_READ
    return "", ()


def owner_of(kind: ClassDefinition) -> str:
    """Return "module" for a class of modules, else "object"."""
    is_module = kind.has_base(["torch.nn.Module"]) or any(
        isinstance(one, str) and one.startswith("torch.nn.") for one in kind.order
    )
    return "module" if is_module else "object"


def kind_of_plain(value: Value) -> str:
    """Return the type that all alternatives of a value have: "int", "float", "bool" or "str".

    "" if they differ, or are of other types.
    """
    kinds = {one.kind if isinstance(one, Plain | Literal) else "" for one in value}
    found = kinds.pop() if len(kinds) == 1 else ""
    return found if found in NUMBERS or found == "str" else ""


def differs(constant: ast.Constant | None, after: Value) -> bool:
    """Return whether an assigned value differs from the constant with which it began.

    A computed int counts as another one, a computed bool or str does not.
    """
    if constant is None or len(after) != 1:
        return False
    match after[0]:
        case Literal(value=value):
            return value is not None and (type(value), value) != (
                type(constant.value),
                constant.value,
            )
        case Plain(kind="int" | "float"):
            return type(constant.value) in (int, float)
    return False


def initial_constant(kind: ClassDefinition, name: str) -> ast.Constant | None:
    """Return the constant that the class body or `__init__` assigns to an attribute, if it is one.

    None if another expression, or more than one, is assigned.
    """
    method = kind.method("__init__")
    found = [
        value
        for node in (method.nodes if method is not None else ())
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target, value in assignments(node)
        if isinstance(target, ast.Attribute) and target.attr == name
    ]
    if not found:
        bodies = (one.assigned for one in kind.order if isinstance(one, ClassDefinition))
        found = [next((body[name] for body in bodies if name in body), ast.Name(name))]
    return found[0] if len(found) == 1 and isinstance(found[0], ast.Constant) else None


def assignments(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of an assignment with the expression that it gets.

    An element of a tuple gets that of the tuple on the right if there is one, else all of it.
    """
    assert node.value is not None
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        match target, node.value:
            case (
                (ast.Tuple() | ast.List()) as targets,
                (ast.Tuple() | ast.List()) as values,
            ) if len(targets.elts) == len(values.elts):
                yield from zip(targets.elts, values.elts, strict=True)
            case ast.Tuple() | ast.List() as targets, value:
                yield from ((one, value) for one in targets.elts)
            case one, value:
                yield one, value


def _is_none(value: Value) -> bool:
    return bool(value) and all(isinstance(o, Literal) and o.value is None for o in value)


def carries(node: ast.expr, path: str, function: FunctionDefinition) -> bool:
    """Return whether an expression reads a path such as "self.n", also through local variables."""
    todo: list[ast.expr] = [node]
    seen: set[str] = set()
    while todo:
        expression = todo.pop()
        if reads(expression, path):
            return True
        names = {one.id for one in walk(expression) if isinstance(one, ast.Name)} - seen
        seen |= names
        for one in function.nodes if names else ():
            if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None:
                todo += [
                    v for t, v in assignments(one) if isinstance(t, ast.Name) and t.id in names
                ]
    return False


def reads(node: ast.AST, path: str) -> bool:
    """Return whether an expression reads the variable or attribute `path`, such as "self.n".

    "self.n[]" means an element of it.
    """
    container = path.removesuffix("[]")
    for one in walk(node):
        if isinstance(one, ast.Subscript) and container != path:
            found = dotted(one.value) == container
        else:
            read = isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Load)
            found = read and dotted(one) == path
        if found:
            return True
    return False


def lengthens(node: ast.expr, path: str) -> bool:
    """Return whether an expression joins the whole tensor `path` with others, as `torch.cat`."""
    match node:
        case ast.Call(func=function, args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]):
            joins = dotted(function).rpartition(".")[2] in _JOINS
            return joins and any(dotted(one) == path for one in parts)
    return False


def shortens(function: FunctionDefinition, path: str) -> bool:
    """Return whether a function removes entries of the container `path`, such as "self.stack"."""
    for node in function.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=container, attr=name)) if name in _REMOVES:
                found = dotted(container) == path
            case ast.Delete(targets=targets):
                parts = [one.value for one in targets if isinstance(one, ast.Subscript)]
                found = any(dotted(one) == path for one in parts)
            case _:
                continue
        if found:
            return True
    return False


def operands_in(function: FunctionDefinition) -> frozenset[ast.AST]:
    """Return the expressions of a function that operators read which None does not have."""
    found: set[ast.AST] = set()
    for node in function.nodes:
        match node:
            case ast.BinOp(left=left, right=right):
                found |= {left, right}
            case ast.UnaryOp(op=ast.USub(), operand=one) | ast.Call(func=one):
                found.add(one)
            case ast.Attribute(value=one) | ast.Subscript(value=one) | ast.AugAssign(value=one):
                found.add(one)
            case ast.For(iter=one) | ast.Starred(value=one):
                found.add(one)
    return frozenset(found)


def is_fresh(frames: list[Frame], name: str) -> bool:
    """Return whether a function on the call stack `frames` has already assigned an attribute.

    `name` is "n" for `self.n`. Each call of that function then assigns the attribute first, so its
    old value does not matter.
    """
    return any(name in frame.stored for frame in frames)


def owners_of(value: Value) -> list[ClassDefinition]:
    """Return the project's classes of which the value may be an instance, or which it may be."""
    return [one.kind for one in value if isinstance(one, Instance | ClassObject)]


def state_of(kind: ClassDefinition, name: str = "") -> str:
    """Return the key of an attribute of a class in notes; without a name, that of the class."""
    return f"{kind.module.name}:{kind.prefix}{kind.name}.{name}"


def state_of_inputs(function: FunctionDefinition) -> str:
    """Return the key of a function's arguments in notes."""
    return f"{function.module.name}:{function.qualified}()"


def without_unread(notes: Iterable[Note]) -> Iterator[Note]:
    """Yield the notes of which the state is read, and outlives the call."""
    notes = list(notes)
    read: Mapping[str, set[str]] = {one: set() for one in ANY_READ}
    made = {note.state for note in notes if note.construct in (MADE, CALLED)}
    for note in notes:
        if note.construct in read:
            read[note.construct].add(note.state)
    for note in notes:
        known = not note.needs or any(note.state in read[one] for one in note.needs)
        inside = f"{note.state.rpartition('.')[0]}." in made or note.state in made
        if known and not inside:
            yield note
