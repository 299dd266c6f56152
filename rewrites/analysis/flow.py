"""Data flow of names: reads, bindings, in-place updates, liveness, definite assignment.

A name is that of a local variable or a path of attributes on one: "x", "self.scale".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.source import (
    Document,
    FunctionNode,
    children_of,
    dotted_name,
    find_all,
    walk,
)

_EXITS = {"exit", "quit", "sys.exit"}
"""Functions that raise SystemExit."""
_BLOCKS = cst.IndentedBlock | cst.SimpleStatementSuite | cst.Module
_SCOPES = cst.FunctionDef | cst.Lambda | cst.ClassDef
_COMPREHENSIONS = cst.ListComp | cst.SetComp | cst.DictComp | cst.GeneratorExp


def chain_root(node: cst.CSTNode, stop: m.BaseMatcherNode | None = None) -> cst.CSTNode:
    """Return the start of a chain of attributes, calls and subscripts: `a` for `a.b(c)[0]`.

    With `stop`, that is the outermost part of the chain that this pattern matches, if one does.
    """
    while isinstance(node, cst.Attribute | cst.Call | cst.Subscript):
        if stop is not None and m.matches(node, stop):
            break
        node = node.func if isinstance(node, cst.Call) else node.value
    return node


def split_statements(block: cst.BaseSuite | cst.Module) -> list[cst.CSTNode]:
    """Return the statements of a block; those that share a line are separated."""
    found: list[cst.CSTNode] = []
    for line in block.body:
        found += line.body if isinstance(line, cst.SimpleStatementLine) else [line]
    return found


def names_read(*nodes: cst.CSTNode) -> frozenset[str]:
    """Return the names that the nodes read: for `self.a.b` "self", "self.a" and "self.a.b"."""
    return frozenset(name for node in nodes for name in _paths_read(node))


def names_bound(*nodes: cst.CSTNode) -> tuple[str, ...]:
    """Return the names that statements bind, in order; "x" for `x += 1` and `del x` too."""
    return tuple(dict.fromkeys(name for node in nodes for name in _paths_written(node)))


def names_mutated(*nodes: cst.CSTNode) -> tuple[str, ...]:
    """Return the names that statements update in place: `x[0] = 1`, `x += 1`, `x.add_(1)`."""
    return tuple(dict.fromkeys(name for node in nodes for name in _paths_mutated(node)))


def assignment_targets(node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
    """Return the targets that a node assigns, binds or deletes, tuples unpacked; () if none."""
    match node:
        case cst.Assign():
            return tuple(t for one in node.targets for t in _flatten_target(one.target))
        case cst.AnnAssign() if node.value is not None:
            return (node.target,)
        case cst.AugAssign() | cst.NamedExpr():
            return (node.target,)
        case cst.For() | cst.CompFor():
            return tuple(_flatten_target(node.target))
        case cst.With():
            return tuple(t for i in node.items if i.asname for t in _flatten_target(i.asname.name))
        case cst.Del():
            return tuple(_flatten_target(node.target))
    return ()


def binds_variable(scope: FunctionNode | cst.Module, name: str) -> bool:
    """Return whether a scope, or a function inside it, binds `name`, other than by an import."""
    nodes = [*walk(scope)]
    parameters = [one.name.value for one in nodes if isinstance(one, cst.Param)]
    targets = [dotted_name(target) for one in nodes for target in assignment_targets(one)]
    return name in parameters or name in targets


def ends_program(document: Document, node: cst.CSTNode) -> bool:
    """Return whether a node is a call that raises SystemExit, such as `sys.exit(1)`.

    Return False if the file itself defines or assigns that name.
    """
    if not isinstance(node, cst.Call) or document.qualified_name(node.func) not in _EXITS:
        return False
    name = dotted_name(node.func).partition(".")[0]
    definitions = m.FunctionDef(m.Name(name)) | m.ClassDef(m.Name(name))
    return not binds_variable(document.module, name) and not find_all(document.module, definitions)


def has_raise(document: Document, node: cst.CSTNode) -> bool:
    """Return whether a node holds a `raise`, an `assert` or a call that ends the program."""
    return any(
        isinstance(o, cst.Raise | cst.Assert) or ends_program(document, o) for o in walk(node)
    )


def removable_line(document: Document, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
    """Return the line of `node` if it is one statement and not alone in its block; else None.

    Also None for `a, b = x, y`, which assigns more than `node`.
    """
    line = document.statement(node)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return None
    if isinstance(document.parent(node), cst.Element):
        return None
    block = document.parent(line)
    return line if len(getattr(block, "body", ())) > 1 else None


def parameter_names(function: cst.FunctionDef | cst.Lambda) -> tuple[str, ...]:
    """Return the names of all parameters."""
    return tuple(n.name.value for n in walk(function.params) if isinstance(n, cst.Param))


def statements_after(document: Document, node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Return the statements that may run after `node` in its function, in later iterations too.

    Statements of other branches of an `if` are left out, unless a loop leads back to them.
    """
    found: list[cst.CSTNode] = []
    inner = node
    for outer in document.ancestors(node):
        if isinstance(outer, _SCOPES):
            break
        if isinstance(outer, _BLOCKS | cst.SimpleStatementLine):
            body: Sequence[cst.CSTNode] = outer.body
            if inner in body:
                found += body[body.index(inner) + 1 :]  # nodes are compared by identity
        elif isinstance(outer, cst.For | cst.While):
            found.append(outer)
        elif isinstance(outer, cst.Try | cst.TryStar):
            found += [part for part in (*outer.handlers, outer.orelse, outer.finalbody) if part]
        inner = outer
    return tuple(found)


