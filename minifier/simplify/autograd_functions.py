"""Proposals for subclasses of `torch.autograd.Function`: static methods, no unread inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import (
    CurrentNode,
    Replacement,
    SourceTree,
    TreeEdit,
    remove_node,
    replace_always,
    replace_expression,
)
from fullgraph.minifier.simplify.results import without_element
from fullgraph.minifier.simplify.variables import mentions

_STATIC = ("forward", "backward", "setup_context", "jvp", "vmap")
"""Methods of an autograd function that are static."""
_NEW_TENSORS = ("torch.ones(", "torch.zeros(")
_STATICMETHOD = cst.Decorator(cst.Name("staticmethod"))


def static_methods(tree: SourceTree) -> list[TreeEdit]:
    """Propose `@staticmethod` for the methods of each autograd function."""
    found = []
    for kind in _function_classes(tree):
        methods = [
            method
            for name, method in _methods_of(kind).items()
            if name in _STATIC and not method.decorators
        ]
        if methods:
            found.append(TreeEdit({method: _as_static(method) for method in methods}))
    return found


def drop_function_arguments(tree: SourceTree) -> list[TreeEdit]:
    """Propose the removal of each input that `forward` of an autograd function does not read."""
    found = []
    for kind in _function_classes(tree):
        methods = _methods_of(kind)
        forward = methods.get("forward")
        if forward is None:
            continue
        params = forward.params.params["setup_context" not in methods :]
        for index, param in enumerate(params):
            if mentions(tree, forward.body, param.name.value) or len(params) == 1:
                continue
            changes = dict(remove_node(param).changes)
            for call in tree.nodes_of_kind(cst.Call):
                if tree.code(call.func) == f"{kind.name.value}.apply" and index < len(call.args):
                    changes.update(remove_node(call.args[index]).changes)
            for value in _returned_tuples(tree, methods.get("backward")):
                changes[value] = replace_always(without_element(value, index))
            found.append(TreeEdit(changes))
    return found


def return_inputs(tree: SourceTree) -> list[TreeEdit]:
    """Propose `return x.clone()` in place of `return torch.ones(3)` in `forward`.

    Only if `forward` does not read its input `x`; `x.detach()` is proposed, too.
    """
    found = []
    for kind in _function_classes(tree):
        methods = _methods_of(kind)
        forward = methods.get("forward")
        params = forward.params.params["setup_context" not in methods :] if forward else ()
        if forward is None or not params or mentions(tree, forward.body, params[0].name.value):
            continue
        for node in tree.inside(forward):
            value = node.value if isinstance(node, cst.Return) else None
            if value is not None and tree.code(value).startswith(_NEW_TENSORS):
                for method in ("clone", "detach"):
                    text = f"{params[0].name.value}.{method}()"
                    found.append(replace_expression(tree, value, text))
    return found


def _function_classes(tree: SourceTree) -> Iterator[cst.ClassDef]:
    """Yield the subclasses of `autograd.Function` in the script."""
    for kind in tree.nodes_of_kind(cst.ClassDef):
        bases = [tree.code(base.value) for base in kind.bases]
        if any(base.rpartition(".")[2] == "Function" for base in bases):
            yield kind


def _methods_of(kind: cst.ClassDef) -> dict[str, cst.FunctionDef]:
    """Return {name: method} for the methods of a class."""
    return {one.name.value: one for one in kind.body.body if isinstance(one, cst.FunctionDef)}


def _as_static(method: cst.FunctionDef) -> Callable[[CurrentNode], Replacement]:
    """Return the change that makes a method static."""

    def change(now: CurrentNode) -> Replacement:
        """Return the method after the other edits, with the decorator."""
        return now(method).with_changes(decorators=[_STATICMETHOD])

    return change


def _returned_tuples(tree: SourceTree, method: cst.FunctionDef | None) -> Iterator[cst.Tuple]:
    """Yield the tuples that a method returns; nothing for None."""
    for node in tree.inside(method) if method is not None else ():
        if isinstance(node, cst.Return) and isinstance(node.value, cst.Tuple):
            yield node.value
