"""Calls of layers and functions that both branches make, computed once before the selection."""

from __future__ import annotations

import itertools

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site, called_function, walk
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

    `net_out = self.net(x)` comes before an assignment that would call `self.net(x)` for each
    branch. Raises NotApplicable as `make_assignments` does.
    """
    lines: list[cst.BaseStatement] = []
    names: list[str] = []
    for line in make_assignments(values):
        for call in _calls_of_both(site, branches):
            uses = [one for one in walk(line) if call.deep_equals(one)]
            if len(uses) < 2 or m.findall(line, _MAY_SKIP | _MAY_REPEAT | _IN_PLACE):
                continue
            stem = f"{dotted_name(call.func).rpartition('.')[2].strip('_') or 'layer'}_out"
            stems = itertools.chain([stem], (f"{stem}_{n}" for n in itertools.count(2)))
            unused = site.document.unused_local
            free = (one for one in stems if unused(branches.node, one) == one)
            names.append(next(one for one in free if one not in names))
            lines.append(build_statement(f"{names[-1]} = {{call}}", call=call))
            line = _replace_calls(line, uses, names[-1])
        lines.append(line)
    return lines


def _replace_calls(
    line: cst.BaseStatement, calls: list[cst.CSTNode], name: str
) -> cst.BaseStatement:
    """Return `line` with `name` in place of `calls`.

    Nodes without a call stay the same objects, by which the condition is found.
    """
    edits: dict[cst.CSTNode, Replacement] = dict.fromkeys(calls, cst.Name(name))
    return replace_nodes(line, edits, lambda node: not edits.keys().isdisjoint(walk(node)))


def _calls_of_both(site: Site, branches: Branches) -> list[cst.Call]:
    """Return the calls in one branch, outermost first, that the other has too and are not cheap.

    A call in the condition is none of them: the condition is named as a whole.
    """
    calls, others, tested = (
        [node for line in lines for node in walk(line) if isinstance(node, cst.Call)]
        for lines in (branches.one, branches.other, [branches.test])
    )
    return [
        call
        for call in calls
        if any(call.deep_equals(same) for same in others)
        and not any(call.deep_equals(same) for same in tested)
        and (is_work_alone(site, call) or called_function(site, call) is not None)
    ]
