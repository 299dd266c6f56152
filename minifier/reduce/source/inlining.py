"""Proposals to inline variables, attributes and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst
import torch

from fullgraph.minifier.reduce.source.source_tree import (
    CurrentNode,
    Replacement,
    SourceTree,
    TreeEdit,
    parenthesize,
    remove_node,
    replace_always,
)

_DELAYED = (cst.Lambda, cst.FunctionDef, cst.ListComp, cst.GeneratorExp, cst.DictComp, cst.SetComp)

CALLED_METHODS = frozenset({*dir(torch.nn.Module), "backward", "setup_context", "vmap", "jvp"})
"""Methods that Python or torch calls."""
TORCH_METHODS = CALLED_METHODS | set(dir(torch.Tensor))
"""Methods that Python or torch calls, or that a tensor has."""
_STORES = (
    cst.AssignTarget,
    cst.AnnAssign,
    cst.AugAssign,
    cst.NamedExpr,
    cst.For,
    cst.CompFor,
)


def inline_variables(tree: SourceTree) -> list[TreeEdit]:
    """Propose `return x + 1` in place of `y = x + 1; return y`, if nothing else reads `y`."""
    found = []
    blocks = [tree.module.body, *(block.body for block in tree.nodes_of_kind(cst.IndentedBlock))]
    for block in blocks:
        for index, line in enumerate(block):
            edit = _inline_variable(tree, line, block[index + 1 :])
            if edit is not None:
                found.append(edit)
    return found


def inline_attributes(tree: SourceTree) -> list[TreeEdit]:
    """Propose `3` in place of `self.size` if `self.size = 3` is the only assignment to it.

    The value must be a literal or the name of something at the top level.
    """
    top = {name for line in tree.module.body for name in _names_defined(line)}
    sets: dict[str, list[cst.Assign]] = {}
    for node in tree.nodes_of_kind(cst.Assign):
        target = node.targets[0].target
        if isinstance(target, cst.Attribute):
            sets.setdefault(target.attr.value, []).append(node)
    found = []
    for name, assigns in sets.items():
        value = assigns[0].value
        fixed = isinstance(value, cst.BaseNumber | cst.SimpleString)
        fixed = fixed or (isinstance(value, cst.Name) and value.value in top)
        reads = [
            one
            for one in tree.nodes_of_kind(cst.Attribute)
            if one.attr.value == name and one is not assigns[0].targets[0].target
        ]
        if len(assigns) == 1 and fixed and reads:
            changes = dict(remove_node(tree.parents[assigns[0]]).changes)
            for read in reads:
                changes[read] = replace_always(value)
            found.append(TreeEdit(changes))
    return found


def inline_functions(tree: SourceTree) -> list[TreeEdit]:
    """Propose the body of `f` in place of `y = f(x)`, one call per edit.

    `f` is a function or method of the text.
    """
    found = []
    for call in tree.nodes_of_kind(cst.Call):
        function = _called_function(tree, call)
        if function is not None and tree.function(call) is not function:
            edit = _inline_call(tree, call, function)
            if edit is not None:
                found.append(edit)
    return found


def _inline_variable(
    tree: SourceTree, line: cst.CSTNode, later: Sequence[cst.CSTNode]
) -> TreeEdit | None:
    """Return the edit that writes a variable's value at its only use.

    `line` assigns the variable; `later` are the statements after it. None if `line` does anything
    else, or if the value cannot be written there.
    """
    assign = _single_statement(line)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    target = assign.targets[0].target
    if not isinstance(target, cst.Name):
        return None
    scope = tree.function(line) or tree.module
    uses = [n for n in _mentions_of(tree, scope, target.value) if n is not target]
    if len(uses) != 1 or not any(use is uses[0] for one in later for use in tree.inside(one)):
        return None
    inner: cst.CSTNode = uses[0]
    for outer in tree.ancestors(uses[0]):
        if outer in later and isinstance(outer, cst.FunctionDef) and scope is tree.module:
            break
        again = isinstance(outer, cst.For) and outer.iter is not inner
        if again or isinstance(outer, (*_DELAYED, cst.While)):
            return None
        if outer in later:
            break
        inner = outer
    value, use = assign.value, uses[0]

    def change(now: CurrentNode) -> Replacement:
        """Return the value after the other edits, in parentheses if needed."""
        new = now(value)
        assert isinstance(new, cst.BaseExpression)
        return parenthesize(tree, use, new)

    return TreeEdit({line: lambda now: cst.RemoveFromParent(), use: change})


def _names_defined(line: cst.CSTNode) -> Iterator[str]:
    """Yield the names that a definition or an assignment binds; nothing for other statements."""
    if isinstance(line, cst.FunctionDef | cst.ClassDef):
        yield line.name.value
    elif isinstance(assign := _single_statement(line), cst.Assign):
        for target in assign.targets:
            yield from _target_names(target.target)


def _single_statement(line: cst.CSTNode) -> cst.CSTNode | None:
    """Return the first simple statement of a line: `x = 1` of `x = 1; y = 2`.

    None for compound statements, such as `if`.
    """
    return line.body[0] if isinstance(line, cst.SimpleStatementLine) else None


def _mentions_of(tree: SourceTree, scope: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return where `scope`, including nested functions, mentions the variable `name`."""
    found = []
    for node in tree.inside(scope):
        if isinstance(node, cst.Name) and node.value == name:
            parent = tree.parents[node]
            attribute = isinstance(parent, cst.Attribute) and parent.attr is node
            keyword = isinstance(parent, cst.Arg) and parent.keyword is node
            if not attribute and not keyword:
                found.append(node)
    return found


