"""Calls of layers and functions that both branches make, computed once before the selection."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    Site,
    called_function,
    class_of,
    constructor_call,
    find_all,
    names_bound,
    names_mutated,
    walk,
    word_set,
)
from fullgraph.rewrites.source import Replacement, build_statement, dotted_name, replace_nodes
from fullgraph.rewrites.transforms.branches.assignments import make_assignments
from fullgraph.rewrites.transforms.branches.branches import Branches
from fullgraph.rewrites.transforms.branches.shortcut import is_work_alone

_MAY_SKIP = m.IfExp() | m.BooleanOperation() | m.Lambda() | m.NamedExpr()
_MAY_REPEAT = m.ListComp() | m.SetComp() | m.DictComp() | m.GeneratorExp() | m.Await()
_IN_PLACE_LAYERS = word_set(
    """
    AlphaDropout CELU Dropout Dropout1d Dropout2d Dropout3d ELU FeatureAlphaDropout Hardsigmoid
    Hardswish Hardtanh LeakyReLU Mish RReLU ReLU ReLU6 SELU SiLU Threshold
    """
)
"""Layers with an argument `inplace`."""
_MAY_SET_INPLACE = m.Arg(value=m.Name("True")) | m.Arg(
    value=~m.Name("False"), keyword=m.Name("inplace")
)
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
        if len(uses) < 2 or find_all(code, _MAY_SKIP | _MAY_REPEAT | _IN_PLACE):
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

    `early` is the result where `test` holds, and no operand of it changes in `statements`, which
    include the last return.
    """
    bound = Counter(name for line in statements for name in names_bound(line))
    for line in statements:
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=result)]
            ) if bound[name] == 1 and name not in names_mutated(*statements):
                for call in _calls_of_both(site, test, [early], [result], statements):
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
    after: Sequence[cst.CSTNode] = (),
) -> list[cst.Call]:
    """Return the calls in one branch, outermost first, that the other has too and are not cheap.

    A call in the condition is none of them: the condition is named as a whole. Nor is one whose
    result a layer in the branches, or in the code `after` them, may change in place.
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
        and not _may_be_changed(site, call, [*one, *other, *after])
    ]


def _may_be_changed(site: Site, call: cst.Call, code: Sequence[cst.CSTNode]) -> bool:
    """Return whether a layer may change in place what `call` returns: `self.act(self.net(x))`."""
    names = {*names_bound(*code)}
    return any(
        (call.deep_equals(part) or dotted_name(part) in names) and _may_be_in_place(site, layer)
        for line in code
        for layer in walk(line)
        if isinstance(layer, cst.Call) and not layer.deep_equals(call)
        for arg in layer.args
        for part in walk(arg)
    )


def _may_be_in_place(site: Site, call: cst.Call) -> bool:
    """Return whether a call is one of a layer with `inplace=True`, or unknown layers."""
    kind = class_of(site, call.func)
    if not kind.startswith("torch.nn."):
        return bool(kind)
    last, made = kind.rpartition(".")[2], constructor_call(site, call.func)
    if last not in (*_IN_PLACE_LAYERS, "Sequential"):
        return False
    if made is None or find_all(made, _MAY_SET_INPLACE):
        return True
    inside = [arg.value for arg in made.args if last == "Sequential"]
    return not all(
        isinstance(one, cst.Call) and site.document.qualified_name(one.func).startswith("torch.nn.")
        for one in inside
    )
