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
from fullgraph.minifier.reduce.source.formatting import normal
from fullgraph.minifier.reduce.source.search import Search


def reduce(problem: Problem[str]) -> None:
    """Make the current text small: `build()` and what it needs, or `model`, `inputs` and theirs.

    Large pieces go first, guided by what a run of the text shows. At the end no statement can be
    taken away by itself. Raises OutOfBudget, libcst.ParserSyntaxError.
    """
    search = Search(problem)
    _tidied(search)
    focus.descend(search)
    search.split(statements.dead(search.facts))
    _halved(search)
    while True:
        before = problem.current
        _one_by_one(search)
        if problem.current == before:
            return


def _tidied(search: Search) -> None:
    """Take away what no program needs: comments, types, what is not reached."""
    text = normal(search.problem.current)
    if not search.attempt(text):
        search.shaking = False
        search.attempt(text)
    search.split(definitions.declarations)


def _halved(search: Search) -> None:
    """What takes much away at once, guided by values; then statements, the outer ones first."""
    search.split(expressions.known_values(search.facts))
    search.split(statements.decided)
    for level in range(3):
        search.split(expressions.bypasses(search.facts, level))
        search.split(expressions.cuts(search.facts, level))
    _unused(search)
    search.split(expressions.displayed)
    _deleted(search)
    if search.split(statements.unwrapped):
        _deleted(search)
    _unused(search)
    constants.reduce_constants(search)


def _unused(search: Search) -> None:
    """Take away what nothing reads any more."""
    search.split(statements.unread)
    search.split(inlining.variables)
    search.split(definitions.parameters)
    search.split(definitions.decorators)
    search.split(definitions.flattened)
    search.split(definitions.functions_of_methods)
    search.split(inlining.attributes)


def _deleted(search: Search) -> None:
    for level in range(statements.deepest(search.tree) + 1):
        search.split(statements.at_depth(level))


def _one_by_one(search: Search) -> None:
    """What is left, piece by piece, until nothing more goes."""
    search.singles(statements.removals)
    search.singles(statements.unwrapped)
    search.singles(statements.values)
    search.singles(inlining.functions)
    search.singles(inlining.variables)
    search.singles(inlining.attributes)
    search.singles(definitions.parameters)
    search.singles(definitions.functions_of_methods)
    search.split(expressions.parts, chunk=4)
    search.split(expressions.elements, chunk=4)
    search.singles(definitions.decorators)
    constants.reduce_constants(search)
    search.singles(constants.singly)
