"""Proposals for statements: their removal, or their body in place of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from fullgraph.minifier.reduce.source.observe import ObservedRun
from fullgraph.minifier.reduce.source.source_tree import (
    Replacement,
    SourceTree,
    TreeEdit,
    remove_node,
    replace_always,
)

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


def depth_of(tree: SourceTree, node: cst.CSTNode) -> int:
    """Return the number of blocks around a statement; 0 at the top level."""
    return sum(isinstance(one, cst.IndentedBlock) for one in tree.ancestors(node))


def find_depth(tree: SourceTree) -> int:
    """Return the depth of the most deeply nested statement; 0 at the top level."""
    return max((depth_of(tree, node) for node in _statements(tree)), default=0)


def at_depth(level: int) -> Callable[[SourceTree], list[TreeEdit]]:
    """Return a proposer that removes the statements inside `level` blocks; 0 is the top level.

    It also removes the `else` and `finally` branches that contain such statements.
    """

    def propose(tree: SourceTree) -> list[TreeEdit]:
        """Propose the removal of each statement at the depth."""
        found = [node for node in _statements(tree) if depth_of(tree, node) == level]
        found = [node for node in found if not _is_pass(node)]
        arms = [
            arm
            for arm in tree.nodes_of_kind(cst.Else, cst.Finally)
            if depth_of(tree, arm) == level - 1
        ]
        return [_remove_edit(tree, node) for node in (*arms, *found)]

    return propose


def remove_statements(tree: SourceTree) -> list[TreeEdit]:
    """Propose the removal of each statement and each `else` branch, outer ones first."""
    found = sorted(_statements(tree), key=lambda node: depth_of(tree, node))
    found = [node for node in found if not _is_pass(node) or len(_siblings_of(tree, node)) > 1]
    return [
        _remove_edit(tree, node) for node in (*found, *tree.nodes_of_kind(cst.Else, cst.Finally))
    ]


def bare_values(tree: SourceTree) -> list[TreeEdit]:
    """Propose a part of a statement in place of the statement.

    `f(x)` for `y = f(x)`, for `return f(x)` and for `g(f(x))`; `i + 1` for `y[i + 1] = x`.
    """
    return [
        TreeEdit({node: replace_always(cst.Expr(part))})
        for node in tree.nodes_of_kind(cst.Assign, cst.AugAssign, cst.Return, cst.Expr)
        for part in _parts_of(node)
        if not isinstance(part, cst.Name | cst.BaseNumber | cst.SimpleString)
    ]


def _parts_of(node: cst.BaseSmallStatement) -> Iterator[cst.BaseExpression]:
    """Yield the expressions in a statement that could take its place.

    `f(x)` in `y = f(x)`, `return f(x)` and `g(f(x))`; also `i` in `y[i] = x`.
    """
    match node:
        case cst.Assign() | cst.AugAssign() | cst.Return(value=cst.BaseExpression()):
            assert node.value is not None
            yield node.value
        case cst.Expr(value=cst.Call(func=function, args=args)):
            inner = [function.value] if isinstance(function, cst.Attribute) else []
            inner += [arg.value for arg in args]
            yield from (part for part in inner if isinstance(part, cst.Call))
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(slice=[element]))]):
            if isinstance(element.slice, cst.Index):
                yield element.slice.value


def remove_unexecuted(facts: ObservedRun) -> Callable[[SourceTree], list[TreeEdit]]:
    """Return a proposer that removes statements of functions that an eager run did not execute.

    `facts` is what the run showed; if it has no lines, nothing is proposed.
    """

    def propose(tree: SourceTree) -> list[TreeEdit]:
        """Propose the removal of each statement in a function that was not executed."""
        if not facts.lines:
            return []
        found = []
        for node in _statements(tree):
            inside = tree.function(node) is not None
            place = tree.place(node) if inside else None
            if place is not None and place[0] not in facts.lines and not _is_pass(node):
                found.append(_remove_edit(tree, node))
        return found

    return propose


def unwrap_compounds(tree: SourceTree) -> list[TreeEdit]:
    """Propose a compound statement's body or branch in place of it: `f()` for `if c: f()`."""
    return [edit for node in _compounds(tree) for edit in _bodies_of(tree, node)]


def constant_branches(tree: SourceTree) -> list[TreeEdit]:
    """Propose the taken branch in place of each `if True:` or `if False:`."""
    found = []
    for node in tree.nodes_of_kind(cst.If):
        if tree.code(node.test) in ("True", "False"):
            arms = [*_bodies_of(tree, node), _remove_edit(tree, node)]
            found.append(arms[0 if tree.code(node.test) == "True" else 1])
    return found


