"""Proposals for variables: unpacked tuples, single uses, unused parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import (
    Changes,
    CurrentNode,
    Replacement,
    SourceTree,
    TreeEdit,
    parenthesize,
    remove_node,
    replace_always,
)

HARNESS = frozenset({"expected", "got", "compiled"})
"""Variables of the script's check, which keep their names."""
_LONGEST = 80
"""Maximum number of characters of a statement after a variable in it is replaced by its value."""
_BLOCKS = (cst.Lambda, cst.ListComp, cst.GeneratorExp, cst.DictComp, cst.SetComp, cst.FunctionDef)
"""Nodes that are evaluated in a scope of their own."""


def unpack_tuples(tree: SourceTree) -> list[TreeEdit]:
    """Propose one assignment per target in place of `a, b = 1, 2`."""
    found = []
    for line in tree.nodes_of_kind(cst.SimpleStatementLine):
        pairs = list(_pairs_of(line))
        later = [
            use
            for index, (target, _) in enumerate(pairs)
            if isinstance(target, cst.Name)
            for _, value in pairs[index + 1 :]
            for use in mentions(tree, value, target.value)
        ]
        if not pairs or later or not all(_is_plain_target(target) for target, _ in pairs):
            continue
        lines = [
            cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(target)], value)])
            for target, value in pairs
            if tree.code(value) != tree.code(target)
        ]
        found.append(TreeEdit({line: replace_always(cst.FlattenSentinel(lines))}))
    return found


def spread_arguments(tree: SourceTree) -> list[TreeEdit]:
    """Propose `f(1, 2)` in place of `f(*(1, 2))`."""
    found = []
    for call in tree.nodes_of_kind(cst.Call):
        args: list[cst.Arg] = []
        for arg in call.args:
            match arg:
                case cst.Arg(star="*", value=cst.Tuple(elements=items) | cst.List(elements=items)):
                    args += [cst.Arg(item.value) for item in items]
                case _:
                    args.append(arg)
        if len(args) != len(call.args):
            found.append(TreeEdit({call: replace_always(call.with_changes(args=args))}))
    return found


def inline_once_read(tree: SourceTree) -> list[TreeEdit]:
    """Propose `return x + 1` in place of `y = x + 1; return y` if only one statement reads `y`.

    At the top level, that must be the statement right after the assignment.
    """
    found = []
    blocks = [tree.module.body, *(block.body for block in tree.nodes_of_kind(cst.IndentedBlock))]
    for block in blocks:
        for index, line in enumerate(block[:-1], 1):
            at = index if block is blocks[0] else _next_mention(tree, line, block, index)
            edit = _inline_into(tree, line, block[at], block[at + 1 :])
            if edit is not None:
                found.append(edit)
    return found


def _next_mention(
    tree: SourceTree, line: cst.CSTNode, block: Sequence[cst.CSTNode], start: int
) -> int:
    """Return the index in `block` of the first statement that mentions the variable of `line`.

    `line` assigns the variable. Statements before the index `start` are skipped; `start` is
    returned if there is no such statement.
    """
    name = _single_assignment(line)[0]
    reading = (at for at in range(start, len(block)) if mentions(tree, block[at], name))
    return next(reading, start) if name else start


def inline_names(tree: SourceTree) -> list[TreeEdit]:
    """Propose `f` in place of `model` for a variable `model = f`."""
    found = []
    for line in tree.nodes_of_kind(cst.SimpleStatementLine):
        name, value = _single_assignment(line)
        if not isinstance(value, cst.Name) or name in HARNESS or name == value.value:
            continue
        scope = tree.function(line) or tree.module
        stores = [
            tree.code(one.target)
            for one in tree.inside(scope)
            if isinstance(one, cst.AssignTarget | cst.AugAssign)
        ]
        same = [
            one for one in tree.nodes_of_kind(cst.SimpleStatementLine) if _is_same(tree, one, line)
        ]
        if stores.count(name) != len(same) or (scope is not tree.module and value.value in stores):
            continue
        changes: Changes = {
            use: replace_always(value)
            for use in mentions(tree, scope, name)
            if not _is_target(tree, use)
        }
        for one in same:
            changes[one] = lambda now: cst.RemoveFromParent()
        found.append(TreeEdit(changes))
    return found


