"""Proposals for objects of the script's own classes: plain functions and variables instead."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

import libcst as cst
from libcst import matchers as m

from fullgraph.minifier.reduce.source.definitions import class_of, function_name
from fullgraph.minifier.reduce.source.inlining import TORCH_METHODS, visit_all
from fullgraph.minifier.reduce.source.source_tree import (
    Changes,
    CurrentNode,
    Replacement,
    SourceTree,
    TreeEdit,
    replace_always,
)
from fullgraph.minifier.simplify.attributes import attribute_set

_BASE_CONSTRUCTOR = "super().__init__()"


def dissolve_objects(tree: SourceTree) -> list[TreeEdit]:
    """Propose `self.size` for `self.cache.size` if `self.cache` is only used for its attributes."""
    found = []
    for kind in tree.nodes_of_kind(cst.ClassDef):
        sets = _attributes_set(tree, kind)
        made = _constructions(tree, kind)
        if len(kind.body.body) != 1 or not sets or len(made) != 1:
            continue
        target = made[0].targets[0].target
        uses = [one for one in _uses_of(tree, target) if one is not target]
        reads = [tree.parents[use] for use in uses]
        names = [read.attr.value for read in reads if isinstance(read, cst.Attribute)]
        holder = {id(use) for use in uses}
        plain = all(isinstance(read, cst.Attribute) and id(read.value) in holder for read in reads)
        taken = _attribute_names(tree, reads) if isinstance(target, cst.Attribute) else _names(tree)
        if not plain or not uses or set(names) - set(sets) or set(sets) & taken:
            continue
        changes: Changes = {
            read: replace_always(_beside(target, read.attr.value))
            for read in reads
            if isinstance(read, cst.Attribute)
        }
        lines = [_assignment(_beside(target, name), value) for name, value in sets.items()]
        changes[tree.parents[made[0]]] = replace_always(cst.FlattenSentinel(lines))
        changes[kind] = lambda now: cst.RemoveFromParent()
        found.append(TreeEdit(changes))
    return found


def methods_to_functions(tree: SourceTree) -> list[TreeEdit]:
    """Propose a function in place of each method that does not read its object."""
    found = []
    methods = [node for node in tree.nodes_of_kind(cst.FunctionDef) if class_of(tree, node)]
    for method in methods:
        kind, name = class_of(tree, method), method.name.value
        own = method.params.params[0].name.value if method.params.params else ""
        uses = [node for node in tree.nodes_of_kind(cst.Attribute) if node.attr.value == name]
        called = all(m.matches(tree.parents[use], m.Call()) for use in uses)
        single = [one.name.value for one in methods].count(name) == 1
        free = name not in TORCH_METHODS and name not in _names(tree) and not method.decorators
        if kind is None or not (uses and called and single and free and own):
            continue
        if own in _names(tree, method.body) or len(kind.body.body) == 1:
            continue
        changes: Changes = {use: replace_always(cst.Name(name)) for use in uses}
        changes[method] = lambda now: cst.RemoveFromParent()
        changes[kind] = _after_function(kind, _without_first_parameter(method, name))
        found.append(TreeEdit(changes))
    return found


def state_to_parameters(tree: SourceTree) -> list[TreeEdit]:
    """Propose a function for a class whose constructor only makes plain objects.

    The objects become parameters of the function. Where an object of the class was made, the
    constructor's statements make them; if these are more than assignments, a new function does.
    """
    found = []
    for kind in tree.nodes_of_kind(cst.ClassDef):
        methods = {
            one.name.value: one for one in kind.body.body if isinstance(one, cst.FunctionDef)
        }
        if set(methods) != {"__init__", "forward"} or len(kind.body.body) != 2:
            continue
        edit = _with_parameters(tree, kind, methods["__init__"], methods["forward"])
        if edit is not None:
            found.append(edit)
    return found


def _with_parameters(
    tree: SourceTree, kind: cst.ClassDef, init: cst.FunctionDef, forward: cst.FunctionDef
) -> TreeEdit | None:
    """Return the edit of `state_to_parameters` for one class; None if the class does not fit."""
    lines = [line for line in init.body.body if tree.code(line).strip() != _BASE_CONSTRUCTOR]
    state = list(dict.fromkeys(_own_attributes_set(init)))
    holders = _constructions(tree, kind)
    text = "".join(tree.code(line) for line in lines)
    if len(init.params.params) != 1 or not state or not holders or "nn." in text:
        return None
    if set(state) & _names(tree) or not all(
        _reads_only(tree, method, state) for method in (init, forward)
    ):
        return None
    calls: Changes = {}
    name = function_name(tree, kind)
    for holder in holders:
        target = holder.targets[0].target
        if not isinstance(target, cst.Name):
            return None
        for use in _uses_of(tree, target):
            if use is target or isinstance(tree.parents[use], cst.AssignTarget):
                continue
            changed = _use_with_state(tree, use, name, state)
            if not changed:
                return None
            calls.update(changed)
    plain = _without_first_parameter(forward, name)
    params = [cst.Param(cst.Name(one)) for one in state]
    plain = plain.with_changes(
        params=plain.params.with_changes(params=[*params, *plain.params.params])
    )
    made = visit_all(lines, _variables_of(init, state))
    functions = visit_all([plain], _variables_of(forward, state))
    if not all(m.matches(line, m.SimpleStatementLine([m.Assign()])) for line in made):
        maker = f"make_{state[0] if len(state) == 1 else name}"
        returned = cst.parse_statement(f"return {', '.join(state)}")
        functions.insert(0, _function(maker, [*made, returned]))
        made = [cst.parse_statement(f"{', '.join(state)} = {maker}()")]
    for holder in holders:
        calls[tree.parents[holder]] = replace_always(cst.FlattenSentinel(made))
    return TreeEdit({**calls, kind: replace_always(cst.FlattenSentinel(functions))})


def _use_with_state(tree: SourceTree, use: cst.CSTNode, name: str, state: Sequence[str]) -> Changes:
    """Return the changes for one use of an object whose class becomes the function `name`.

    A call of the object, compiled or not, passes `state` first; `obj.size` becomes `size`.
    """
    parent = tree.parents[use]
    if isinstance(parent, cst.Attribute) and parent.attr.value in state:
        return {parent: replace_always(cst.Name(parent.attr.value))}
    call = parent
    if isinstance(parent, cst.Arg) and parent.keyword is None:
        compiled = tree.parents[parent]
        call = tree.parents[compiled]
        if not isinstance(compiled, cst.Call) or tree.code(compiled.func) != "torch.compile":
            return {}
        use_is_called = isinstance(call, cst.Call) and call.func is compiled
    else:
        use_is_called = isinstance(call, cst.Call) and call.func is use
    if not isinstance(call, cst.Call) or not use_is_called:
        return {}
    return {use: replace_always(cst.Name(name)), call: _with_first_arguments(call, state)}


def _with_first_arguments(
    call: cst.Call, names: Sequence[str]
) -> Callable[[CurrentNode], Replacement]:
    """Return the change that passes the variables `names` as the first arguments of `call`."""

    def change(now: CurrentNode) -> Replacement:
        new = now(call)
        assert isinstance(new, cst.Call)
        return new.with_changes(args=[*(cst.Arg(cst.Name(one)) for one in names), *new.args])

    return change


def _after_function(
    kind: cst.ClassDef, function: cst.FunctionDef
) -> Callable[[CurrentNode], Replacement]:
    """Return the change that puts a function before a class."""
    return lambda now: cst.FlattenSentinel([function, now(kind)])


def _attributes_set(tree: SourceTree, kind: cst.ClassDef) -> dict[str, cst.BaseExpression]:
    """Return what a constructor without parameters sets; {} if it does anything else."""
    found: dict[str, cst.BaseExpression] = {}
    for init in kind.body.body[:1]:
        if not isinstance(init, cst.FunctionDef) or init.name.value != "__init__":
            return {}
        if len(init.params.params) != 1 or kind.bases:
            return {}
        own = init.params.params[0].name.value
        for line in init.body.body:
            if not isinstance(line, cst.SimpleStatementLine):
                return {}
            target, value = attribute_set(line)
            if target is None or value is None or own in _names(tree, value):
                return {}
            if tree.code(target.value) != own:
                return {}
            found[target.attr.value] = value
    return found


def _constructions(tree: SourceTree, kind: cst.ClassDef) -> list[cst.Assign]:
    """Return the assignments `x = K()`; [] if the class is mentioned anywhere else."""
    mentions = [
        node
        for node in tree.nodes_of_kind(cst.Name)
        if node.value == kind.name.value and node is not kind.name
    ]
    found = []
    for node in mentions:
        call = tree.parents[node]
        assign = tree.parents[call]
        empty = isinstance(call, cst.Call) and call.func is node and not call.args
        if not empty or not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
            return []
        found.append(assign)
    return found


def _uses_of(tree: SourceTree, target: cst.BaseAssignTargetExpression) -> list[cst.CSTNode]:
    """Return the mentions of a variable; for an attribute, those with its name on any object."""
    if isinstance(target, cst.Attribute):
        return [
            node
            for node in tree.nodes_of_kind(cst.Attribute)
            if node.attr.value == target.attr.value
        ]
    if not isinstance(target, cst.Name):
        return []
    return [
        node
        for node in tree.nodes_of_kind(cst.Name)
        if node.value == target.value and not _is_attribute(tree, node)
    ]


def _own_attributes_set(init: cst.FunctionDef) -> Iterator[str]:
    """Yield the attributes that a constructor assigns."""
    own = init.params.params[0].name.value if init.params.params else ""
    for target in m.findall(init, m.AssignTarget(m.Attribute(m.Name(own)))):
        assert isinstance(target, cst.AssignTarget) and isinstance(target.target, cst.Attribute)
        yield target.target.attr.value


def _reads_only(tree: SourceTree, method: cst.FunctionDef, state: Container[str]) -> bool:
    """Return whether a method uses its object only to reach the attributes `state`."""
    own = method.params.params[0].name.value
    for node in tree.inside(method.body):
        if isinstance(node, cst.Name) and node.value == own and not _is_attribute(tree, node):
            parent = tree.parents[node]
            if not isinstance(parent, cst.Attribute) or parent.attr.value not in state:
                return False
    return True


def _variables_of(method: cst.FunctionDef, state: Container[str]) -> _AsVariables:
    """Return the transformer that turns the attributes `state` into variables in a method."""
    return _AsVariables(method.params.params[0].name.value, state)


class _AsVariables(cst.CSTTransformer):
    """Transformer that writes `name` for `self.name`."""

    def __init__(self, own: str, state: Container[str]) -> None:
        super().__init__()
        self.own, self.state = own, state

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Return the variable."""
        owned = m.matches(original_node.value, m.Name(self.own))
        return (
            original_node.attr if owned and original_node.attr.value in self.state else updated_node
        )


