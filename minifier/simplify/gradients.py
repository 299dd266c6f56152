"""Proposals to compare the gradient of an input instead of that of a parameter."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import (
    Changes,
    CurrentNode,
    Replacement,
    SourceTree,
    TreeEdit,
    replace_expression,
)
from fullgraph.minifier.simplify.construction import drop_attributes
from fullgraph.minifier.simplify.variables import is_call_of, mentions

_OF_PARAMETER = re.compile(r"\w+(\.\w+)+\.grad")
_NEW = re.compile(r"(?P<model>\w+)\.(?P<name>\w+) = (?:nn|torch\.nn)\.Parameter\((?P<value>.*)\)")


def compare_input_gradient(tree: SourceTree) -> list[TreeEdit]:
    """Propose to compare `x.grad` in place of `model.weight.grad`, and `x` for `self.layer(x)`."""
    compared = [
        node
        for node in tree.nodes_of_kind(cst.Attribute)
        if _OF_PARAMETER.fullmatch(tree.code(node))
    ]
    inputs = [
        (name, call)
        for line in tree.nodes_of_kind(cst.Assign)
        if (call := line.value)
        and isinstance(call, cst.Call)
        and tree.code(call.func) in ("torch.ones", "torch.randn", "torch.rand", "torch.zeros")
        and (name := tree.code(line.targets[0].target)).isidentifier()
    ]
    if not compared or len({tree.code(node) for node in compared}) != 1:
        return []
    found = []
    for name, call in inputs:
        text = tree.code(call)
        if "requires_grad" not in text:
            text = f"{text[:-1]}, requires_grad=True)"
        edits = [replace_expression(tree, node, f"{name}.grad") for node in compared]
        edits += [replace_expression(tree, call, text), *drop_attributes(tree)]
        found.append(TreeEdit({node: c for edit in edits for node, c in edit.changes.items()}))
    return found


def pass_parameter(tree: SourceTree) -> list[TreeEdit]:
    """Propose to make a parameter of the model an argument of its `forward` instead."""
    found = []
    for line in tree.module.body:
        made = _NEW.fullmatch(tree.code(line).strip())
        methods = _forward_methods(tree, made["model"]) if made is not None else []
        if made is None or len(methods) != 1 or mentions(tree, tree.module, made["name"]):
            continue
        found.append(_pass_as_argument(tree, line, made, methods[0]))
    return found


def _forward_methods(tree: SourceTree, model: str) -> list[cst.FunctionDef]:
    """Return the `forward` methods of the class of the script's variable `model`."""
    made = re.search(rf"^{model} = (\w+)\(", tree.text, re.MULTILINE)
    return [
        method
        for kind in tree.nodes_of_kind(cst.ClassDef)
        if made is not None and kind.name.value == made[1]
        for method in kind.body.body
        if isinstance(method, cst.FunctionDef) and method.name.value == "forward"
    ]


def _pass_as_argument(
    tree: SourceTree, line: cst.CSTNode, made: re.Match[str], method: cst.FunctionDef
) -> TreeEdit:
    """Return the edit that makes a parameter of the model the last argument of `forward`.

    `made` is the match of the statement `line`, which sets the parameter.
    """
    name, value = made["name"], made["value"]
    plain = re.fullmatch(r"torch\.(?:ones|zeros|randn|rand)\(.*\)", value)
    text = f"{value[:-1]}, requires_grad=True)" if plain else f"{value}.requires_grad_()"
    statement = cst.parse_statement(f"{name} = {text}")
    changes: Changes = {
        line: lambda now: statement,
        method.params: lambda now: _with_parameter(now(method.params), name),
    }
    for node in tree.nodes_of_kind(cst.Attribute):
        if node.attr.value == name and tree.parents[node] is not line:
            changes[node] = lambda now: cst.Name(name)
    for call in tree.nodes_of_kind(cst.Call):
        if is_call_of(tree, call, made["model"]):
            changes[call] = _with_argument(call, name)
    changes.pop(_target_of(line), None)
    return TreeEdit(changes)


def _target_of(line: cst.CSTNode) -> cst.CSTNode:
    """Return the target of an assignment."""
    assert isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Assign)
    return line.body[0].targets[0].target


def _with_parameter(params: cst.CSTNode, name: str) -> cst.CSTNode:
    """Return the parameters with `name` added at the end."""
    assert isinstance(params, cst.Parameters)
    return params.with_changes(params=[*params.params, cst.Param(cst.Name(name))])


def _with_argument(call: cst.Call, name: str) -> Callable[[CurrentNode], Replacement]:
    """Return the change that adds the argument `name` to a call."""

    def change(now: CurrentNode) -> Replacement:
        """Return the call after the other edits, with the argument."""
        made = now(call)
        assert isinstance(made, cst.Call)
        return made.with_changes(args=[*made.args, cst.Arg(cst.Name(name))])

    return change