def _is_same(tree: SourceTree, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Return whether two statements are in one function and have the same text."""
    codes = {tree.code(line).strip() for line in (one, other)}
    return len(codes) == 1 and tree.function(one) is tree.function(other)


def drop_parameters(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove each parameter that its function does not read, with its arguments.

    For a `forward`, the arguments are those in calls of an instance.
    """
    found = []
    for function in tree.nodes_of_kind(cst.FunctionDef):
        names, offset = _callable_names(tree, function)
        for index, param in enumerate(function.params.params[offset:]):
            if not names or mentions(tree, function.body, param.name.value):
                continue
            changes = dict(remove_node(param).changes)
            for call in tree.nodes_of_kind(cst.Call):
                if any(is_call_of(tree, call, name) for name in names):
                    changes.update(_without_argument(call, index, param.name.value))
            found.append(TreeEdit(changes))
        found += _drop_keywords(tree, function)
    return found


def arguments_of(
    tree: SourceTree, function: cst.FunctionDef
) -> Iterator[tuple[cst.Param, set[str]]]:
    """Yield (parameter, its arguments in all calls, as source) for each parameter of a function.

    `def f(a)` with `f(x)` and `f(y)` gives (`a`, {"x", "y"}). Nothing if a call uses keywords or
    stars, or passes another number of arguments.
    """
    name = function.name.value
    calls = [call for call in tree.nodes_of_kind(cst.Call) if is_call_of(tree, call, name)]
    params = function.params.params
    if any(len(call.args) != len(params) for call in calls):
        return
    if not any(arg.keyword or arg.star for call in calls for arg in call.args):
        for index, param in enumerate(params):
            yield param, {tree.code(call.args[index].value) for call in calls}


def _callable_names(tree: SourceTree, function: cst.FunctionDef) -> tuple[set[str], int]:
    """Return (names by which a script calls a function, number of parameters that calls leave out).

    For a `forward`: the names of instances, and 1 for `self`. (set(), 0) for other methods.
    """
    if tree.parents[function] is tree.module:
        return {function.name.value}, 0
    kind = next((one for one in tree.ancestors(function) if isinstance(one, cst.ClassDef)), None)
    if kind is None or function.name.value != "forward" or function.decorators:
        return set(), 0
    made = [
        _single_assignment(tree.parents[one])[0]
        for one in tree.nodes_of_kind(cst.Assign)
        if isinstance(one.value, cst.Call) and tree.code(one.value.func) == kind.name.value
    ]
    return {name for name in made if name}, 1


def _drop_keywords(tree: SourceTree, function: cst.FunctionDef) -> Iterator[TreeEdit]:
    """Yield the edit that removes the keyword-only parameters that a function does not read."""
    params = function.params
    read = [p for p in params.kwonly_params if mentions(tree, function.body, p.name.value)]
    if len(read) < len(params.kwonly_params):
        star = params.star_arg if read else cst.MaybeSentinel.DEFAULT
        new = params.with_changes(kwonly_params=read, star_arg=star)
        if not read and params.params:
            last = params.params[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            new = new.with_changes(params=[*params.params[:-1], last])
        yield TreeEdit({params: replace_always(new)})


def is_call_of(tree: SourceTree, call: cst.Call, name: str) -> bool:
    """Return whether a call is `name(…)` or `torch.compile(name)(…)`.

    Also `g(…)`, if `g = torch.compile(name)`.
    """
    if isinstance(call.func, cst.Call):
        return _compiles(tree, call.func, name)
    compiled = {
        _single_assignment(tree.parents[one])[0]
        for one in tree.nodes_of_kind(cst.Assign)
        if _compiles(tree, one.value, name)
    }
    return isinstance(call.func, cst.Name) and call.func.value in {name, *compiled}


def _compiles(tree: SourceTree, node: cst.CSTNode, name: str) -> bool:
    """Return whether an expression is `torch.compile(name, …)`."""
    return (
        isinstance(node, cst.Call)
        and tree.code(node.func) == "torch.compile"
        and bool(node.args)
        and tree.code(node.args[0].value) == name
    )


def _without_argument(call: cst.Call, index: int, name: str) -> Changes:
    """Return the changes that remove a call's argument for the parameter `name` at `index`.

    {} if the call passes none.
    """
    by_name = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name]
    plain = [arg for arg in call.args if arg.keyword is None and not arg.star]
    return {arg: lambda now: cst.RemoveFromParent() for arg in by_name or plain[index : index + 1]}


def _pairs_of(
    line: cst.SimpleStatementLine,
) -> Iterator[tuple[cst.BaseAssignTargetExpression, cst.BaseExpression]]:
    """Yield (`a`, `1`) and (`b`, `2`) for `a, b = 1, 2`; nothing for other statements."""
    match line.body[0]:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() as left)], value=right):
            if not isinstance(right, cst.Tuple) or len(left.elements) != len(right.elements):
                return
            elements = [*left.elements, *right.elements]
            if any(isinstance(one, cst.StarredElement) for one in elements):
                return
            for one, other in zip(left.elements, right.elements, strict=True):
                if isinstance(one.value, cst.BaseAssignTargetExpression):
                    yield one.value, other.value