def _called_function(tree: SourceTree, call: cst.Call) -> cst.FunctionDef | None:
    """Return the function or method of the text that a call runs; None if that is not clear.

    `self.f()` runs `f` of the class around the call, `x.f()` the only method called `f`.
    """
    functions: Sequence[cst.CSTNode] = tree.module.body
    match call.func:
        case cst.Name(value=name):
            pass
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
            kinds = [one for one in tree.ancestors(call) if isinstance(one, cst.ClassDef)]
            functions = kinds[0].body.body if kinds else ()
        case cst.Attribute(value=cst.Name() | cst.Attribute(), attr=cst.Name(value=name)):
            kinds = tree.nodes_of_kind(cst.ClassDef) if name not in TORCH_METHODS else []
            functions = [one for kind in kinds for one in kind.body.body]
        case _:
            return None
    found = [
        one for one in functions if isinstance(one, cst.FunctionDef) and one.name.value == name
    ]
    return found[0] if len(found) == 1 and not found[0].decorators else None


def _inline_call(tree: SourceTree, call: cst.Call, function: cst.FunctionDef) -> TreeEdit | None:
    """Return the edit that writes a function's body in place of a call; None if it is impossible.

    If the body returns early, the call must be in the last statement, a `return`, of a function.
    """
    arguments = _bind_arguments(tree, call, function)
    body = list(function.body.body)
    leaving = [n for n in tree.inside(function.body) if isinstance(n, cst.Return | cst.Yield)]
    small = tree.parents[call]
    line, outer = tree.parents[small], tree.function(call)
    tail = isinstance(small, cst.Return) and outer is not None and line is outer.body.body[-1]
    returned = _single_statement(body[-1])
    value: cst.BaseExpression = cst.Name("None")
    if isinstance(returned, cst.Return):
        value = returned.value or value
        body.pop()
        leaving.remove(returned)
    yields = any(isinstance(one, cst.Yield) for one in leaving)
    if arguments is None or yields or (leaving and not tail):
        return None
    receiver = _receiver_of(call, function)
    value = substitute_names(value, receiver)
    if not body and all(len(_mentions_of(tree, function.body, n)) < 2 for n in arguments):
        new = substitute_names(value, arguments)
        return TreeEdit({call: lambda now: parenthesize(tree, call, new)})
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(
        small, cst.Assign | cst.Return | cst.Expr
    ):
        return None
    mine = set(_local_names(tree, function)) | set(arguments)
    same = {n for n, a in arguments.items() if isinstance(a, cst.Name) and a.value == n}
    theirs = set(_local_names(tree, outer)) if outer is not None else set()
    if mine & theirs - same - set(receiver):
        return None
    binds = [
        cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], argument)])
        for name, argument in arguments.items()
        if name not in same
    ]
    unread = isinstance(small, cst.Expr) and isinstance(value, cst.Name)
    ends = unread or (tail and not isinstance(returned, cst.Return))
    last = [] if ends else [cst.SimpleStatementLine([small.with_changes(value=value)])]
    new_body = visit_all(body, _Substituted(receiver))
    return TreeEdit({line: lambda now: cst.FlattenSentinel([*binds, *new_body, *last])})


