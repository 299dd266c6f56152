"""Proposals for calls: plain constructors, function bodies in place of calls."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from libcst import matchers as m

from fullgraph.minifier.reduce.source import inlining
from fullgraph.minifier.reduce.source.source_tree import (
    Changes,
    SourceTree,
    TreeEdit,
    replace_always,
    replace_expression,
)
from fullgraph.minifier.simplify.variables import mentions

_OPERATOR = re.compile(r"torch\.ops\.\w+\.(\w+)(?:\.default)?")
_NEW = re.compile(r"(?P<name>\w+) = (?P<kind>[\w.]+)\.__new__\((?P=kind)\)")


def call_constructors(tree: SourceTree) -> list[TreeEdit]:
    """Propose `x = K()` in place of `x = K.__new__(K)` and `nn.Module.__init__(x)`."""
    found = []
    lines = tree.nodes_of_kind(cst.SimpleStatementLine)
    for line in lines:
        made = _NEW.fullmatch(tree.code(line).strip())
        if made is None:
            continue
        call = cst.parse_statement(f"{made['name']} = {made['kind']}()")
        changes: Changes = {line: replace_always(call)}
        begun = re.compile(rf"[\w.]+\.__init__\({made['name']}\)")
        for other in lines:
            if begun.fullmatch(tree.code(other).strip()):
                changes[other] = lambda now: cst.RemoveFromParent()
        found.append(TreeEdit(changes))
    return found


def call_custom_operators(tree: SourceTree) -> list[TreeEdit]:
    """Propose `f(x)` in place of `torch.ops.library.f.default(x)`, if the script defines `f`."""
    defined = {node.name.value for node in tree.module.body if isinstance(node, cst.FunctionDef)}
    return [
        replace_expression(tree, call.func, made[1])
        for call in tree.nodes_of_kind(cst.Call)
        if (made := _OPERATOR.fullmatch(tree.code(call.func))) and made[1] in defined
    ]


def drop_attributes(tree: SourceTree) -> list[TreeEdit]:
    """Propose the argument `x` in place of each call `self.layer(x)`."""
    found = []
    for call in tree.nodes_of_kind(cst.Call):
        if m.matches(call, m.Call(m.Attribute(m.Name("self")), [m.Arg(keyword=None, star="")])):
            found.append(replace_expression(tree, call, tree.code(call.args[0].value)))
    return found


def inline_inner_calls(tree: SourceTree) -> list[TreeEdit]:
    """Propose the body of a function in place of its calls inside other functions."""
    edits = inlining.inline_functions(tree)
    return [edit for edit in edits if all(tree.function(node) is not None for node in edit.changes)]


def inline_passed_functions(tree: SourceTree) -> list[TreeEdit]:
    """Propose `g(lambda x: x + 1)` in place of `g(f)` if `f` only returns `x + 1`.

    The script must mention `f` nowhere else. If `f(x)` only returns `h(x)`, `g(h)` is proposed.
    """
    found: list[TreeEdit] = []
    for function in tree.module.body:
        match function:
            case cst.FunctionDef(
                name=cst.Name(value=name),
                body=cst.IndentedBlock(
                    body=[cst.SimpleStatementLine(body=[cst.Return(value=value)])]
                ),
            ) if value is not None and not function.decorators:
                found += _write_where_passed(tree, function, name, value)
    return found


def _write_where_passed(
    tree: SourceTree, function: cst.FunctionDef, name: str, value: cst.BaseExpression
) -> Iterator[TreeEdit]:
    """Yield the edit that writes a lambda in place of a function's name, passed as an argument.

    `name` is the function's name and `value` what it returns. Nothing if `name` is used otherwise.
    """
    _, *uses = mentions(tree, tree.module, name)
    if len(uses) == 1 and isinstance(tree.parents[uses[0]], cst.Arg) and tree.function(uses[0]):
        new: cst.BaseExpression = cst.Lambda(function.params, value)
        if isinstance(value, cst.Call) and _passes_on(tree, value, function.params):
            new = value.func
        yield TreeEdit({function: lambda now: cst.RemoveFromParent(), uses[0]: replace_always(new)})


def _passes_on(tree: SourceTree, call: cst.Call, params: cst.Parameters) -> bool:
    """Return whether the arguments of a call are exactly the parameters `params`, in order."""
    names = [param.name.value for param in params.params]
    return names == [tree.code(arg).rstrip(", ") for arg in call.args]


def inline_empty_functions(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove the calls of each function that does nothing."""
    found = []
    for function in tree.nodes_of_kind(cst.FunctionDef):
        if tree.parents[function] is not tree.module or not _does_nothing(tree, function):
            continue
        changes: Changes = {}
        for call in tree.nodes_of_kind(cst.Call):
            if tree.code(call.func) != function.name.value:
                continue
            parent = tree.parents[call]
            if isinstance(parent, cst.Expr):
                changes[tree.parents[parent]] = lambda now: cst.RemoveFromParent()
            else:
                changes[call] = lambda now: cst.Name("None")
        if changes:
            found.append(TreeEdit(changes))
    return found


def _does_nothing(tree: SourceTree, function: cst.FunctionDef) -> bool:
    """Return whether a function's body is only `pass`, `return` or `return None`."""
    body = [tree.code(one).strip() for one in function.body.body]
    return not function.decorators and body in (["pass"], ["return"], ["return None"])
