"""Edit that moves a statement into the body of a custom operator and calls the operator."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite
from fullgraph.rewrites.source import Document, Replacement, replace_nodes
from fullgraph.rewrites.transforms.outline.differences import (
    changes_object_before,
    find_outlining_refusal,
    is_exception_caught,
    outlining_assumptions,
)
from fullgraph.rewrites.transforms.outline.free_variables import find_operator_parameters
from fullgraph.rewrites.transforms.outline.operator import (
    OperatorKind,
    Statement,
    StatementPredicate,
    chain_head,
    define_operator,
    operator_path,
    set_apart,
)


def find_outlined_statement(site: Site, accepts: StatementPredicate) -> Statement | None:
    """Return the statement of a site to move into an operator; None if `accepts` refuses it.

    Return an `if` around the statement instead if `accepts` holds for it too, and its condition
    needs a tensor's values. None also outside of functions.
    """
    document = site.document
    if document.function(site.node) is None:
        return None
    statement = chain_head(document, site.statement)
    return _widen_to_ifs(site, statement, accepts) if accepts(site, statement) else None


def outline_statement(
    site: Site, statement: Statement, kind: OperatorKind, why: str
) -> Rewrite | Refusal:
    """Return the rewrite that moves `statement` into an operator; `why` explains it to the user."""
    document = site.document
    if operator_path(document, kind.stem) is None:
        return Refusal("an operator cannot be named after this file")
    if (refusal := find_outlining_refusal(site, statement)) is not None:
        return refusal
    raises = bool(m.findall(statement, m.Raise() | m.Assert()))
    if raises and is_exception_caught(document, statement):
        return Refusal("what it raises is handled by a `try` that would be compiled with it")
    parameters = find_operator_parameters(site, statement)
    if isinstance(parameters, Refusal):
        return parameters
    assumes = outlining_assumptions(site, statement, parameters)
    if raises and changes_object_before(document, statement):
        assumes.append("nobody uses what was changed before a check that fails")
    alike = {
        _widen_to_ifs(site, chain_head(document, one), kind.accepts)
        for one in document.ranges
        if isinstance(one, cst.SimpleStatementLine | cst.If) and kind.accepts(site, one)
    }
    name = kind.name_operator(document, statement, alike)
    arguments = ", ".join(one.code for one in parameters.parameters)
    call = cst.parse_statement(f"{name}({arguments})", config=document.module.config_for_parsing)
    assert isinstance(call, cst.SimpleStatementLine)
    call = call.with_changes(leading_lines=statement.leading_lines)
    body = replace_nodes(statement, parameters.renamed) if parameters.renamed else statement
    signature = ", ".join(f"{one.name}: {one.form.annotation}" for one in parameters.parameters)
    return Rewrite(
        _insert_definitions(
            document, statement, call, define_operator(document, kind, name, signature, body)
        ),
        why,
        Applicability.UNSAFE if assumes else Applicability.SAFE,
        tuple(assumes),
        imports=("torch",),
        tests=tuple(_conditions_of(statement)),
        exempts=frozenset({"grad_fn"} if any("grad_fn=" in clause for clause in assumes) else ()),
    )


def _widen_to_ifs(site: Site, statement: Statement, accepts: StatementPredicate) -> Statement:
    """Return the outermost `if` around `statement` whose conditions need a tensor's values.

    `accepts` has to hold for it. Returns `statement` if there is none.
    """
    while isinstance(around := _if_around(site.document, statement), cst.If):
        if not (accepts(site, around) and _needs_tensor_values(site, around)):
            break
        statement = around
    return statement


def _if_around(document: Document, statement: cst.CSTNode) -> cst.CSTNode | None:
    """Return the `if` that a statement is in a branch of, or None.

    For a statement under `elif` or `else`, return the first `if` of the chain.
    """
    block = document.parent(statement)
    if not isinstance(block, cst.IndentedBlock):
        return None
    around = document.parent(block)
    if isinstance(around, cst.Else):
        around = document.parent(around)
    return chain_head(document, around) if isinstance(around, cst.If) else None


def _needs_tensor_values(site: Site, statement: cst.If) -> bool:
    """Whether a condition of an `if` chain needs the values of a tensor."""
    return any(_condition_needs_values(site, test) for test in _conditions_of(statement))


def _condition_needs_values(site: Site, test: cst.BaseExpression) -> bool:
    """Whether a condition reads values of tensors, not only metadata."""
    if isinstance(test, cst.BooleanOperation):
        return _condition_needs_values(site, test.left) or _condition_needs_values(site, test.right)
    if isinstance(test, cst.UnaryOperation):
        return _condition_needs_values(site, test.expression)
    if site.is_tensor(test):
        return True
    calls = [cst.ensure_type(one, cst.Call) for one in m.findall(test, m.Call())]
    return any(
        site.callee_name(call).rpartition(".")[2]
        in ("item", "tolist", "equal", "allclose", "is_nonzero")
        or any(site.is_tensor(arg.value) and not site.is_tensor(call) for arg in call.args)
        for call in calls
    )


def _conditions_of(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the conditions of the assertions in a statement, or of an `if` and its `elif`s."""
    if isinstance(statement, cst.If):
        rest = _conditions_of(statement.orelse) if isinstance(statement.orelse, cst.If) else []
        return [statement.test, *rest]
    return [cst.ensure_type(one, cst.Assert).test for one in m.findall(statement, m.Assert())]


def _insert_definitions(
    document: Document,
    statement: Statement,
    call: cst.SimpleStatementLine,
    definitions: list[cst.BaseStatement],
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that replace `statement` by `call` and insert `definitions` above.

    They follow the imports of the file.
    """
    anchor = _anchor_statement(document, statement)
    if anchor is not None:
        return {statement: call, anchor: cst.FlattenSentinel([anchor, *definitions])}
    first = document.module.body[0]
    inner = replace_nodes(first, {statement: call})
    return {first: cst.FlattenSentinel([*definitions, set_apart(inner)])}


def _anchor_statement(document: Document, statement: Statement) -> cst.CSTNode | None:
    """Return the statement to insert definitions after; None for the top of the file.

    It is the last import, or the statement before the first definition.
    """
    body = document.module.body
    outer = next(one for one in body if one in (statement, *document.ancestors(statement)))
    before = list(body[: body.index(outer)])
    definitions = [i for i, one in enumerate(before) if isinstance(one, _DEFINITIONS)]
    imports = [i for i, one in enumerate(before) if m.findall(one, _IMPORT)]
    end = max(definitions[0] if definitions else len(before), imports[-1] + 1 if imports else 0)
    return before[end - 1] if end else None


_DEFINITIONS = cst.FunctionDef | cst.ClassDef
_IMPORT = m.Import() | m.ImportFrom()
