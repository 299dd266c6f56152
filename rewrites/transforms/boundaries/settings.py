"""Settings: bools and strings on which the shape of an operator's result depends."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import (
    Site,
    chain_root,
    find_definitions,
    infer_variable,
    names_bound,
    walk,
)
from fullgraph.rewrites.source import dotted_name, string_literal
from fullgraph.rewrites.transforms.boundaries.arguments import OperatorBody
from fullgraph.rewrites.transforms.boundaries.results import levels_of

_CHANGES = re.compile(r"[^_]_$|^(append|extend|insert|pop|update|clear|backward|add|setdefault)$")
"""Last names of calls that change an object."""
_NEW = m.Call(func=m.Attribute(attr=m.Name("clone") | m.Name(m.MatchRegex(r"new_\w+"))))
"""Methods whose result shares no memory with the tensor."""


def body_of(
    site: Site,
    name: str,
    function: cst.FunctionDef,
    body: cst.BaseSuite,
    at: cst.CSTNode,
    given: frozenset[str],
    results: Sequence[cst.BaseExpression],
) -> OperatorBody:
    """Return code to move into an operator, for the settings that a result depends on.

    `results` are the expressions of its results.
    """
    wanted = levels_of(site.document, body, results).keys()
    changed = {root.value for _, root in changes_in_place(body)}
    constant = given - {*names_bound(function.body)}
    conditions: dict[str, None] = {}
    taken: dict[cst.If, bool] = {}
    for node in walk(body):
        if not isinstance(node, cst.If | cst.IfExp | cst.CompIf):
            continue
        found, is_whole = _settings_in(site, node.test, constant)
        line = site.document.statement(node)
        blocks = [node.body, node.orelse] if isinstance(node, cst.If) else [line]
        if not found or not any(_decides(site, one, wanted, changed) for one in blocks if one):
            continue
        conditions |= dict.fromkeys(found)
        value = _only_value(site, node.test)
        if isinstance(node, cst.If) and is_whole and value is not None:
            taken[node] = bool(value.values[0])
    definitions = find_definitions(site.document, function.body, taken)
    assert definitions is not None, "the body lies in a function"
    return OperatorBody(name, function, body, at, given, definitions, tuple(conditions))


def changes_in_place(body: cst.BaseSuite) -> Iterator[tuple[cst.CSTNode, cst.Name]]:
    """Yield what `body` changes in place, such as `x[0]`, and the variable that it is part of."""
    for node in walk(body):
        changed: cst.CSTNode | None = None
        match node:
            case cst.AssignTarget() | cst.AnnAssign():
                is_part = isinstance(node.target, cst.Attribute | cst.Subscript)
                changed = node.target if is_part else None
            case cst.AugAssign():
                changed = node.target
            case cst.Call(func=cst.Attribute(value=value, attr=name)):
                changed = value if _CHANGES.search(name.value) else None
        root = chain_root(changed, _NEW) if changed is not None else None
        if changed is not None and isinstance(root, cst.Name):
            yield changed, root


def _settings_in(
    site: Site, test: cst.BaseExpression, constant: Collection[str]
) -> tuple[list[str], bool]:
    """Return the conditions for the settings in a test, and whether it asks for nothing else."""
    found: list[str] = []
    is_whole, left = True, [test]
    for node in left:
        path = dotted_name(node)
        if not path or path in ("None", "True", "False"):
            is_whole &= not isinstance(node, cst.Call | cst.Subscript)
            left += [one for one in node.children if isinstance(one, cst.BaseExpression)]
            if isinstance(node, cst.Comparison):
                left += [one.comparator for one in node.comparisons]
            continue
        seen = _only_value(site, node)
        value = seen.values[0] if seen is not None else None
        if path.partition(".")[0] in constant and isinstance(value, bool):
            found.append(path if value else f"not {path}")
        elif path.partition(".")[0] in constant and isinstance(value, str):
            found.append(f"{path} == {string_literal(value).value}")
        else:
            is_whole = False
    return found, is_whole


def _only_value(site: Site, node: cst.CSTNode) -> ValueSummary | None:
    """Return the one bool or string that an expression was in all runs; None if there is none."""
    runs = [site.observed(node), *site.observed_at_other_sizes(node)]
    seen = [one for one in runs if one is not None]
    values = {(one.types, one.values) for one in seen}
    one_value = len(values) == 1 and len(seen[0].values) == 1
    return seen[0] if one_value and seen[0].types in (("bool",), ("str",)) else None


def _decides(
    site: Site, block: cst.CSTNode, wanted: Collection[str], changed: Collection[str]
) -> bool:
    """Whether it matters for a result's shape, or for what is changed in place, that `block` runs.

    `wanted` are the variables that the results are computed from, `changed` those changed in place.
    """
    for one in walk(block):
        names = names_bound(one)
        match one:
            case cst.Return():
                return True
            case cst.Assign(value=value) | cst.AnnAssign(value=cst.BaseExpression() as value):
                if any(name in changed for name in names):
                    return True
            case cst.AugAssign(target=value):
                before = infer_variable(site, dotted_name(value), site.document.statement(one))
                if before is not None and before.is_tensor:
                    continue
            case cst.Call(func=cst.Attribute(value=target, attr=name)):
                names = (dotted_name(target),) if _CHANGES.search(name.value) else ()
                value = one
            case _:
                continue
        if any(name in wanted for name in names) and not _keeps_shape(site, names, value):
            return True
    return False


def _keeps_shape(site: Site, names: Sequence[str], value: cst.BaseExpression) -> bool:
    """Whether the variables `names` have the shape of `value`, which is computed from them."""
    seen = site.observed(value)
    if seen is None or not seen.is_tensor or len(seen.shapes) != 1:
        return False
    before = [site.observed(one) for one in walk(value) if dotted_name(one) in names]
    return any(one is not None and one.shapes == seen.shapes for one in before)