def live_out(document: Document, node: cst.CSTNode, *following: cst.CSTNode) -> frozenset[str]:
    """Return the names that may be read after statement `node` before they are bound again.

    `following` are statements right after `node` that are treated as a part of it. Attributes are
    always live, because other code may hold the object. So are names that are global, nonlocal, or
    read by a nested function.
    """
    live = live_in(statements_after(document, (node, *following)[-1]))
    function = document.function(node)
    shared: set[str] = set()
    for one in walk(function) if function is not None else ():
        if one is not function and isinstance(one, cst.FunctionDef | cst.Lambda):
            shared |= names_read(one)
        elif isinstance(one, cst.Global | cst.Nonlocal):
            shared |= {item.name.value for item in one.names}
    attributes = {one for one in names_bound(node, *following) if "." in one}
    return frozenset(live | shared | attributes)


def names_bound_before(document: Document, node: cst.CSTNode) -> frozenset[str]:
    """Return the local names that are definitely bound when statement `node` starts."""
    found: set[str] = set()
    inner = node
    for outer in document.ancestors(node):
        if isinstance(outer, cst.FunctionDef | cst.Lambda):
            found |= set(parameter_names(outer))
            break
        if isinstance(outer, _BLOCKS | cst.SimpleStatementLine) and inner in outer.body:
            body = outer.body
            for one in body[: body.index(inner)]:
                found |= names_surely_bound(one)
        elif isinstance(outer, cst.For | cst.With) and inner is outer.body:
            found |= {dotted_name(target) for target in assignment_targets(outer)}
        inner = outer
    return frozenset(found - {""})


def names_surely_bound(node: cst.CSTNode) -> set[str]:
    """Return the names that a statement binds on every path that reaches its end."""
    match node:
        case cst.If():
            if node.orelse is None:
                return set()
            if isinstance(node.orelse, cst.Else):
                return _names_assigned(node.body) & _names_assigned(node.orelse.body)
            return _names_assigned(node.body) & names_surely_bound(node.orelse)
        case cst.With():
            return _names_assigned(node.body) | {
                dotted_name(target) for target in assignment_targets(node)
            }
        case cst.SimpleStatementLine():
            return {n for one in node.body for n in names_surely_bound(one)}
        case cst.Assign() | cst.AnnAssign() | cst.AugAssign():
            return {dotted_name(target) for target in assignment_targets(node)}
        case cst.FunctionDef() | cst.ClassDef():
            return {node.name.value}
    return set()


def always_exits(document: Document, node: cst.CSTNode) -> bool:
    """Return whether control never reaches the end of a node: it returns, raises, breaks, …"""
    match node:
        case cst.Return() | cst.Raise() | cst.Break() | cst.Continue():
            return True
        case cst.Expr(value=call):
            return ends_program(document, call)
        case cst.SimpleStatementLine() | cst.IndentedBlock() | cst.SimpleStatementSuite():
            return bool(node.body) and always_exits(document, node.body[-1])
        case cst.If():
            blocks = (node.body, node.orelse)
            return all(one is not None and always_exits(document, one) for one in blocks)
        case cst.Else():
            return always_exits(document, node.body)
    return False


def _names_assigned(block: cst.BaseSuite) -> set[str]:
    return {n for one in split_statements(block) for n in names_surely_bound(one)}


def live_in(code: Iterable[cst.CSTNode]) -> set[str]:
    """Return the names that statements read before they definitely bind them: "x" in `y = x; y`."""
    live: set[str] = set()
    written: set[str] = set()
    for one in code:
        parts = one.body if isinstance(one, cst.SimpleStatementLine) else (one,)
        for part in parts:
            live |= _reads_first(part) - written
            written |= names_surely_bound(part)
    return live


