"""Prints and logging in a branch, kept for eager code when the branch is rewritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site, names_bound, names_read, side_effect_of
from fullgraph.rewrites.rule import Refusal
from fullgraph.rewrites.source import Replacement, build_expression, build_statement
from fullgraph.rewrites.transforms.branches.assignments import statements_of
from fullgraph.rewrites.transforms.branches.predicate import predicate_of
from fullgraph.rewrites.transforms.eager_only import eager_condition, run_in_eager_only
from fullgraph.rewrites.transforms.outline import (
    call_of,
    find_outlining_refusal,
    is_output_statement,
)

_PRINT = "torch._higher_order_ops.print"


def writes_only(site: Site, statement: cst.CSTNode) -> bool:
    """Return whether a statement only prints, logs or warns.

    Torch's print operator counts, and statements under `if not torch.compiler.is_compiling():`.
    """
    if statement not in site.document.parents:
        return False
    if isinstance(statement, cst.If) and _is_eager_only(site, statement):
        return True
    call = call_of(statement)
    printed = call is not None and site.callee_name(call) == _PRINT
    return printed or is_output_statement(site, statement)


def keep_output(
    site: Site,
    node: cst.CSTNode,
    output: Sequence[cst.BaseStatement],
    edits: Mapping[cst.CSTNode, Replacement],
) -> dict[cst.CSTNode, Replacement]:
    """Return `edits` with the branch's prints and logging inserted before `node`.

    `output` are those statements; a guard makes them run in eager only. Raises NotApplicable if
    they cannot be moved before `node`.
    """
    document = site.document
    parent = document.parent(node)
    if is_output_statement(site, node) and find_outlining_refusal(site, node) is None:
        raise NotApplicable("it only writes output")
    if (
        not isinstance(node, cst.If)
        or node not in edits
        or not isinstance(parent, cst.IndentedBlock)
    ):
        raise NotApplicable("the branch writes output, which cannot stand before it")
    if reason := side_effect_of(site, node.test):
        raise NotApplicable(f"the test would be worked out twice, and {reason}")
    other = node.orelse.body if isinstance(node.orelse, cst.Else) else None
    guards, kept = [], 0
    for block, form in ((node.body, "{test}"), (other, "not {test}")):
        inside = [one for one in output if document.parent(one) is block]
        if not inside or block is None:
            continue
        kept += len(inside)
        lines = [line for one in inside for line in _eager_lines(site, one)]
        before = block.body[: block.body.index(inside[-1])]
        if {*names_bound(*before)} & names_read(*lines):
            raise NotApplicable("the output shows what the branch assigns")
        test = build_expression(
            f"{eager_condition(document)} and {form}", test=node.test.deep_clone()
        )
        guards.append(cst.If(test, cst.IndentedBlock(lines)))
    if kept < len(output):
        raise NotApplicable("what it skips writes output")
    return {**edits, node: _put_before(guards, edits[node])}


def leave_output_to_eager(site: Site, block: cst.BaseSuite) -> dict[cst.CSTNode, Replacement]:
    """Return the edits by which only eager code runs the prints and logging of a block."""
    edits: dict[cst.CSTNode, Replacement] = {}
    for one in block.body:
        is_guarded = isinstance(one, cst.If) and _is_eager_only(site, one)
        if isinstance(one, cst.BaseStatement) and writes_only(site, one) and not is_guarded:
            first, *others = _eager_lines(site, one)
            edits[one] = run_in_eager_only(site.document, first, *others)
    return edits


def find_branch_refusal(site: Site, statement: cst.CSTNode) -> Refusal | None:
    """Return a refusal if a tensor decides whether an output statement and more beside it run."""
    refusal = Refusal("a tensor decides whether it runs, so the branch breaks the graph before it")
    for around in site.document.ancestors(statement):
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            return None
        if not isinstance(around, cst.If) or all(
            writes_only(site, one) for one in around.body.body
        ):
            continue
        try:
            if predicate_of(site, around.test) is not None:
                return refusal
        except NotApplicable:
            return refusal
    return None


def _put_before(guards: Sequence[cst.If], edit: Replacement) -> Replacement:
    """Return `edit`, the replacement of a statement, with `guards` before it."""
    rest = [*edit.nodes] if isinstance(edit, cst.FlattenSentinel) else [edit]
    return cst.FlattenSentinel([*guards, *(one for one in rest if isinstance(one, cst.CSTNode))])


def _is_eager_only(site: Site, node: cst.If) -> bool:
    """Return whether an `if` is `if not torch.compiler.is_compiling():` without `else`."""
    return node.orelse is None and site.document.code(node.test) == eager_condition(site.document)


def _eager_lines(site: Site, statement: cst.BaseStatement) -> Sequence[cst.BaseStatement]:
    """Return the lines that replace an output statement in code that only eager runs.

    Torch's print operator becomes `print`. Of `if not torch.compiler.is_compiling():`, only the
    body remains. Other statements are unchanged.
    """
    if isinstance(statement, cst.If) and _is_eager_only(site, statement):
        return statements_of(statement.body)
    call = call_of(statement)
    if call is None or site.callee_name(call) != _PRINT:
        return [statement.with_changes(leading_lines=())]
    text, *values = call.args
    template = "print({text}.format({values}))" if values else "print({text})"
    code = ", ".join(site.document.code(one).rstrip(", ") for one in values)
    return [build_statement(template, text=text.value, values=code)]
