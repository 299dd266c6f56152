"""What an expert would do about a construct, as one sentence with the user's own expression.

Of the remedies of a category, the first that fits leads the advice. A remedy fits only code that
has all the parts (`user_code.PARTS`) that its sentence names; `{it}` is the expression in
backquotes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from string import Formatter

from fullgraph.diagnose.taxonomy.sentences import quote
from fullgraph.diagnose.taxonomy.usage import Usage, parse
from fullgraph.diagnose.taxonomy.user_code import PARTS


@dataclass(frozen=True)
class Remedy:
    """A sentence of advice, and the code that it applies to."""

    text: str
    when: str = ""
    """A pattern that is searched in the expression."""
    if_: Callable[[Usage], object] = lambda usage: True
    """A condition on the code around the expression."""
    fix: str = ""
    """How the text of the fix begins whose example shows the same change; "" if there is none."""
    trap: str = ""

    def sentence(self, usage: Usage) -> str:
        """Return the sentence filled in for `usage`; "" if the remedy does not apply."""
        if not (re.search(self.when, usage.expression) and self.if_(usage)):
            return ""
        names = {name for _, name, _, _ in Formatter().parse(self.text) if name and name != "it"}
        parts = {name: PARTS[name](usage) for name in names}
        return self.text.format(it=quote(usage.expression), **parts) if all(parts.values()) else ""


OUTSIDE = Remedy("Do {it} {outside}.")
HELD = Remedy(
    "Draw the number with torch, or outside the compiled function and pass it in: {it} uses one "
    "that Dynamo holds as a tensor.",
    if_=lambda usage: usage.is_held,
)


def find_remedy(remedies: Iterable[Remedy], usage: Usage) -> tuple[Remedy, str] | None:
    """Return the first remedy that applies to the code, and its sentence about this code.

    Return None if none applies.
    """
    found = ((remedy, remedy.sentence(usage)) for remedy in remedies)
    return next(((remedy, text) for remedy, text in found if text), None)


def exits(*names: str) -> Callable[[Usage], object]:
    """Return a predicate on the usage of a value.

    It is true if the value decides a branch that ends with one of the statements `names`: "break",
    "return".
    """
    return lambda usage: usage.exit in names


def is_used(*uses: str) -> Callable[[Usage], object]:
    """Return a predicate: whether one of `uses` is made of the value."""
    return lambda usage: usage.uses & {*uses}


def is_iterated(usage: Usage) -> object:
    return usage.is_iterated or usage.expression.startswith("for ")


def is_slice(usage: Usage) -> bool:
    """Return whether the expression is a slice, as `1:n` in `x[1:n]`."""
    match parse(f"_[{usage.expression}]"):
        case ast.Subscript(slice=ast.Slice()):
            return True
    return False


def calls_above(pattern: str) -> Callable[[Usage], object]:
    """Return a predicate: whether an expression on the stack above the break matches `pattern`."""
    return lambda usage: any(re.search(pattern, caller) for caller in usage.callers)


def ends_endless_loop(usage: Usage) -> object:
    return usage.loop == "while True" and usage.exit in ("break", "return")


def is_numpy(usage: Usage) -> object:
    return usage.is_numpy
