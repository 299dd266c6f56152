"""Which statement of a site moves into an operator, and what moves with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site, find_all, find_definitions, walk
from fullgraph.rewrites.source import Document
from fullgraph.rewrites.transforms.eager_only import is_kept_in_eager
from fullgraph.rewrites.transforms.outline.differences import (
    find_call_refusal,
    find_outlining_refusal,
)
from fullgraph.rewrites.transforms.outline.operator import (
    Statement,
    StatementPredicate,
    chain_of,
)


def find_outlined_statement(site: Site, accepts: StatementPredicate) -> Statement | None:
    """Return the statement of a site to move into an operator; None if `accepts` refuses it.

    Return an `if` around the statement instead if `accepts` holds for it too, and its condition
    needs a tensor's values. None also outside of functions, and for what eager code keeps.
    """
    document, above = site.document, site.document.ancestors(site.statement)
    if document.function(site.node) is None or any(
        is_kept_in_eager(document, one) for one in (site.statement, *above)
    ):
        return None
    statement = _end_of_chain(site, site.statement, accepts)
    return _widen_to_ifs(site, statement, accepts) if accepts(site, statement) else None


def widest_statement(site: Site, statement: Statement, accepts: StatementPredicate) -> Statement:
    """Return what moves into an operator for `statement`: it, or an `if` around it."""
    return _widen_to_ifs(site, _end_of_chain(site, statement, accepts), accepts)


def _end_of_chain(site: Site, statement: Statement, accepts: StatementPredicate) -> Statement:
    """Return the `if`, or the first `elif`, from which a chain can move into an operator.

    `statement` is in the chain. If nothing can move, return what `accepts` holds for.
    """
    chain = [one for one in chain_of(site.document, statement) if accepts(site, one)]
    movable = (
        one
        for one in chain
        if one is statement
        or not (_is_decided_check(site, one) or find_outlining_refusal(site, one))
    )
    return next(movable, chain[0] if chain else statement)


def _is_decided_check(site: Site, statement: Statement) -> bool:
    """Whether torch.compile knows if the first branch of an `if` is taken, which only raises."""
    return (
        m.matches(statement, m.If(body=m.IndentedBlock([m.SimpleStatementLine([m.Raise()])])))
        and isinstance(statement, cst.If)
        and not condition_needs_values(site, statement.test)
        and not _has_cause(site, statement.test)
        and not assignments_for(site, statement)
    )


def find_statement_after(site: Site, accepts: StatementPredicate) -> Statement | None:
    """Return the statement after a site's assignment that moves into an operator with it.

    None if there is none, or if other code reads the variable.
    """
    block = site.document.parents.get(site.statement)
    if not isinstance(block, cst.IndentedBlock):
        return None
    after = iter(block.body)
    for line in after:
        if line is site.statement:
            break
    for line in after:
        if isinstance(line, Statement) and accepts(site, line):
            return line if site.statement in assignments_for(site, line) else None
        if _assigned_name(line) is None:
            break
    return None


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
    return chain_of(document, around)[0] if isinstance(around, cst.If) else None


def _needs_tensor_values(site: Site, statement: cst.If) -> bool:
    """Whether a condition of an `if` chain needs the values of a tensor."""
    return any(condition_needs_values(site, test) for test in conditions_of(statement))


def condition_needs_values(site: Site, test: cst.BaseExpression) -> bool:
    """Whether a condition reads values of tensors, not only metadata."""
    return any(_needs_values(site, operand) for operand in tested_operands(test))


def tested_operands(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the operands of `and`, `or`, `not` and other operators of one operand, in order."""
    match test:
        case cst.BooleanOperation(left=left, right=right):
            yield from tested_operands(left)
            yield from tested_operands(right)
        case cst.UnaryOperation(expression=operand):
            yield from tested_operands(operand)
        case _:
            yield test


def _needs_values(site: Site, test: cst.BaseExpression) -> bool:
    if site.is_tensor(test):
        return True
    calls = [cst.ensure_type(one, cst.Call) for one in find_all(test, m.Call())]
    return any(
        site.callee_name(call).rpartition(".")[2]
        in ("item", "tolist", "equal", "allclose", "is_nonzero")
        or any(site.is_tensor(arg.value) and not site.is_tensor(call) for arg in call.args)
        for call in calls
        if site.callee_name(call) not in ("len", "isinstance", "hasattr")
    )


def assignments_for(site: Site, statement: Statement) -> list[Statement]:
    """Return the assignments right before `statement` that break the graph for it alone.

    `n = int(x.sum())` before `if n > 3: raise ValueError(n)`, if no other code reads `n`.
    """
    document, block = site.document, site.document.parent(statement)
    definitions = find_definitions(document, statement)
    found: list[Statement] = []
    if definitions is None or not isinstance(block, cst.IndentedBlock):
        return found
    readers = set(walk(statement))
    before = itertools.takewhile(lambda one: one is not statement, block.body)
    for line in reversed([*before]):
        name = _assigned_name(line)
        if name is None or not isinstance(line, cst.SimpleStatementLine):
            break
        uses = definitions.uses(name)
        alone = all(one in readers and definitions.reaching[one] == {name} for one in uses)
        if not (uses and alone and _has_cause(site, line)) or find_call_refusal(site, line):
            break
        found.insert(0, line)
        readers.update(walk(line))
    return found


def _assigned_name(line: cst.CSTNode) -> cst.Name | None:
    """Return `n` for the line `n = …`, which does not read `n`; None for other statements."""
    match line:
        case cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name() as name)]) as line]):
            return None if find_all(line.value, m.Name(name.value)) else name
    return None


def _has_cause(site: Site, line: cst.CSTNode) -> bool:
    """Whether the graph breaks in a line."""
    span = site.document.position(line)
    return any(one.file == span.file and one.line in span.lines for one in site.causes)


def conditions_of(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the conditions of the assertions in a statement, or of an `if` and its `elif`s."""
    if isinstance(statement, cst.If):
        rest = conditions_of(statement.orelse) if isinstance(statement.orelse, cst.If) else []
        return [statement.test, *rest]
    return [cst.ensure_type(one, cst.Assert).test for one in find_all(statement, m.Assert())]
