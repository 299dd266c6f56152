"""Proposals for results: no unused elements, no container around the one that is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import (
    Changes,
    CurrentNode,
    Replacement,
    SourceTree,
    TreeEdit,
    replace_always,
)
from fullgraph.minifier.simplify.variables import mentions

Changes = Changes
"""New states for nodes, as in `TreeEdit`."""


def drop_results(tree: SourceTree) -> list[TreeEdit]:
    """Propose `return a` in place of `return a, b` if no caller reads the second result.

    All calls must unpack the result: `x, y = f(z)`.
    """
    found = []
    for function in tree.nodes_of_kind(cst.FunctionDef):
        returned = _returned_tuples(tree, function)
        calls = _unpacked_calls(tree, function.name.value)
        if not returned or not calls:
            continue
        count = len(returned[0].elements)
        targets = [left for _, left in calls]
        if any(len(one.elements) != count for one in (*returned, *targets)):
            continue
        for index in range(count):
            if all(_is_unread(tree, assign, left, index) for assign, left in calls):
                changes: Changes = {
                    one: replace_always(without_element(one, index))
                    for one in (*returned, *targets)
                }
                found.append(TreeEdit(changes))
                break
    return found


def unwrap_compared(tree: SourceTree) -> list[TreeEdit]:
    """Propose `return a` in place of `return {"k": a, "m": g()}` if a script compares `f(x)["k"]`.

    A second proposal keeps the call `g()` as a statement.
    """
    picks = _compared_elements(tree)
    if not picks:
        return []
    key = tree.code(picks[0].slice[0])
    changes: Changes = {pick: _only_value(pick) for pick in picks}
    kept = dict(changes)
    for node in tree.nodes_of_kind(cst.Return):
        element = _element_at(tree, node.value, key)
        if element is not None and isinstance(node.value, cst.Dict | cst.Tuple | cst.List):
            new = cst.SimpleStatementLine([node.with_changes(value=element)])
            others = [
                cst.SimpleStatementLine([cst.Expr(one.value)])
                for one in node.value.elements
                if one.value is not element and isinstance(one.value, cst.Call)
            ]
            changes[node.value] = replace_always(element)
            kept[tree.parents[node]] = replace_always(cst.FlattenSentinel([*others, new]))
    return [TreeEdit(one) for one in (changes, kept) if len(one) > len(picks)]


def compare_containers(tree: SourceTree) -> list[TreeEdit]:
    """Propose to compare `f(x)` in place of its element `f(x)[0]`, if the script uses `==`."""
    picks = _compared_elements(tree)
    plain = "assert got == expected" in tree.text
    return [TreeEdit({pick: _only_value(pick) for pick in picks})] if picks and plain else []


def drop_repeated_keys(tree: SourceTree) -> list[TreeEdit]:
    """Propose `{"a": 2}` in place of `{"a": 1, "a": 2}`."""
    found = []
    for node in tree.nodes_of_kind(cst.Dict):
        last = {
            tree.code(one.key): one for one in node.elements if isinstance(one, cst.DictElement)
        }
        kept = [
            one
            for one in node.elements
            if not isinstance(one, cst.DictElement) or last[tree.code(one.key)] is one
        ]
        if len(kept) < len(node.elements):
            found.append(TreeEdit({node: replace_always(node.with_changes(elements=kept))}))
    return found


def rename_repeated_keys(tree: SourceTree) -> list[TreeEdit]:
    """Propose `{"b": 1, "a": 2}` in place of `{"a": 1, "a": 2}`; the letter is an unused one."""
    found = []
    used = {node.raw_value for node in tree.nodes_of_kind(cst.SimpleString)}
    free = iter(sorted(set("abcdefghijklmnopqrstuvwxyz") - used))
    for node in tree.nodes_of_kind(cst.Dict):
        pairs = [one for one in node.elements if isinstance(one, cst.DictElement)]
        last = {tree.code(one.key): one for one in pairs}
        repeated = [one for one in pairs if last[tree.code(one.key)] is not one]
        changes: Changes = {
            one.key: replace_always(cst.SimpleString(f'"{letter}"'))
            for one, letter in zip(repeated, free, strict=False)
        }
        if changes:
            found.append(TreeEdit(changes))
    return found


def fold_appends(tree: SourceTree) -> list[TreeEdit]:
    """Propose `x = [y]` in place of `x = []` and a later `x.append(y)`."""
    found = []
    for block in tree.nodes_of_kind(cst.IndentedBlock):
        for index, line in enumerate(block.body):
            edit = _fold_append(tree, line, block.body[index + 1 :])
            if edit is not None:
                found.append(edit)
    return found


def without_element(value: cst.Tuple, index: int) -> cst.BaseExpression:
    """Return a tuple without the element at `index`: `(a, c)` for `(a, b, c)`, `a` for `(a, b)`."""
    left = [*value.elements[:index], *value.elements[index + 1 :]]
    if len(left) == 1:
        return left[0].value
    last = left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return value.with_changes(elements=[*left[:-1], last])


def _returned_tuples(tree: SourceTree, function: cst.FunctionDef) -> list[cst.Tuple]:
    """Return the tuples that a function returns; [] if it also returns anything else."""
    returns = [
        node
        for node in tree.inside(function)
        if isinstance(node, cst.Return) and tree.function(node) is function
    ]
    tuples = [node.value for node in returns if isinstance(node.value, cst.Tuple)]
    return tuples if len(tuples) == len(returns) else []


def _unpacked_calls(tree: SourceTree, name: str) -> list[tuple[cst.Assign, cst.Tuple]]:
    """Return (assignment, its target) for each `a, b = name(…)`.

    [] unless the result of every call of `name` is unpacked so.
    """
    calls = [
        call
        for call in tree.nodes_of_kind(cst.Call)
        if tree.code(call.func).rpartition(".")[2] == name
    ]
    found = []
    for call in calls:
        assign = tree.parents[call]
        if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
            return []
        target = assign.targets[0].target
        if not isinstance(target, cst.Tuple):
            return []
        found.append((assign, target))
    return found


def _is_unread(tree: SourceTree, assign: cst.Assign, left: cst.Tuple, index: int) -> bool:
    """Return whether nothing reads the variable at `index` of the tuple `left`.

    `left` is the target of `assign`.
    """
    target = left.elements[index].value
    scope = tree.function(assign) or tree.module
    return isinstance(target, cst.Name) and len(mentions(tree, scope, target.value)) == 1


def _compared_elements(tree: SourceTree) -> list[cst.Subscript]:
    """Return the two `f(x)[key]` that the script compares; [] if it compares anything else."""
    picks = [
        node
        for node in tree.nodes_of_kind(cst.Subscript)
        if isinstance(node.value, cst.Call) and _is_compared(tree, node)
    ]
    same = len({tree.code(pick.slice[0]) for pick in picks}) == 1
    return picks if same and len(picks) == 2 else []


def _is_compared(tree: SourceTree, node: cst.Subscript) -> bool:
    """Return whether an expression is in the assignment of `expected` or `got`."""
    assign = next((one for one in tree.ancestors(node) if isinstance(one, cst.Assign)), None)
    return assign is not None and tree.code(assign.targets[0].target) in ("expected", "got")


def _element_at(
    tree: SourceTree, value: cst.BaseExpression | None, key: str
) -> cst.BaseExpression | None:
    """Return the element at `key` of a dict, tuple or list display; None if there is none.

    `key` is source: "1" or "'name'", for example.
    """
    if isinstance(value, cst.Dict):
        found = [
            one.value
            for one in value.elements
            if isinstance(one, cst.DictElement) and tree.code(one.key) == key
        ]
        return found[-1] if found else None
    if isinstance(value, cst.Tuple | cst.List) and key.isdigit() and int(key) < len(value.elements):
        return value.elements[int(key)].value
    return None


def _only_value(pick: cst.Subscript) -> Callable[[CurrentNode], Replacement]:
    """Return the change that replaces `x[…]` by `x`."""
    return lambda now: now(pick.value)


def _fold_append(
    tree: SourceTree, line: cst.CSTNode, later: Sequence[cst.CSTNode]
) -> TreeEdit | None:
    """Return the edit that writes `x = [y]` for `x = []` in `line` and the next `x.append(y)`.

    `later` are the statements after `line`. None if `line` is another statement, or if anything
    else uses `x` first.
    """
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=name))],
                    value=cst.List(elements=[]),
                )
            ]
        ):
            pass
        case _:
            return None
    for other in later:
        argument = next(_appended(other, name), None)
        if argument is not None:
            new = cst.Assign(
                [cst.AssignTarget(cst.Name(name))], cst.List([cst.Element(argument.value)])
            )
            made = cst.SimpleStatementLine([new])
            return TreeEdit({line: lambda now: cst.RemoveFromParent(), other: replace_always(made)})
        if mentions(tree, other, name):
            return None
    return None


def _appended(line: cst.CSTNode, name: str) -> Iterator[cst.Arg]:
    """Yield the argument of the statement `name.append(…)`; nothing for other statements."""
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Expr(
                    value=cst.Call(
                        func=cst.Attribute(
                            value=cst.Name(value=owner), attr=cst.Name(value="append")
                        ),
                        args=[argument],
                    )
                )
            ]
        ) if owner == name:
            yield argument
