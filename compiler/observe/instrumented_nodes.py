"""Expressions and statements to instrument or replace at a graph break, and their uses."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from enum import StrEnum

from fullgraph.compiler.events import Position
from fullgraph.compiler.sources import FunctionNode, Source, read_source


class NodeUse(StrEnum):
    """How the surrounding code uses an expression: as a "value", "truth", "index", …

    For a statement, what it does: "store" or "bind".
    """

    VALUE = "value"
    TRUTH = "truth"
    """Only its truth value is used: a condition, or an operand of `not`."""
    OPERAND = "operand"
    """An operand of `and` or `or`: its truth value is used, and it may be the result."""
    INDEX = "index"
    """A bound of a slice, or the subject of `match`; usually a number."""
    ITERATE = "iterate"
    """It is iterated over or unpacked."""
    ENTER = "enter"
    """A `with` statement enters it."""
    STORE = "store"
    """A statement that stores into an object, or deletes from it."""
    BIND = "bind"
    """A statement that assigns names: a class, an import, `n += …`."""


@dataclass(frozen=True)
class InstrumentedNode:
    """Expression or statement to instrument, and how the surrounding code uses it.

    `names` are the names that a statement assigns, if its use is BIND; otherwise ().
    """

    at: Position
    use: NodeUse
    text: str
    names: tuple[str, ...] = ()


class NotInstrumentable(Exception):
    """Raised for a position that cannot be instrumented; the message is the reason, a clause."""


def nodes_to_instrument(position: Position) -> tuple[InstrumentedNode, ...]:
    """Return the nodes to instrument at a graph break's position, in source order; never empty.

    The position may be that of a whole statement: for `if x:`, CPython gives the jump the position
    of the `if`, and the node to instrument is `x`. Raises NotInstrumentable.
    """
    source = read_source(position.file)
    if source is None:
        raise NotInstrumentable("its source cannot be read")
    node = _node_at(source, position) or source.statement_at(position.line)
    if node is None:
        raise NotInstrumentable("its source cannot be found")
    found = [
        InstrumentedNode(
            source.position(piece, position.function),
            use,
            source.segment(piece),
            _bound_names(piece),
        )
        for piece, use in _nodes_of(source, node, position.function)
        if not isinstance(piece, ast.Constant)
    ]
    if not found:
        raise NotInstrumentable("nothing in it can be replaced")
    return tuple(found)


def _node_at(source: Source, position: Position) -> ast.AST | None:
    """Return the node that has the start and end of `position`, else one that has its start.

    None if there is neither.
    """
    return source.node(position) or source.node(replace(position, end_line=None))


NodeUses = list[tuple[ast.expr | ast.stmt, NodeUse]]


def _nodes_of(source: Source, node: ast.AST, function: str) -> NodeUses:
    """Return the parts of `node` to instrument, each with its NodeUse.

    For `if a and b:` they are `a` and `b`; for `for x in y:` it is `y`. `function` is the name of
    the code object that contains `node`: "forward", "<lambda>". Raises NotInstrumentable.
    """
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            raise NotInstrumentable(_describe_function(node))
        case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
            return _condition_operands(node.test)
        case ast.For():
            return [(node.iter, NodeUse.ITERATE)]
        case ast.With():
            return [(item.context_expr, NodeUse.ENTER) for item in node.items]
        case ast.Assign() | ast.AnnAssign() | ast.Return() | ast.Expr() if node.value:
            return _nodes_of(source, node.value, function)
        case ast.AugAssign(target=ast.Name()) | ast.ClassDef() | ast.Import() | ast.ImportFrom():
            return [(node, NodeUse.BIND)]
        case ast.AugAssign() | ast.Delete():
            return [(node, NodeUse.STORE)]
        case ast.Raise():
            raise NotInstrumentable("it raises an exception")
        case ast.Match():
            return [(node.subject, NodeUse.INDEX)]
        case ast.pattern():
            return _nodes_of(source, _ancestor_of_kind(source, node, ast.Match), function)
        case ast.stmt():
            raise NotInstrumentable(
                f"a whole `{type(node).__name__.lower()}` statement has no value"
            )
        case ast.expr():
            return _nodes_of_expression(source, node, function)
    raise NotInstrumentable("it is no expression")


def _nodes_of_expression(source: Source, node: ast.expr, function: str) -> NodeUses:
    """Return what to instrument for the expression `node`, each part with its NodeUse.

    For the `x.f` of `x.f(y)`, this is the whole call. `function` is the name of the code object
    that contains `node`: "forward", "<lambda>". Raises NotInstrumentable.
    """
    parent = source.parents[node]
    truth = _is_condition(source, node)
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return _nodes_of_target(source, node)
    match node:
        case ast.Attribute() if isinstance(parent, ast.Call) and parent.func is node:
            return _nodes_of_expression(
                source, parent, function
            )  # a bound method is not a value to keep
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp() if truth:
            return _condition_operands(node)
        case ast.BoolOp():
            return [(operand, NodeUse.OPERAND) for operand in node.values[:-1]]
        case ast.Slice():
            bounds = (node.lower, node.upper, node.step)
            return [(bound, NodeUse.INDEX) for bound in bounds if bound]
        case ast.Starred():
            return [(node.value, NodeUse.ITERATE)]
        case ast.NamedExpr():
            return [(node.value, NodeUse.VALUE)]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() if (
            function.startswith("<")
        ):
            tests = [test for loop in node.generators for test in loop.ifs]
            loops: NodeUses = [(loop.iter, NodeUse.ITERATE) for loop in node.generators]
            return loops + [piece for test in tests for piece in _condition_operands(test)]
    for inner in ast.walk(node):
        if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await):
            raise NotInstrumentable("it suspends the function")
        if isinstance(inner, ast.NamedExpr):
            raise NotInstrumentable("it also assigns a name")
    if isinstance(parent, ast.withitem):
        return [(node, NodeUse.ENTER)]
    operand = isinstance(parent, ast.BoolOp) and parent.values[-1] is not node
    return [(node, NodeUse.TRUTH if truth else NodeUse.OPERAND if operand else NodeUse.VALUE)]


def _nodes_of_target(source: Source, node: ast.expr) -> NodeUses:
    """Return what to instrument if `node` is the target of a statement, with its NodeUse.

    For the targets of `a, b = x` and of `for a, b in x`, it is `x`; for `x[0] = y`, the whole
    statement. Raises NotInstrumentable for any other target, such as that of `a = x`.
    """
    around = source.parents[node]
    while isinstance(around, ast.Tuple | ast.List | ast.Starred):
        node, around = around, source.parents[around]
    unpacks = isinstance(node, ast.Tuple | ast.List)
    match around:
        case ast.Assign() if unpacks:
            return [(around.value, NodeUse.ITERATE if len(around.targets) == 1 else NodeUse.VALUE)]
        case ast.Assign() if len(around.targets) == 1 and not isinstance(node, ast.Name):
            return [(around, NodeUse.STORE)]
        case ast.AugAssign() | ast.Delete():
            return [(around, NodeUse.STORE)]
        case ast.AnnAssign() if around.value and not isinstance(node, ast.Name):
            return [(around, NodeUse.STORE)]
        case ast.For() | ast.comprehension() if unpacks:
            return [(around.iter, NodeUse.ITERATE)]
    raise NotInstrumentable("it is the target of an assignment")


def _condition_operands(test: ast.expr) -> NodeUses:
    """Return the innermost operands of a condition: `a` and `b` of `a or not b`.

    If the condition has no `and`, `or` and `not`, return the condition itself.
    """
    match test:
        case ast.BoolOp():
            return [piece for operand in test.values for piece in _condition_operands(operand)]
        case ast.UnaryOp(op=ast.Not()):
            return _condition_operands(test.operand)
    return [(test, NodeUse.TRUTH)]


def _is_condition(source: Source, node: ast.expr) -> bool:
    """Return whether only the truth value of an expression is used."""
    parent = source.parents[node]
    match parent:
        case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
            return parent.test is node
        case ast.comprehension():
            return node in parent.ifs
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.BoolOp():
            return _is_condition(source, parent)
    return False


def _ancestor_of_kind(source: Source, node: ast.AST, kind: type[ast.AST]) -> ast.AST:
    """Return the innermost ancestor of a node that has the class `kind`."""
    return next(outer for outer in source.ancestors(node) if isinstance(outer, kind))


def _describe_function(node: FunctionNode) -> str:
    """Return the reason why a position at a whole function cannot be instrumented."""
    yields = any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))
    if isinstance(node, ast.AsyncFunctionDef):
        return "it is a whole coroutine function"
    return f"it is a whole {'generator ' if yields else ''}function"


def _bound_names(node: ast.expr | ast.stmt) -> tuple[str, ...]:
    """Return the names that `x += 1`, a class or an import binds; () for other nodes."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name)) | ast.ClassDef(name=name):
            return (name,)
        case ast.Import() | ast.ImportFrom():
            return tuple(a.asname or a.name.partition(".")[0] for a in node.names)
    return ()


