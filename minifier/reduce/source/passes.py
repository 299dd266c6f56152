"""Reducer of a failing source text: the order of its passes."""

from __future__ import annotations

from collections.abc import Callable

from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.source import (
    constants,
    definitions,
    expressions,
    focus,
    inlining,
    statements,
)
from fullgraph.minifier.reduce.source.formatting import normalize
from fullgraph.minifier.reduce.source.proposals import ProposalSearch


def reduce_source(
    problem: Problem[str], on_error: Callable[[str, Exception], None] | None = None
) -> None:
    """Remove and simplify code of the current text while it fails, large pieces first.

    At the end, no single statement can be removed. If a pass raises, it is skipped, and `on_error`
    receives its name and the exception; without `on_error`, the exception is raised. Raises
    OutOfBudget, libcst.ParserSyntaxError.
    """
    search = ProposalSearch(problem, on_error)
    _remove_unneeded(search)
    focus.focus_on_callee(search)
    search.apply_most(statements.remove_unexecuted(search.facts))
    _remove_most(search)
    while True:
        before = problem.current
        _one_by_one(search)
        if problem.current == before:
            return


def _remove_unneeded(search: ProposalSearch) -> None:
    """Remove comments, annotations, docstrings and unreachable code."""
    text = normalize(search.problem.current)
    if not search.try_texts(text):
        search.drops_unreachable = False
        search.try_texts(text)
    search.apply_most(definitions.remove_declarations)


def _remove_most(search: ProposalSearch) -> None:
    """Run the passes that remove much at once, then remove statements, outer ones first."""
    search.apply_most(expressions.constant_values(search.facts))
    search.apply_most(statements.constant_branches)
    for level in range(3):
        search.apply_most(expressions.tensor_bypasses(search.facts, level))
        search.apply_most(expressions.replace_with_ones(search.facts, level))
    _remove_unread(search)
    search.apply_most(expressions.literal_elements)
    _delete_statements(search)
    if search.apply_most(statements.unwrap_compounds):
        _delete_statements(search)
    _remove_unread(search)
    constants.reduce_constants(search)


def _remove_unread(search: ProposalSearch) -> None:
    """Remove assignments, parameters, decorators, bases and classes that nothing needs."""
    search.apply_most(statements.unread_assignments)
    search.apply_most(inlining.inline_variables)
    search.apply_most(definitions.unread_parameters)
    search.apply_most(definitions.remove_decorators)
    search.apply_most(definitions.merge_bases)
    search.apply_most(definitions.classes_to_functions)
    search.apply_most(inlining.inline_attributes)


def _delete_statements(search: ProposalSearch) -> None:
    """Remove statements that the failure does not need, the least indented ones first."""
    for level in range(statements.find_depth(search.tree) + 1):
        search.apply_most(statements.at_depth(level))


def _one_by_one(search: ProposalSearch) -> None:
    """Run the passes whose edits are small, most of them one edit at a time."""
    search.apply_each(statements.remove_statements)
    search.apply_each(statements.unwrap_compounds)
    search.apply_each(statements.bare_values)
    search.apply_each(inlining.inline_functions)
    search.apply_each(inlining.inline_variables)
    search.apply_each(inlining.inline_attributes)
    search.apply_each(definitions.unread_parameters)
    search.apply_each(definitions.classes_to_functions)
    search.apply_most(expressions.propose_subexpressions, chunk=4)
    search.apply_most(expressions.remove_elements, chunk=4)
    search.apply_each(definitions.remove_decorators)
    constants.reduce_constants(search)
    search.apply_each(constants.single_integers)
