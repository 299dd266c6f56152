"""Statements of a function as a custom operator."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import NotApplicable, Site, find_all
from fullgraph.rewrites.source import Replacement
from fullgraph.rewrites.transforms.boundaries.arguments import (
    arguments_of,
    is_stored,
    names_in,
    parameter_names,
)
from fullgraph.rewrites.transforms.boundaries.operator import (
    OperatorEdit,
    check_effects,
    join_conditions,
    operator_edit,
)
from fullgraph.rewrites.transforms.boundaries.origins import OriginFinder
from fullgraph.rewrites.transforms.boundaries.results import result_of
from fullgraph.rewrites.transforms.boundaries.settings import body_of


def define_operator_of_statements(site: Site) -> OperatorEdit:
    """Return the edit that moves the statement of a site into an operator.

    Up to three statements after it move too, as few as needed for an operator that takes and
    returns only tensors and numbers. Raises NotApplicable.
    """
    document, statement = site.document, site.statement
    block, function = document.parent(statement), document.function(statement)
    if not isinstance(block, cst.IndentedBlock) or not isinstance(function, cst.FunctionDef):
        raise NotApplicable("no function lies around it")
    start = next(number for number, one in enumerate(block.body) if one is statement)
    reason = NotApplicable("no statements around it take and give tensors alone")
    for end in range(start, min(start + 4, len(block.body))):
        try:
            return _edit_of_statements(site, function, block.body[start : end + 1])
        except NotApplicable as escape:
            reason = reason if end > start else escape
    raise reason


def _edit_of_statements(
    site: Site, function: cst.FunctionDef, statements: Sequence[cst.BaseStatement]
) -> OperatorEdit:
    """Return the edit that moves neighbouring `statements` of `function` into a custom operator.

    Raises NotApplicable if no operator can do what they do.
    """
    document = site.document
    flow = m.Return() | m.Break() | m.Continue() | m.Yield() | m.Await() | m.Del()
    if any(find_all(one, flow) for one in statements):
        raise NotApplicable("control goes on elsewhere from there")
    body = cst.IndentedBlock(list(statements))
    inside = names_in(document, body)
    own, last = {id(one) for one in inside}, document.position(statements[-1])
    stored = {one.value for one in inside if is_stored(document, one)}
    others = [one for one in names_in(document, function.body) if id(one) not in own]
    later = [
        one
        for one in others
        if one.value in stored and document.position(one).line > last.lines[-1]
    ]
    if not later:
        raise NotApplicable("it gives nothing to the code after it")
    results: dict[str, cst.BaseExpression] = {}
    converted: dict[str, cst.Call] = {}
    taken: dict[cst.CSTNode, Replacement] = {}
    for one in later:
        value: cst.BaseExpression = one
        if (call := _conversion_of(site, one)) is not None:
            value = converted[one.value] = call
            taken[call] = one
        if not is_stored(document, one) and site.observed(value) is not None:
            results.setdefault(one.value, value)
    if any(one.value in converted and _conversion_of(site, one) is None for one in later):
        raise NotApplicable("the code after it needs arrays and tensors")
    if {one.value for one in later} != results.keys():
        raise NotApplicable("what it gives to the code after it was not seen")
    before = {one.value for one in others if is_stored(document, one)}
    given = frozenset(before | {one.value for one in parameter_names(function)})
    if given & stored:
        raise NotApplicable(f"it changes `{min(given & stored)}`")
    name = _operator_name(site, statements, next(iter(results)), function.name.value.strip("_"))
    piece = body_of(site, name, function, body, statements[-1], given, [*results.values()])
    check_effects(document, piece)
    arguments, renamed = arguments_of(site, piece)
    finder = OriginFinder(site, piece, arguments)
    facts = [result_of(site, piece, [value], finder) for value in results.values()]
    config = document.module.config_for_parsing
    names = ", ".join(results)
    values = (document.code(converted[one]) if one in converted else one for one in results)
    returned = cst.parse_statement(f"return {', '.join(values)}\n", config=config)
    first = statements[0].with_changes(leading_lines=())
    moved = [first, *statements[1:], returned]
    edit = operator_edit(site, piece, moved, arguments, renamed, facts, finder.host_arguments())
    if edit.dynamic:
        raise NotApplicable("the size of its result depends on data")
    lines = getattr(statements[0], "leading_lines", ())
    rest: dict[cst.CSTNode, Replacement] = {
        **dict.fromkeys(statements[1:], cst.RemoveFromParent()),
        **taken,
    }
    edit.as_compiled = {**edit.replacements, **rest}
    edit.replacements.update(rest)
    for edits, conditions in (
        (edit.as_compiled, edit.conditions),
        (edit.replacements, edit.when_compiling),
    ):
        text = f"{names} = {edit.call}\n"
        if conditions:
            eager = f"else:\n    {names} = {edit.function_call}\n"
            text = f"if {join_conditions(conditions)}:\n    {text}{eager}"
        new = cst.parse_statement(text, config=config)
        edits[statements[0]] = new.with_changes(leading_lines=lines)
    return edit


def _operator_name(
    site: Site, statements: Sequence[cst.BaseStatement], result: str, function: str
) -> str:
    """Return "unwrap" for the statement `y = np.unwrap(x)`, and "y_of_function" for others.

    `result` is the first result. The name in `forward` is that of the result alone, "y".
    """
    match statements:
        case [cst.SimpleStatementLine([cst.Assign(value=cst.Call(func=cst.Attribute()) as call)])]:
            name = site.document.qualified_name(call.func)
            stem = name.rpartition(".")[2].strip("_")
            known = name.partition(".")[0] in site.document.imports.values()
            if known and not name.startswith("torch.") and _is_free(site, stem):
                return stem
    names = (result, f"{result}_of_{function}") if function == "forward" else ()
    return next((one for one in names if _is_free(site, one)), f"{result}_of_{function}")


def _is_free(site: Site, name: str) -> bool:
    """Whether no operator of the file has a name."""
    return site.document.unused_name(f"_{name}_op") == f"_{name}_op"


def _conversion_of(site: Site, name: cst.Name) -> cst.Call | None:
    """Return the call that turns the NumPy array `name` into a tensor: `torch.from_numpy(name)`.

    None if `name` is not the only argument of such a call, or was not observed to be an array.
    """
    argument = site.document.parent(name)
    call = site.document.parent(argument) if isinstance(argument, cst.Arg) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1:
        return None
    makers = ("torch.from_numpy", "torch.tensor", "torch.as_tensor")
    seen = site.observed(name) if site.callee_name(call) in makers else None
    return call if seen is not None and seen.is_ndarray else None
