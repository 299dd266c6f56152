"""A Python text that fails, made as small as it can be while it fails in the same way."""

from __future__ import annotations

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


def reduce_source(problem: Problem[str]) -> None:
    """Make the current text small: `build()` and what it needs, or `model`, `inputs` and theirs.

    Large pieces go first, guided by what a run of the text shows. At the end no statement can be
    taken away by itself. Raises OutOfBudget, libcst.ParserSyntaxError.
    """
    search = ProposalSearch(problem)
    _tidied(search)
    focus.focus_on_callee(search)
    search.apply_most(statements.unexecuted(search.facts))
    _halved(search)
    while True:
        before = problem.current
        _one_by_one(search)
        if problem.current == before:
            return


def _tidied(search: ProposalSearch) -> None:
    """Take away what no program needs: comments, types, what is not reached."""
    text = normalize(search.problem.current)
    if not search.try_texts(text):
        search.drops_unreachable = False
        search.try_texts(text)
    search.apply_most(definitions.declarations)


def _halved(search: ProposalSearch) -> None:
    """What takes much away at once, guided by values; then statements, the outer ones first."""
    search.apply_most(expressions.constant_values(search.facts))
    search.apply_most(statements.constant_branches)
    for level in range(3):
        search.apply_most(expressions.tensor_bypasses(search.facts, level))
        search.apply_most(expressions.replace_with_ones(search.facts, level))
    _unused(search)
    search.apply_most(expressions.literal_elements)
    _deleted(search)
    if search.apply_most(statements.unwrap_compounds):
        _deleted(search)
    _unused(search)
    constants.reduce_constants(search)


def _unused(search: ProposalSearch) -> None:
    """Take away what nothing reads any more."""
    search.apply_most(statements.unread_assignments)
    search.apply_most(inlining.variables)
    search.apply_most(definitions.unread_parameters)
    search.apply_most(definitions.decorators)
    search.apply_most(definitions.merge_bases)
    search.apply_most(definitions.classes_to_functions)
    search.apply_most(inlining.attributes)


def _deleted(search: ProposalSearch) -> None:
    for level in range(statements.deepest(search.tree) + 1):
        search.apply_most(statements.at_depth(level))


def _one_by_one(search: ProposalSearch) -> None:
    """What is left, piece by piece, until nothing more goes."""
    search.apply_each(statements.removals)
    search.apply_each(statements.unwrap_compounds)
    search.apply_each(statements.bare_values)
    search.apply_each(inlining.functions)
    search.apply_each(inlining.variables)
    search.apply_each(inlining.attributes)
    search.apply_each(definitions.unread_parameters)
    search.apply_each(definitions.classes_to_functions)
    search.apply_most(expressions.subexpressions, chunk=4)
    search.apply_most(expressions.elements, chunk=4)
    search.apply_each(definitions.decorators)
    constants.reduce_constants(search)
    search.apply_each(constants.single_integers)
