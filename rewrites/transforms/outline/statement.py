"""Edit that moves a statement into the body of a custom operator and calls the operator."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site, find_definitions, has_raise, walk
from fullgraph.rewrites.rule import Refusal, Rewrite
from fullgraph.rewrites.source import Document, Replacement, replace_nodes
from fullgraph.rewrites.transforms.eager_only import (
    choose_when_compiling,
    is_kept_in_eager,
    operands_of,
)
from fullgraph.rewrites.transforms.outline.differences import (
    changes_object_before,
    detach,
    detachable,
    find_call_refusal,
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
    StatementPredicate,
    chain_of,
    define_operator,
    insert_after,
    operator_path,
    replace_in_chain,
    set_apart,
)
from fullgraph.rewrites.transforms.outline.parameter_types import parameters_of
from fullgraph.rewrites.transforms.outline.shared_operator import (
    MESSAGE,
    find_defined_operator,
    find_lines_alike,
    first_text,
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
        and not _assignments_for(site, statement)
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
            return line if site.statement in _assignments_for(site, line) else None
        if _assigned_name(line) is None:
            break
    return None


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
        return Refusal("what it raises is handled by a `try` that would be compiled with it")
    moved = [*(_assignments_for(site, statement) if raises else ()), statement]
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
        _widen_to_ifs(site, _end_of_chain(site, one, kind.accepts), kind.accepts)
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
        tests=tuple(_conditions_of(statement)),
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


def _assignments_for(site: Site, statement: Statement) -> list[Statement]:
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
            return None if m.findall(line.value, m.Name(name.value)) else name
    return None


def _has_cause(site: Site, line: cst.CSTNode) -> bool:
    """Whether the graph breaks in a line."""
    span = site.document.position(line)
    return any(one.file == span.file and one.line in span.lines for one in site.causes)


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
    return any(condition_needs_values(site, test) for test in _conditions_of(statement))


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
    calls = [cst.ensure_type(one, cst.Call) for one in m.findall(test, m.Call())]
    return any(
        site.callee_name(call).rpartition(".")[2]
        in ("item", "tolist", "equal", "allclose", "is_nonzero")
        or any(site.is_tensor(arg.value) and not site.is_tensor(call) for arg in call.args)
        for call in calls
        if site.callee_name(call) not in ("len", "isinstance", "hasattr")
    )


def _conditions_of(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the conditions of the assertions in a statement, or of an `if` and its `elif`s."""
    if isinstance(statement, cst.If):
        rest = _conditions_of(statement.orelse) if isinstance(statement.orelse, cst.If) else []
        return [statement.test, *rest]
    return [cst.ensure_type(one, cst.Assert).test for one in m.findall(statement, m.Assert())]


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
    imports = [i for i, one in enumerate(before) if m.findall(one, _IMPORT)]
    end = max(definitions[0] if definitions else len(before), imports[-1] + 1 if imports else 0)
    return before[end - 1] if end else None


_DEFINITIONS = cst.FunctionDef | cst.ClassDef
_IMPORT = m.Import() | m.ImportFrom()
