"""Edit that moves a statement into the body of a custom operator and calls the operator."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site, find_all, has_raise
from fullgraph.rewrites.rule import Refusal, Rewrite
from fullgraph.rewrites.source import Document, Replacement, replace_nodes
from fullgraph.rewrites.transforms.eager_only import (
    choose_when_compiling,
    is_kept_in_eager,
    operands_of,
)
from fullgraph.rewrites.transforms.outline.differences import (
    EXCEPTION_CAUGHT,
    changes_object_before,
    detach,
    detachable,
    find_outlining_refusal,
    is_exception_caught,
    outlining_assumptions,
)
from fullgraph.rewrites.transforms.outline.free_variables import (
    OperatorParameters,
    find_operator_parameters,
    names_bound_in,
)
from fullgraph.rewrites.transforms.outline.operator import (
    OperatorKind,
    Statement,
    chain_of,
    define_operator,
    insert_after,
    operator_path,
    replace_in_chain,
    set_apart,
)
from fullgraph.rewrites.transforms.outline.outlined_statement import (
    assignments_for,
    conditions_of,
    widest_statement,
)
from fullgraph.rewrites.transforms.outline.parameter_types import parameters_of
from fullgraph.rewrites.transforms.outline.shared_operator import (
    MESSAGE,
    find_defined_operator,
    find_lines_alike,
    first_text,
)


def outline_statement(
    site: Site, statement: Statement, kind: OperatorKind, why: str
) -> Rewrite | Refusal:
    """Return the rewrite that moves `statement` into an operator; `why` explains it to the user.

    Assignments before a check that break the graph for the check alone move with it.
    """
    document = site.document
    if operator_path(document, kind.stem) is None:
        return Refusal("an operator cannot be named after this file")
    if (refusal := find_outlining_refusal(site, statement)) is not None:
        return refusal
    raises = has_raise(document, statement)
    if raises and is_exception_caught(document, statement):
        return Refusal(EXCEPTION_CAUGHT)
    moved = [*(assignments_for(site, statement) if raises else ()), statement]
    decided = _decided_operands(site, statement)
    parameters = find_operator_parameters(site, moved, decided)
    if isinstance(parameters, Refusal):
        return parameters
    parameters = _without_none(document, parameters, decided)
    assumes = outlining_assumptions(site, moved, parameters)
    if raises and changes_object_before(document, statement):
        assumes.append("nobody uses what was changed before a check that fails")
    lines = [
        one
        for one in document.ranges
        if isinstance(one, cst.SimpleStatementLine | cst.If) and kind.accepts(site, one)
    ]
    stays, simple = kind.stays_in_eager(site, statement), cst.SimpleStatementLine
    kept = (one for one in lines if isinstance(one, simple) and kind.stays_in_eager(site, one))
    shared = find_lines_alike(site, statement, kept) if stays else []
    outside = {*shared[1:], *chain_of(document, statement)[:-1]}
    alike = {
        widest_statement(site, one, kind.accepts)
        for one in lines
        if not is_kept_in_eager(document, one) and one not in outside
    }
    detached = detachable(site, moved, parameters)
    arguments = [detach(one) if one in detached else one.code for one in parameters.parameters]
    signature = [f"{one.name}: {one.form.annotation}" for one in parameters.parameters]
    renamed = dict(parameters.renamed)
    if shared and (text := first_text(statement)) is not None:
        arguments.insert(0, text.value)
        signature.insert(0, f"{MESSAGE}: str")
        renamed[text] = cst.Name(MESSAGE)
    body = [replace_nodes(one, renamed) for one in moved]

    def define(name: str) -> list[cst.BaseStatement]:
        return define_operator(document, kind, name, ", ".join(signature), body)

    known = find_defined_operator(document, kind.stem, define) if shared else ""
    name = known or kind.name_operator(document, [*shared, statement][0], alike)
    code = f"{name}({', '.join(arguments)})"
    call = cst.parse_statement(code, config=document.module.config_for_parsing)
    assert isinstance(call, cst.SimpleStatementLine)
    new: Statement = call
    if decided and isinstance(statement, cst.If):
        new, body[-1] = _split_condition(body[-1], call, len(decided))
    if stays and isinstance(statement, cst.SimpleStatementLine | cst.If):
        new = choose_when_compiling(document, new, statement)
    else:
        new = new.with_changes(leading_lines=moved[0].leading_lines)
    return Rewrite(
        _insert_definitions(document, moved, new, [] if known else define(name)),
        why,
        assumes=tuple(assumes),
        imports=("torch",),
        tests=tuple(conditions_of(statement)),
        exempts=frozenset({"grad_fn"} if any("grad_fn=" in clause for clause in assumes) else ()),
    )


def _decided_operands(site: Site, statement: Statement) -> list[cst.BaseExpression]:
    """Return what torch.compile decides first in the condition of an `if`: `x is not None and …`.

    [] for other statements. Each item is an operand of the `and`: whether something is None or of
    a type, an attribute that was a bool, or a parameter that was one.
    """
    if not isinstance(statement, cst.If) or statement.orelse is not None:
        return []
    *operands, _ = operands_of(statement.test.with_changes(lpar=(), rpar=()), cst.And)
    return [*itertools.takewhile(partial(_is_decided, site), operands)]


def _is_decided(site: Site, operand: cst.BaseExpression) -> bool:
    """Whether torch.compile knows the value of a condition."""
    match operand:
        case cst.UnaryOperation(operator=cst.Not(), expression=expression):
            return _is_decided(site, expression)
        case cst.Comparison(comparisons=[cst.ComparisonTarget(cst.Is() | cst.IsNot(), other)]):
            return m.matches(other, m.Name("None"))
        case cst.Call(func=cst.Name("isinstance")):
            return True
        case cst.Attribute() | cst.Name():
            function = site.document.function(operand)
            names = {one.name.value for one in parameters_of(function)}
            kept = isinstance(operand, cst.Attribute) or (
                function is not None and operand.value in names - names_bound_in(function)
            )
            seen = site.observed(operand)
            return kept and seen is not None and set(seen.types) == {"bool"}
    return False


def _without_none(
    document: Document, parameters: OperatorParameters, decided: Sequence[cst.BaseExpression]
) -> OperatorParameters:
    """Return parameters without None in the types of those that `decided` tests for it."""
    none = m.Comparison(comparisons=[m.ComparisonTarget(m.IsNot(), m.Name("None"))])
    tested = {
        document.code(cst.ensure_type(one, cst.Comparison).left)
        for one in decided
        if m.matches(one, none)
    }
    found = [
        replace(one, form=replace(one.form, annotation=one.form.annotation.removesuffix(" | None")))
        if one.code in tested
        else one
        for one in parameters.parameters
    ]
    return replace(parameters, parameters=found)


def _split_condition(
    statement: Statement, call: cst.SimpleStatementLine, count: int
) -> tuple[cst.If, cst.If]:
    """Return `if a:` with a call of an operator, and its statement `if b:`, for `if a and b:`.

    `count` is the number of operands that stay outside.
    """
    inner = cst.ensure_type(statement, cst.If)
    operands = operands_of(inner.test.with_changes(lpar=(), rpar=()), cst.And)
    outer, rest = (
        reduce(lambda a, b: cst.BooleanOperation(a, cst.And(), b), part)
        for part in (operands[:count], operands[count:])
    )
    if "\n" in cst.Module([]).code_for_node(rest):
        rest = rest.with_changes(lpar=inner.test.lpar, rpar=inner.test.rpar)
    return cst.If(outer, cst.IndentedBlock([call])), inner.with_changes(test=rest, leading_lines=())


def _insert_definitions(
    document: Document,
    moved: Sequence[Statement],
    call: Statement,
    definitions: list[cst.BaseStatement],
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that replace the statements `moved` by `call` and insert `definitions`.

    The definitions follow the imports of the file.
    """
    edits: dict[cst.CSTNode, Replacement] = dict.fromkeys(moved, cst.RemoveFromParent())
    edits[moved[-1]] = replace_in_chain(document, moved[-1], [call])
    if not definitions:
        return edits
    anchor = _anchor_statement(document, moved[-1])
    if anchor is not None:
        return insert_after(document, anchor, definitions, edits)
    first = document.module.body[0]
    inner = replace_nodes(first, edits)
    return {first: cst.FlattenSentinel([*definitions, set_apart(inner)])}


def _anchor_statement(document: Document, statement: Statement) -> cst.CSTNode | None:
    """Return the statement to insert definitions after; None for the top of the file.

    It is the last import, or the statement before the first definition.
    """
    body = document.module.body
    outer = next(one for one in body if one in (statement, *document.ancestors(statement)))
    before = list(body[: body.index(outer)])
    definitions = [i for i, one in enumerate(before) if isinstance(one, _DEFINITIONS)]
    imports = [i for i, one in enumerate(before) if find_all(one, _IMPORT)]
    end = max(definitions[0] if definitions else len(before), imports[-1] + 1 if imports else 0)
    return before[end - 1] if end else None


_DEFINITIONS = cst.FunctionDef | cst.ClassDef
_IMPORT = m.Import() | m.ImportFrom()
