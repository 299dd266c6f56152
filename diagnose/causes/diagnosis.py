"""The diagnosis of one graph break."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph.compiler.errors import contain
from fullgraph.compiler.events import Break, Position
from fullgraph.compiler.observe import ObservedExpression
from fullgraph.compiler.sources import is_user_code, read_source, short_path
from fullgraph.diagnose.causes.places import (
    calling_positions,
    expression_at,
    place_of,
    statement_of,
)
from fullgraph.diagnose.explanation_data import Advice
from fullgraph.diagnose.taxonomy import (
    Category,
    Usage,
    advise,
    category_of_gb_type,
    classify,
    describe_break,
    find_known_function,
    quote,
)


@dataclass(frozen=True)
class Diagnosis:
    """Category, value, sentence and advice of one graph break."""

    category: Category
    expression: str
    """The source text that broke; "" if it cannot be read."""
    value: str | None
    """The expression's value in eager, such as "bool[] True"; None if it is not known."""
    sentence: str
    """What broke, as one plain sentence."""
    advice: tuple[Advice, ...]
    """What to try, best first."""


def diagnose(
    brk: Break,
    place: Position | None = None,
    seen: ObservedExpression | None = None,
    expression: str | None = None,
    function: Position | None = None,
) -> Diagnosis:
    """Return the category, sentence and advice of a break.

    `place` is the position of the expression that broke, by default the innermost position in
    user code. `expression` is its source text, by default read from the file; `seen` are its
    values in eager (None if unknown). `function` is where the compiled function is defined.
    """
    value = seen.first if seen else None

    def plainly(error: str) -> Diagnosis:
        text = expression or contain(lambda: expression_at(place or place_of(brk)), lambda _: "")
        return Diagnosis(
            category_of_gb_type(brk.gb_type), text, value, f"{brk.gb_type}: {error}.", ()
        )

    def fully() -> Diagnosis:
        usage = _usage(brk, place or place_of(brk), seen, expression, function)
        known = find_known_function(brk, usage.expression)
        category = classify(brk, usage, known)
        sentence = describe_break(brk, usage, category, known)
        return Diagnosis(category, usage.expression, value, sentence, advise(category, usage))

    return contain(fully, plainly)


def _usage(
    brk: Break,
    place: Position,
    seen: ObservedExpression | None,
    expression: str | None,
    function: Position | None,
) -> Usage:
    """Return the facts about the code at `place` that decide a break's category and advice.

    The parameters are those of `diagnose`.
    """
    text = expression_at(place) if expression is None else expression
    context = "\n".join((brk.gb_type, brk.context, brk.explanation))
    above = tuple(expression_at(caller) for caller in calling_positions(brk)[1:])
    value = seen.first if seen else None
    parts = {one.expression: one.first for one in (seen.parts if seen else ()) if one.first}
    usage = Usage(text, statement_of(brk), value, context, above, _code_below(brk), parts=parts)
    file = read_source(place.file)
    node = None if file is None or expression is not None else file.node(place)
    is_entry = not above and (function is None or brk.frame == function)
    return usage if file is None or node is None else usage.within(file, node, is_entry)


def _code_below(brk: Break) -> str:
    """Return what broke in code of torch or Python that the user's calls: "`a` in torch/b.py:7".

    Return "" for Dynamo's own code, in which it traces functions of Python.
    """
    last = brk.stack[-1]
    file = short_path(last.file)
    if is_user_code(last.file) or file.startswith("torch/_dynamo/"):
        return ""
    text = expression_at(last)
    return f"{quote(text)} in {file}:{last.line}" if text else ""