def subexpressions(position: Position, depth: int = 2) -> tuple[InstrumentedNode, ...]:
    """Return the operands of the expression at `position`, down to `depth` levels of nesting.

    For `x + y * z`: `x`, `y * z`, `y` and `z`. Literals are left out. () if no expression is there.
    """
    source = read_source(position.file)
    node = _node_at(source, position) if source else None
    if source is None or node is None:
        return ()
    found: list[ast.expr] = []
    level: list[ast.AST] = [node]
    for _ in range(depth):
        level = [inner for outer in level for inner in _operands(outer)]
        found += [inner for inner in level if isinstance(inner, ast.expr)]
    return tuple(
        InstrumentedNode(
            source.position(inner, position.function), NodeUse.VALUE, source.segment(inner)
        )
        for inner in found
        if not isinstance(inner, ast.Constant)
    )


def _operands(node: ast.AST) -> list[ast.expr]:
    """Return those direct operands of a node that can be wrapped in a recording call."""
    match node:
        case ast.Call():
            inner: list[ast.expr | None] = [*node.args, *(word.value for word in node.keywords)]
            if isinstance(node.func, ast.Attribute):
                inner.insert(0, node.func.value)
        case ast.Attribute() | ast.Starred() | ast.NamedExpr():
            inner = [node.value]
        case ast.Subscript():
            inner = [node.value, node.slice]
        case ast.Slice():
            inner = [node.lower, node.upper, node.step]
        case ast.Compare():
            inner = [node.left, *node.comparators]
        case ast.BinOp():
            inner = [node.left, node.right]
        case ast.UnaryOp():
            inner = [node.operand]
        case ast.BoolOp():
            inner = [*node.values]
        case ast.Tuple() | ast.List():
            inner = [*node.elts]
        case ast.IfExp():
            inner = [node.test, node.body, node.orelse]
        case ast.If() | ast.While() | ast.Assert():
            inner = [node.test]
        case ast.For():
            inner = [node.iter]
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Return():
            inner = [node.value]
        case _:
            inner = []
    found: list[ast.expr] = []
    for operand in inner:
        if isinstance(operand, ast.Slice | ast.Starred) or _contains_slice(operand):
            found += _operands(operand)  # type: ignore[arg-type]
        elif operand is not None and not isinstance(operand, ast.Constant | ast.GeneratorExp):
            found.append(operand)
    return found