def _reads_first(node: cst.CSTNode) -> set[str]:
    """Return the names that a statement reads before it definitely binds them."""
    match node:
        case cst.For():
            return _loop_reads(node)
        case cst.If():
            other = node.orelse.body if isinstance(node.orelse, cst.Else) else None
            inside = live_in(split_statements(node.body))
            inside |= live_in(split_statements(other)) if other is not None else set()
            inside |= _reads_first(node.orelse) if isinstance(node.orelse, cst.If) else set()
            return {*names_read(node.test), *inside}
    return {*names_read(node)}


def _loop_reads(loop: cst.For) -> set[str]:
    """Return the names that a loop reads before an iteration definitely binds them."""
    blocks = [loop.body, *([loop.orelse.body] if loop.orelse is not None else ())]
    inside = {name for block in blocks for name in live_in(block.body)}
    bound = {one.value for one in _flatten_target(loop.target) if isinstance(one, cst.Name)}
    return {*names_read(loop.iter), *_target_reads(loop.target), *(inside - bound)}


def _paths_read(node: cst.CSTNode) -> Iterator[str]:
    """Yield the names and dotted paths that a node reads before it binds them."""
    match node:
        case cst.Name():
            yield node.value
        case cst.Attribute():
            if path := dotted_name(node):
                yield path
            yield from _paths_read(node.value)
        case cst.Assign():
            for one in node.targets:
                yield from _target_reads(one.target)
            yield from _paths_read(node.value)
        case cst.AnnAssign():
            yield from _target_reads(node.target)
            if node.value is not None:
                yield from _paths_read(node.value)
        case cst.NamedExpr():
            yield from _paths_read(node.value)
        case cst.Arg():
            yield from _paths_read(node.value)
        case cst.For() | cst.CompFor():
            yield from _target_reads(node.target)
            for child in children_of(node):
                if child is not node.target:
                    yield from _paths_read(child)
        case cst.AsName():
            yield from _target_reads(node.name)
        case cst.FunctionDef() | cst.Lambda():
            inside = {n for child in children_of(node) for n in _paths_read(child)}
            own = {*parameter_names(node), *names_bound(node.body)}
            yield from sorted(n for n in inside if n.partition(".")[0] not in own)
        case _:
            for child in children_of(node):
                yield from _paths_read(child)


def _target_reads(target: cst.BaseExpression) -> Iterator[str]:
    """Yield the names read to evaluate an assignment target: "x" and "i" for `x[i] = 0`."""
    for one in _flatten_target(target):
        if isinstance(one, cst.Attribute):
            yield from _paths_read(one.value)
        elif not isinstance(one, cst.Name):
            yield from _paths_read(one)


def _paths_written(node: cst.CSTNode) -> Iterator[str]:
    """Yield the names and dotted paths that a node binds, except inside nested functions."""
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        yield node.name.value
    elif isinstance(node, cst.ImportAlias):
        yield node.evaluated_alias or dotted_name(node.name).partition(".")[0]
    if isinstance(node, _SCOPES | _COMPREHENSIONS):
        return
    for target in assignment_targets(node):
        if path := dotted_name(target):
            yield path
    for child in children_of(node):
        yield from _paths_written(child)


def _paths_mutated(node: cst.CSTNode) -> Iterator[str]:
    """Yield the names and dotted paths of the values that a node updates in place."""
    for one in walk(node):
        changed: cst.BaseExpression | None = None
        if isinstance(one, cst.AugAssign):
            changed = one.target
        elif isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute):
            method = one.func.attr.value
            if method.endswith("_") and not method.endswith("__"):
                changed = one.func.value
        else:
            for target in assignment_targets(one):
                if isinstance(target, cst.Subscript):
                    yield from filter(None, [_base_of(target)])
        if changed is not None and (path := _base_of(changed)):
            yield path


def _base_of(node: cst.BaseExpression) -> str:
    """Return the name or path below subscripts and calls: "x" for `x[0][1]`; "" if none."""
    while isinstance(node, cst.Subscript | cst.Call):
        node = node.value if isinstance(node, cst.Subscript) else node.func
        if isinstance(node, cst.Attribute) and not dotted_name(node):
            node = node.value
    return dotted_name(node)


def _flatten_target(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the parts of an assignment target: `a`, `b`, `c` of `(a, [b, c])`."""
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _flatten_target(element.value)
    else:
        yield target
