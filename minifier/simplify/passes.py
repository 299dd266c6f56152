"""Simplifier of a finished script: the order of its passes."""

from __future__ import annotations

from contextlib import suppress

import libcst as cst

from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.source import definitions
from fullgraph.minifier.reduce.source.statements import unread_assignments
from fullgraph.minifier.simplify import (
    attributes,
    autograd_functions,
    construction,
    expressions,
    gradients,
    inputs,
    names,
    numbers,
    objects,
    results,
    settings,
    statements,
    variables,
)
from fullgraph.minifier.simplify.script_search import ScriptSearch

_ROUNDS = 10
"""Maximum number of times that all passes run; each time may enable further edits."""


def simplify_script(problem: Problem[str]) -> None:
    """Simplify the current script by all passes, until none changes it.

    Each pass first tries all its edits at once, because nearly every one keeps the failure.
    """
    with suppress(cst.ParserSyntaxError):
        search = ScriptSearch(problem)
        for _ in range(_ROUNDS):
            before = problem.current
            _run_passes(search)
            if problem.current == before and not search.apply(results.compare_containers):
                return


def _run_passes(search: ScriptSearch) -> None:
    """Run each pass once."""
    search.drop_unused()
    search.apply(settings.drop_settings, settings.drop_options)
    search.apply(
        construction.call_constructors,
        construction.call_custom_operators,
        autograd_functions.static_methods,
        construction.inline_empty_functions,
        variables.unpack_tuples,
        variables.spread_arguments,
        numbers.fold_constants,
        numbers.fill_empty_tensors,
        numbers.fix_random_tensors,
        numbers.plain_factors,
        numbers.fill_empty_lists,
        statements.drop_counters,
        statements.compare_lengths,
        statements.drop_docstrings,
        statements.fill_empty_strings,
    )
    search.apply(numbers.compare_all_strides)
    search.apply(gradients.compare_input_gradient)
    search.apply(gradients.pass_parameter)
    search.apply(
        unread_assignments,
        variables.inline_once_read,
        variables.inline_names,
    )
    search.apply(statements.name_graph_breaks)
    search.apply(attributes.inline_attributes, expressions.unroll_comprehensions)
    search.apply(attributes.drop_empty_constructors, construction.inline_inner_calls)
    search.apply(objects.dissolve_objects, objects.methods_to_functions)
    search.apply(objects.state_to_parameters)
    search.apply(definitions.classes_to_functions, construction.inline_passed_functions)
    search.apply(variables.drop_parameters, numbers.whole_numbers)
    search.apply(definitions.unread_parameters)
    search.apply(autograd_functions.return_inputs)
    search.apply(autograd_functions.drop_function_arguments)
    search.apply(numbers.round_literals)
    search.apply(expressions.known_sizes, expressions.whole_tensors)
    search.apply(statements.drop_empty_returns, inputs.make_once)
    search.apply(results.drop_results, results.drop_repeated_keys, results.fold_appends)
    search.apply(results.unwrap_compared)
    search.apply(results.rename_repeated_keys)
    search.apply(names.rename_inputs)
    search.apply(names.rename_input, names.strip_underscores)
    search.apply(names.name_parameters, statements.return_last)
