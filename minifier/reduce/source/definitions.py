"""Proposals for functions and classes: fewer declarations, bases and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import (
    Changes,
    SourceTree,
    TreeEdit,
    remove_node,
    replace_always,
)


def remove_declarations(tree: SourceTree) -> list[TreeEdit]:
    """Propose the removal of docstrings, annotations and `if __name__` blocks."""
    found = []
    for node in tree.nodes_of_kind(cst.Annotation):
        parent = tree.parents[node]
        if isinstance(parent, cst.AnnAssign):
            if tree.function(parent) is not None or not isinstance(
                _enclosing_definition(tree, parent), cst.ClassDef
            ):
                found.append(_drop_annotation(parent))
        else:
            found.append(TreeEdit({node: lambda now: cst.RemoveFromParent()}))
    for block in tree.nodes_of_kind(cst.IndentedBlock):
        first = block.body[0]
        if _is_docstring(first):
            found.append(remove_node(first, len(tree.code(first))))
    for statement in tree.module.body:
        script = isinstance(statement, cst.If) and "__name__" in tree.code(statement.test)
        if script or _is_docstring(statement):
            found.append(remove_node(statement, len(tree.code(statement))))
    return found


def remove_decorators(tree: SourceTree) -> list[TreeEdit]:
    """Propose the removal of decorators, base classes and class keywords."""
    found = [remove_node(node) for node in tree.nodes_of_kind(cst.Decorator)]
    for node in tree.nodes_of_kind(cst.ClassDef):
        found += [remove_node(arg) for arg in (*node.bases, *node.keywords)]
    return found


def unread_parameters(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove each parameter that its function does not read, and its arguments."""
    found = []
    for function in tree.nodes_of_kind(cst.FunctionDef):
        kind = class_of(tree, function)
        offset = 1 if kind is not None and not _is_static(function) else 0
        for index, param in enumerate(function.params.params[offset:]):
            if _mentions(tree, function.body, param.name.value):
                continue
            changes = dict(remove_node(param).changes)
            for call in _calls_of(tree, function, kind):
                for arg in _argument_for(call, index, param.name.value):
                    changes.update(remove_node(arg).changes)
            for element in _entry_inputs(tree, function, kind, index):
                changes.update(remove_node(element).changes)
            found.append(TreeEdit(changes))
        for param in function.params.kwonly_params:
            if not _mentions(tree, function.body, param.name.value):
                found.append(remove_node(param))
        for star in (function.params.star_arg, function.params.star_kwarg):
            if isinstance(star, cst.Param) and not _mentions(tree, function.body, star.name.value):
                found.append(remove_node(star))
    return found


def classes_to_functions(tree: SourceTree) -> list[TreeEdit]:
    """Propose a function in place of each class whose only method does not read `self`."""
    found = []
    for kind in tree.nodes_of_kind(cst.ClassDef):
        methods = [one for one in kind.body.body if isinstance(one, cst.FunctionDef)]
        running = [one for one in methods if one.name.value != "__init__"]
        if len(running) != 1 or not running[0].params.params:
            continue
        method = running[0]
        own = method.params.params[0].name.value
        if _is_static(method) or not _mentions(tree, method.body, own):
            edit = _as_function(tree, kind, method)
            if edit is not None:
                found.append(edit)
    return found


def merge_bases(tree: SourceTree) -> list[TreeEdit]:
    """Propose `class A(C)` in place of `class A(B)` if the script has `class B(C)`.

    A second proposal also copies the members of `B` into `A`.
    """
    kinds = {node.name.value: node for node in tree.nodes_of_kind(cst.ClassDef)}
    found = []
    for kind in kinds.values():
        for arg in kind.bases:
            base = kinds.get(tree.code(arg.value))
            if base is None or base is kind:
                continue
            own = {one.name.value for one in kind.body.body if isinstance(one, cst.FunctionDef)}
            inherited = [
                one
                for one in base.body.body
                if not isinstance(one, cst.FunctionDef) or one.name.value not in own
            ]
            body = kind.body.with_changes(body=[*inherited, *kind.body.body])
            bases = [
                one for other in kind.bases for one in (base.bases if other is arg else (other,))
            ]
            for new in (kind.with_changes(bases=bases), kind.with_changes(bases=bases, body=body)):
                found.append(TreeEdit({kind: replace_always(new)}))
    return found


# How they are written.