def _receiver_of(call: cst.Call, function: cst.FunctionDef) -> dict[str, cst.BaseExpression]:
    """Return {"self": `x`} for a call `x.method()`; {} if the call is not of a method."""
    if not isinstance(call.func, cst.Attribute) or not function.params.params:
        return {}
    return {function.params.params[0].name.value: call.func.value}


def _bind_arguments(
    tree: SourceTree, call: cst.Call, function: cst.FunctionDef
) -> dict[str, cst.BaseExpression] | None:
    """Return {parameter: argument or default} of a call; None if one is unknown, as in `f(*a)`."""
    params = function.params
    if params.kwonly_params or params.star_kwarg or isinstance(params.star_arg, cst.Param):
        return None
    method = isinstance(call.func, cst.Attribute)
    names = [param.name.value for param in params.params][int(method) :]
    found: dict[str, cst.BaseExpression] = {}
    for index, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and index >= len(names)):
            return None
        found[arg.keyword.value if arg.keyword else names[index]] = arg.value
    for param in params.params[int(method) :]:
        if param.name.value not in found:
            if param.default is None:
                return None
            found[param.name.value] = param.default
    return found if set(found) == set(names) else None


def _local_names(tree: SourceTree, function: cst.FunctionDef) -> Iterator[str]:
    """Yield the local variables of a function, parameters included."""
    for node in tree.inside(function):
        if isinstance(node, cst.Param):
            yield node.name.value
        elif isinstance(node, _STORES):
            yield from _target_names(node.target)
        elif isinstance(node, cst.AsName):
            yield from _target_names(node.name)


def _target_names(target: cst.CSTNode) -> Iterator[str]:
    """Yield the variables that an assignment target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _target_names(element.value)


def substitute_names(
    value: cst.BaseExpression, values: Mapping[str, cst.BaseExpression]
) -> cst.BaseExpression:
    """Return an expression with variables replaced by the expressions in `values`.

    `x + 1` with {"x": `y[0]`} gives `y[0] + 1`.
    """
    new = value.visit(_Substituted(values))
    assert isinstance(new, cst.BaseExpression)
    return new


def visit_all(nodes: Iterable[cst.CSTNode], change: cst.CSTTransformer) -> list[cst.CSTNode]:
    """Return the nodes after `change` has visited them; `change` must not remove any of them."""
    visited = [node.visit(change) for node in nodes]
    return [node for node in visited if isinstance(node, cst.CSTNode)]


class _Substituted(cst.CSTTransformer):
    """Transformer that replaces variables by expressions."""

    def __init__(self, arguments: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.arguments = arguments

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        new = self.arguments.get(original_node.value, updated_node)
        if isinstance(new, cst.Name | cst.BaseNumber | cst.BaseString) or new.lpar:
            return new
        if isinstance(new, cst.Call | cst.Attribute | cst.Subscript):
            return new
        return new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