def _names(tree: SourceTree, node: cst.CSTNode | None = None) -> set[str]:
    """Return the variables, parameters and functions that a node, or the script, mentions."""
    nodes = [node, *tree.inside(node)] if node is not None else tree.parents
    return {
        one.value for one in nodes if isinstance(one, cst.Name) and not _is_attribute(tree, one)
    }


def _is_attribute(tree: SourceTree, node: cst.Name) -> bool:
    """Return whether a name is the attribute in `x.name`, the keyword in `f(name=x)`, or a
    method's name."""
    parent = tree.parents[node]
    if isinstance(parent, cst.FunctionDef):
        return class_of(tree, parent) is not None
    keyword = isinstance(parent, cst.Arg) and parent.keyword is node
    return keyword or (isinstance(parent, cst.Attribute) and parent.attr is node)


def _attribute_names(tree: SourceTree, without: Sequence[cst.CSTNode]) -> set[str]:
    """Return the names of the attributes that a script reads, except at the nodes `without`."""
    known = {id(node) for node in without}
    return {
        node.attr.value
        for node in tree.nodes_of_kind(cst.Attribute)
        if id(node) not in known and not isinstance(tree.parents[node], cst.AssignTarget)
    }


def _beside(target: cst.BaseAssignTargetExpression, name: str) -> cst.Attribute | cst.Name:
    """Return `x.name` for the target `x.holder`, and `name` for a variable."""
    if isinstance(target, cst.Attribute):
        return target.with_changes(attr=cst.Name(name))
    return cst.Name(name)


def _assignment(
    target: cst.Attribute | cst.Name, value: cst.BaseExpression
) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(target)], value)])


def _without_first_parameter(method: cst.FunctionDef, name: str) -> cst.FunctionDef:
    """Return a method as the function of this name, without `self`."""
    params = method.params.with_changes(params=method.params.params[1:])
    return method.with_changes(name=cst.Name(name), params=params)


def _function(name: str, body: Sequence[cst.CSTNode]) -> cst.FunctionDef:
    """Return a function without parameters."""
    statements = [line for line in body if isinstance(line, cst.BaseStatement)]
    return cst.FunctionDef(cst.Name(name), cst.Parameters(), cst.IndentedBlock(statements))
