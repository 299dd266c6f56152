"""The diagnosis of one graph break."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph.compiler.events import Break, Position
from fullgraph.diagnose.causes.places import expression_at, place_of, statement_of
from fullgraph.diagnose.explanation_data import Advice
from fullgraph.diagnose.taxonomy import (
    Category,
    advise,
    classify,
    describe_break,
    find_known_function,
)


@dataclass(frozen=True)
class Diagnosis:
    """What one graph break means for the user."""

    category: Category
    expression: str
    """The source text that broke; "" if it cannot be read."""
    value: str | None
    """What the expression was in eager, such as "bool[] True"; None if it was not seen."""
    sentence: str
    """What broke, as one plain sentence."""
    advice: tuple[Advice, ...]
    """What to try, best first."""


def diagnose(
    brk: Break,
    place: Position | None = None,
    value: str | None = None,
    expression: str | None = None,
) -> Diagnosis:
    """Return the diagnosis of a break at `place`, by default the place of the break itself.

    `expression` is the source text there, read from the file by default.
    """
    if expression is None:
        expression = expression_at(place or place_of(brk))
    statement = statement_of(brk)
    function = find_known_function(brk, expression)
    category = classify(brk, expression, statement, function)
    sentence = describe_break(brk, expression, category, function, value)
    return Diagnosis(category, expression, value, sentence, advise(category, expression, statement))