def unread_assignments(tree: SourceTree) -> list[TreeEdit]:
    """Propose the removal of each assignment whose target nothing reads, and of `x = x`."""
    module = ast.parse(tree.text)
    attributes = {
        node.attr
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    read: dict[str, set[str]] = {}
    for function in (module, *ast.walk(module)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            read.setdefault(getattr(function, "name", ""), set()).update(_names_read(function))
    found = []
    for node in tree.nodes_of_kind(cst.Assign):
        line, function_ = tree.parents[node], tree.function(node)
        names = read[function_.name.value if function_ is not None else ""]
        target = node.targets[0].target
        match target:
            case cst.Name(value=name):
                useless = name not in names or tree.code(node.value) == name
            case cst.Attribute(value=cst.Name(), attr=cst.Name(value=name)):
                useless = name not in attributes
            case _:
                useless = False
        if useless and len(node.targets) == 1:
            found.append(_remove_edit(tree, line))
    return found


def _names_read(function: ast.AST) -> set[str]:
    """Return the names of the variables that the code inside an AST node reads."""
    return {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _statements(tree: SourceTree) -> Sequence[Statement]:
    return tree.nodes_of_kind(cst.SimpleStatementLine, cst.BaseCompoundStatement)


def _compounds(tree: SourceTree) -> list[cst.CSTNode]:
    return tree.nodes_of_kind(cst.If, cst.For, cst.While, cst.With, cst.Try)


def _siblings_of(tree: SourceTree, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """Return the statements of the block that contains `node`; () if it is in no block."""
    parent = tree.parents[node]
    return parent.body if isinstance(parent, cst.Module | cst.IndentedBlock) else ()


def _remove_edit(tree: SourceTree, node: cst.CSTNode) -> TreeEdit:
    """Return the edit that removes a statement; if it is an `elif`, also the branches after it."""
    parent = tree.parents[node]
    if isinstance(parent, cst.If) and parent.orelse is node and isinstance(node, cst.If):
        return TreeEdit({node: lambda now: cst.RemoveFromParent()}, len(tree.code(node)))
    return remove_node(node, len(tree.code(node)))


def _is_pass(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Pass)


def _bodies_of(tree: SourceTree, node: cst.CSTNode) -> Iterator[TreeEdit]:
    """Yield the edits that replace a compound statement by its body or one of its branches."""
    match node:
        case cst.If():
            parent = tree.parents[node]
            if isinstance(parent, cst.If) and parent.orelse is node:  # an `elif`
                yield TreeEdit({node: lambda now: cst.Else(_suite_of(now(node)))})
                return
            yield TreeEdit({node: lambda now: _flattened_body(now(node))})
            if isinstance(node.orelse, cst.Else):
                yield TreeEdit({node: lambda now: _flattened_body(_orelse_of(now(node)))})
            elif node.orelse is not None:
                yield TreeEdit({node: lambda now: _orelse_of(now(node))})
        case cst.For():
            yield TreeEdit({node: lambda now: _first_iteration(now(node))})
            yield TreeEdit({node: lambda now: _flattened_body(now(node))})
        case cst.With():
            yield TreeEdit({node: lambda now: _bound_with(now(node))})
        case cst.While() | cst.Try():
            yield TreeEdit({node: lambda now: _flattened_body(now(node))})


def _suite_of(node: cst.CSTNode) -> cst.BaseSuite:
    """Return the body of a compound statement, such as `if` or `for`, or of an `else`."""
    assert isinstance(node, cst.If | cst.Else | cst.For | cst.While | cst.With | cst.Try)
    return node.body


def _orelse_of(node: cst.CSTNode) -> cst.If | cst.Else:
    """Return the `else` or `elif` branch of an `if`."""
    assert isinstance(node, cst.If) and node.orelse is not None
    return node.orelse


def _flattened_body(node: cst.CSTNode) -> Replacement:
    """Return the statements in a compound statement's body, to put in its place.

    `break` and `continue` are left out; `pass` is returned if nothing is left.
    """
    kept = [one for one in _suite_of(node).body if not _is_loop_exit(one)]
    return cst.FlattenSentinel(kept or [_pass_statement()])


def _is_loop_exit(statement: cst.CSTNode) -> bool:
    """Return whether a statement is `break` or `continue`."""
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], cst.Break | cst.Continue
    )


def _pass_statement() -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Pass()])


def _first_iteration(node: cst.CSTNode) -> Replacement:
    """Return a loop as its first iteration: `x = xs[0]; f(x)` for `for x in xs: f(x)`.

    An `async for` is returned as it is.
    """
    assert isinstance(node, cst.For)
    if node.asynchronous is not None:
        return node
    bind = cst.Assign([cst.AssignTarget(node.target)], _first_element(node.iter))
    body = _flattened_body(node)
    assert isinstance(body, cst.FlattenSentinel)
    return cst.FlattenSentinel([cst.SimpleStatementLine([bind]), *body])


def _first_element(iterable: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression for the first element: `xs[0]` of `xs`, `0` of `range(3)`."""
    zero = cst.Integer("0")
    match iterable:
        case cst.Call(func=cst.Name("range"), args=args):
            return zero if len(args) < 2 else args[0].value
        case cst.Call(func=cst.Name("enumerate"), args=[cst.Arg(value=inner), *_]):
            return cst.Tuple([cst.Element(zero), cst.Element(_first_element(inner))])
        case cst.Call(func=cst.Name("zip"), args=args) if args:
            return cst.Tuple([cst.Element(_first_element(arg.value)) for arg in args])
        case (
            cst.Tuple(elements=[cst.Element(value=first), *_])
            | cst.List(elements=[cst.Element(value=first), *_])
        ):
            return first
        case cst.Name() | cst.Attribute() | cst.Subscript():
            index = cst.SubscriptElement(cst.Index(zero))
            return cst.Subscript(iterable, [index])
    inner = cst.Call(cst.Name("iter"), [cst.Arg(iterable)])
    return cst.Call(cst.Name("next"), [cst.Arg(inner)])


def _bound_with(node: cst.CSTNode) -> Replacement:
    """Return a `with` as plain statements: `x = f(); g(x)` for `with f() as x: g(x)`."""
    assert isinstance(node, cst.With)
    binds = [
        cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(item.asname.name)], item.item)])
        for item in node.items
        if item.asname is not None and isinstance(item.asname.name, cst.Name)
    ]
    body = _flattened_body(node)
    assert isinstance(body, cst.FlattenSentinel)
    return cst.FlattenSentinel([*binds, *body])
