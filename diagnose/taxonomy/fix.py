"""Fixes: advice together with the expressions that it applies to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fullgraph.diagnose.explanation_data import Advice
from fullgraph.diagnose.taxonomy.usage import Usage

BOTH = ("default", "fullgraph")
OUTSIDE = "Do it outside the compiled function and pass the result in."
ONCE = "Do it once, at the top of the file or in `__init__`."
NOT_AGAIN = "It is not asked again."


@dataclass(frozen=True)
class Fix:
    """Advice, and patterns for the code that it applies to.

    `when` and `unless` are patterns searched in the expression and in its statement; `unless` also
    in what is assigned to the variables of the expression.
    """

    advice: Advice
    when: str = ""
    unless: str = ""

    def fits(self, usage: Usage) -> bool:
        """Return whether the advice applies to an expression."""
        known = [text for text in (usage.expression, usage.statement) if text.strip()]
        around = (*known, *usage.origins.values())
        if self.unless and any(re.search(self.unless, text) for text in around):
            return False
        return not self.when or any(re.search(self.when, text) for text in known or [""])


def code(
    text: str,
    before: str = "",
    after: str = "",
    *,
    trap: str = "",
    when: str = "",
    unless: str = "",
) -> Fix:
    """Return advice to change the source as a `Fix`.

    `text` is the advice, `trap` what can go wrong with it. It is given for code that matches the
    pattern `when` and not `unless`. `before` and `after` are an example: tests check that `after`
    has one break less and the same values. Without an example, the advice has no `modes`.
    """
    modes = BOTH if after else ()
    return Fix(Advice(text, "code", before, after, trap, modes), when, unless)


def config(setting: str, trap: str, *, before: str = "", modes: tuple[str, ...] = BOTH) -> Fix:
    """Return advice to change a setting of the compiler as a `Fix`.

    `trap` is what can go wrong with it. `before` is a program; the setting removes its breaks in
    `modes`.
    """
    advice = Advice(f"Set `{setting}`.", "config", before, "", trap, modes if before else ())
    return Fix(advice)