def _contains_slice(node: ast.expr | None) -> bool:
    """Return whether a node is a tuple that contains a slice or a starred item: `1:, 0`."""
    return isinstance(node, ast.Tuple) and any(
        isinstance(item, ast.Slice | ast.Starred) for item in node.elts
    )


def condition_around(position: Position) -> InstrumentedNode | None:
    """Return the condition that contains an expression: `x.item() > 0` for its `x.item()`.

    None if no condition contains it, or if the condition contains `:=`.
    """
    source = read_source(position.file)
    node = source.node(position) if source else None
    while source is not None and isinstance(node, ast.expr) and not isinstance(node, ast.Lambda):
        if _is_condition(source, node) and not isinstance(node, ast.UnaryOp | ast.BoolOp):
            if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node)):
                return None
            at = source.position(node, position.function)
            return InstrumentedNode(at, NodeUse.TRUTH, source.segment(node))
        node = source.parents[node]
    return None


def context_managers_at(position: Position) -> tuple[Position, ...]:
    """Return the positions of the context expressions of the `with` statement at `position`.

    If `position` is itself that of a context expression, return only that. () if there is no
    `with`.
    """
    source = read_source(position.file)
    node = _node_at(source, position) if source else None
    if source is None or node is None:
        return ()
    if isinstance(source.parents.get(node), ast.withitem):
        return (position,)
    if not isinstance(node, ast.With | ast.AsyncWith):
        return ()
    return tuple(source.position(item.context_expr, position.function) for item in node.items)


def branch_runs_code(position: Position, truth: bool) -> bool:
    """Return whether the branch taken if the condition is `truth` may run code of its own.

    For `if c: y = f(x)`, that is so if `truth` is True. A branch that only raises has no code of
    its own. The condition is the one that contains `position`.
    """
    source = read_source(position.file)
    node: ast.AST | None = source.node(position) if source else None
    if source is None or node is None:
        return False
    for around in source.ancestors(node):
        match around:
            case ast.UnaryOp(op=ast.Not()):
                truth = not truth
            case ast.BoolOp():
                return not isinstance(_ancestor_of_kind(source, around, ast.stmt), ast.Assert)
            case ast.If():
                branch = around.body if truth else around.orelse
                leaves = (ast.Return, ast.Raise, ast.Continue, ast.Break)
                if not branch:
                    return isinstance(around.body[-1], leaves)
                return not (len(branch) == 1 and isinstance(branch[0], ast.Raise | ast.Pass))
            case ast.IfExp():
                value = around.body if truth else around.orelse
                return not isinstance(value, ast.Constant | ast.Name | ast.Attribute)
            case ast.While() | ast.comprehension():
                return True
            case _:
                return False
    return False
