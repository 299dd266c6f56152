"""Calls of layers and functions that both branches make, computed once before the selection."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site, called_function, names_bound, names_mutated, walk
from fullgraph.rewrites.source import Replacement, build_statement, dotted_name, replace_nodes
from fullgraph.rewrites.transforms.branches.assignments import make_assignments
from fullgraph.rewrites.transforms.branches.branches import Branches
from fullgraph.rewrites.transforms.branches.shortcut import is_work_alone

_MAY_SKIP = m.IfExp() | m.BooleanOperation() | m.Lambda() | m.NamedExpr()
_MAY_REPEAT = m.ListComp() | m.SetComp() | m.DictComp() | m.GeneratorExp() | m.Await()
_IN_PLACE = m.Attribute(attr=m.Name(m.MatchRegex(r".*[^_]_")))


def assign_once(
    site: Site, branches: Branches, values: dict[str, cst.BaseExpression]
) -> list[cst.BaseStatement]:
    """Return the assignments of `values`, which select between the values of `branches`.

    Calls that both make come first, as in `share_calls`. Raises NotApplicable as
    `make_assignments` does.
    """
    lines: list[cst.BaseStatement] = []
    for line in make_assignments(values):
        parts = branches.test, branches.one, branches.other
        shared, line = share_calls(site, *parts, line, names_bound(*lines))
        lines += [*shared, line]
    return lines


def share_calls(
    site: Site,
    test: cst.BaseExpression,
    one: Sequence[cst.CSTNode],
    other: Sequence[cst.CSTNode],
    code: cst.CSTNodeT,
    taken: Collection[str] = (),
) -> tuple[list[cst.BaseStatement], cst.CSTNodeT]:
    """Return the lines `net_out = self.net(x)`, and `code` with these names.

    They are for the calls that `code`, a selection between `one` and `other` by `test`, would make
    for both. `taken` are names that may not be used.
    """
    lines: list[cst.BaseStatement] = []
    for call in _calls_of_both(site, test, one, other):
        uses = [same for same in walk(code) if call.deep_equals(same)]
        if len(uses) < 2 or m.findall(code, _MAY_SKIP | _MAY_REPEAT | _IN_PLACE):
            continue
        stem = f"{dotted_name(call.func).rpartition('.')[2].strip('_') or 'layer'}_out"
        stems = itertools.chain([stem], (f"{stem}_{n}" for n in itertools.count(2)))
        free = (one for one in stems if site.document.unused_local(test, one) == one)
        name = next(one for one in free if one not in (*taken, *names_bound(*lines)))
        lines.append(build_statement(f"{name} = {{call}}", call=call))
        code = _replace_calls(code, uses, name)
    return lines, code


def reuse_results(
    site: Site,
    test: cst.BaseExpression,
    early: cst.BaseExpression,
    statements: Sequence[cst.BaseStatement],
    value: cst.BaseExpression,
) -> cst.BaseExpression:
    """Return `value` with `y` for a call in `early` that `statements` make: `y = self.net(x)`.

    `early` is the result where `test` holds, and no operand of it changes in `statements`.
    """
    bound = Counter(name for line in statements for name in names_bound(line))
    for line in statements:
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=result)]
            ) if bound[name] == 1 and name not in names_mutated(*statements):
                for call in _calls_of_both(site, test, [early], [result]):
                    if call.deep_equals(result):
                        uses = [one for one in walk(value) if call.deep_equals(one)]
                        value = _replace_calls(value, uses, name)
    return value


def _replace_calls(code: cst.CSTNodeT, calls: Sequence[cst.CSTNode], name: str) -> cst.CSTNodeT:
    """Return `code` with `name` in place of `calls`.

    Nodes without a call stay the same objects, by which the condition is found.
    """
    edits: dict[cst.CSTNode, Replacement] = dict.fromkeys(calls, cst.Name(name))
    return replace_nodes(code, edits, lambda node: not edits.keys().isdisjoint(walk(node)))


def _calls_of_both(
    site: Site,
    test: cst.BaseExpression,
    one: Sequence[cst.CSTNode],
    other: Sequence[cst.CSTNode],
) -> list[cst.Call]:
    """Return the calls in one branch, outermost first, that the other has too and are not cheap.

    A call in the condition is none of them: the condition is named as a whole.
    """
    calls, others, tested = (
        [node for line in lines for node in walk(line) if isinstance(node, cst.Call)]
        for lines in (one, other, [test])
    )
    return [
        call
        for call in calls
        if any(call.deep_equals(same) for same in others)
        and not any(call.deep_equals(same) for same in tested)
        and (is_work_alone(site, call) or called_function(site, call) is not None)
    ]