def _is_plain_target(target: cst.BaseExpression) -> bool:
    """Return whether a target is `self.name`, or a variable that the final check does not use."""
    match target:
        case cst.Name(value=name):
            return name not in HARNESS
        case cst.Attribute(value=cst.Name(value="self")):
            return True
    return False


def _inline_into(
    tree: SourceTree, line: cst.CSTNode, following: cst.CSTNode, later: Sequence[cst.CSTNode]
) -> TreeEdit | None:
    """Return the edit that writes the value that `line` assigns into the statement `following`.

    `later` are the statements after `following`. None if that is impossible.
    """
    name, value = _single_assignment(line)
    if value is None or name in HARNESS or not isinstance(following, cst.SimpleStatementLine):
        return None
    if len(tree.code(following).strip()) + len(tree.code(value)) - len(name) > _LONGEST:
        return None
    uses = [n for n in mentions(tree, following, name) if not _is_target(tree, n)]
    again = _single_assignment(following)[0] == name
    leaves = isinstance(following.body[0], cst.Return)
    scope = tree.function(line) or tree.module
    if len(uses) != 1 or any(isinstance(one, _BLOCKS) for one in tree.ancestors(uses[0])) != (
        scope is not tree.module
    ):
        return None
    inside = [one for one in tree.ancestors(uses[0]) if isinstance(one, _BLOCKS)]
    if inside and inside[0] is not scope:
        return None
    if not (again or leaves) and any(mentions(tree, one, name) for one in later):
        return None
    if scope is tree.module and not (again or leaves):
        every = mentions(tree, tree.module, name)
        elsewhere = [n for n in every if n not in uses and not _is_local(tree, n)]
        if len(elsewhere) > 1:
            return None
    use = uses[0]

    def change(now: CurrentNode) -> Replacement:
        """Return the value after the other edits, in parentheses if needed."""
        new = now(value)
        assert isinstance(new, cst.BaseExpression)
        return parenthesize(tree, use, new)

    return TreeEdit({line: lambda now: cst.RemoveFromParent(), use: change})


def _is_local(tree: SourceTree, node: cst.Name) -> bool:
    """Return whether a name is a parameter of a function that contains it."""
    return any(
        param.name.value == node.value
        for one in tree.ancestors(node)
        if isinstance(one, cst.FunctionDef)
        for param in one.params.params
    )


def _single_assignment(line: cst.CSTNode) -> tuple[str, cst.BaseExpression | None]:
    """Return ("x", value) for an assignment `x = value`; ("", None) for other statements."""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        match line.body[0]:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                return name, value
    return "", None


def mentions(tree: SourceTree, scope: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return where a node mentions the variable `name`: neither `x.name` nor `f(name=1)` counts."""
    found = []
    for node in [scope, *tree.inside(scope)]:
        if isinstance(node, cst.Name) and node.value == name:
            parent = tree.parents.get(node)
            attribute = isinstance(parent, cst.Attribute) and parent.attr is node
            keyword = isinstance(parent, cst.Arg) and parent.keyword is node
            if not attribute and not keyword:
                found.append(node)
    return found


def _is_target(tree: SourceTree, node: cst.Name) -> bool:
    """Return whether a name is an assignment's target."""
    return isinstance(tree.parents[node], cst.AssignTarget)