def _enclosing_definition(tree: SourceTree, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the innermost function or class around `node`."""
    kinds = (cst.ClassDef, cst.FunctionDef)
    return next((one for one in tree.ancestors(node) if isinstance(one, kinds)), None)


def _drop_annotation(node: cst.AnnAssign) -> TreeEdit:
    """Return the edit that removes an annotation: `x: int = 1` → `x = 1`.

    Without a value (`x: int`), the whole statement is removed.
    """
    if node.value is None:
        return TreeEdit({node: lambda now: cst.RemoveFromParent()})
    plain = cst.Assign([cst.AssignTarget(node.target)], node.value)
    return TreeEdit({node: lambda now: plain})


def _is_docstring(statement: cst.CSTNode) -> bool:
    """Return whether a statement is a string and nothing else, as a docstring is."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    small = statement.body[0]
    return isinstance(small, cst.Expr) and isinstance(
        small.value, cst.SimpleString | cst.ConcatenatedString
    )


def class_of(tree: SourceTree, function: cst.FunctionDef) -> cst.ClassDef | None:
    """Return the class of which `function` is a method; None for other functions."""
    holder = _enclosing_definition(tree, function)
    return holder if isinstance(holder, cst.ClassDef) else None


def _is_static(function: cst.FunctionDef) -> bool:
    """Return whether a function is a static method."""
    return any(
        isinstance(one.decorator, cst.Name) and one.decorator.value == "staticmethod"
        for one in function.decorators
    )


def _mentions(tree: SourceTree, body: cst.CSTNode, name: str) -> bool:
    """Return whether a block mentions the variable `name`; `super()` mentions "self"."""
    for node in tree.inside(body):
        if isinstance(node, cst.Name) and node.value == name:
            parent = tree.parents[node]
            if isinstance(parent, cst.Attribute) and parent.attr is node:
                continue
            if isinstance(parent, cst.Arg) and parent.keyword is node:
                continue
            return True
        if name == "self" and isinstance(node, cst.Call) and not node.args:
            called = tree.code(node.func)
            if called in ("locals", "super"):
                return True
    return False


def _calls_of(
    tree: SourceTree, function: cst.FunctionDef, kind: cst.ClassDef | None
) -> list[cst.Call]:
    """Return the calls in a script that may call `function`.

    `kind` is the class of which it is a method; None for a plain function. Calls are found by name:
    that of the function, of the class for `__init__`, of an instance for `forward`.
    """
    name = function.name.value
    names = {name}
    if kind is not None:
        if name == "__init__":
            names = {kind.name.value}
        elif name in ("forward", "__call__"):
            names = {name, *_instance_names(tree, kind.name.value)}
    found = []
    for call in tree.nodes_of_kind(cst.Call):
        last = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
        if isinstance(last, cst.Name) and last.value in names:
            found.append(call)
    return found


def _instance_names(tree: SourceTree, kind: str) -> Iterator[str]:
    """Yield the names that instances of the class `kind` have: "net" for `self.net = K()`."""
    for node in tree.nodes_of_kind(cst.Assign):
        if isinstance(node.value, cst.Call) and tree.code(node.value.func) == kind:
            for target in node.targets:
                yield tree.code(target.target).rpartition(".")[2]


def _argument_for(call: cst.Call, index: int, name: str) -> list[cst.Arg]:
    """Return [argument] that a call passes for the parameter `name`; [] if it passes none.

    `index` is the parameter's position, without counting `self`.
    """
    by_name = [a for a in call.args if a.keyword is not None and a.keyword.value == name]
    plain = [a for a in call.args if a.keyword is None and not a.star]
    return by_name or plain[index : index + 1]


def _entry_inputs(
    tree: SourceTree, function: cst.FunctionDef, kind: cst.ClassDef | None, index: int
) -> list[cst.BaseElement]:
    """Return [expression] for the input that `build()` returns for the parameter at `index`.

    The parameter is that of `function`; `kind` is the class if it is a method. [] if the model that
    `build()` returns is neither this function nor an object of this class.
    """
    for node in tree.nodes_of_kind(cst.Return):
        outer = tree.function(node)
        if outer is None or outer.name.value != "build" or not isinstance(node.value, cst.Tuple):
            continue
        model, inputs = (one.value for one in node.value.elements[:2])
        text = tree.code(model)
        wanted = function.name.value if kind is None else kind.name.value
        if re.match(rf"{wanted}\b", text) and isinstance(inputs, cst.Tuple):
            return list(inputs.elements[index : index + 1])
    return []


def function_name(tree: SourceTree, kind: cst.ClassDef) -> str:
    """Return an unused name for a function that replaces a class: "my_net" for `MyNet`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.name.value).lower()
    taken = {
        node.value
        for node in tree.nodes_of_kind(cst.Name)
        if not isinstance(outer := tree.parents[node], cst.Attribute) or outer.attr is not node
    }
    return name if name not in taken else f"{name}_"


def _as_function(tree: SourceTree, kind: cst.ClassDef, method: cst.FunctionDef) -> TreeEdit | None:
    """Return the edit that replaces a class by a function with the body of `method`.

    `K()` becomes `k`. None if the script does anything with the class but call it.
    """
    name = function_name(tree, kind)
    drop = 0 if _is_static(method) else 1
    plain = method.with_changes(
        name=cst.Name(name),
        decorators=[d for d in method.decorators if tree.code(d.decorator) != "staticmethod"],
        params=method.params.with_changes(params=method.params.params[drop:]),
    )
    edit: Changes = {kind: lambda now: plain}
    for node in tree.nodes_of_kind(cst.Name):
        parent = tree.parents[node]
        if node.value != kind.name.value or parent is kind:
            continue
        if not isinstance(parent, cst.Call) or parent.func is not node:
            return None
        whole = _whole_use(tree, parent, method.name.value)
        edit[whole] = lambda now: cst.Name(name)
    return TreeEdit(edit)


def _whole_use(tree: SourceTree, call: cst.Call, method: str) -> cst.CSTNode:
    """Return the expression around a call `K()` that the name of a function can replace.

    In `K().eval()(x)` that is `K().eval()`; in `K().run(x)`, for the method "run", `K().run`.
    """
    node: cst.CSTNode = call
    while True:
        parent = tree.parents[node]
        if not isinstance(parent, cst.Attribute) or parent.value is not node:
            return node
        outer = tree.parents[parent]
        if parent.attr.value == method and method != "forward":
            return parent
        called = isinstance(outer, cst.Call) and outer.func is parent
        if not called or parent.attr.value not in ("eval", "train"):
            return node
        node = outer
