"""What to try against a graph break."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from fullgraph.compiler.categories import Category as C
from fullgraph.diagnose.explanation_data import Advice
from fullgraph.diagnose.taxonomy import (
    fixes_data,
    fixes_python,
    fixes_world,
    remedies_data,
    remedies_python,
    remedies_world,
)
from fullgraph.diagnose.taxonomy.fix import Fix
from fullgraph.diagnose.taxonomy.remedy import Remedy, find_remedy
from fullgraph.diagnose.taxonomy.sentences import quote
from fullgraph.diagnose.taxonomy.switches import SWITCHES
from fullgraph.diagnose.taxonomy.usage import TRACED, Usage, parse
from fullgraph.diagnose.taxonomy.user_code import PARTS, call_method, clone

FIXES: dict[C, tuple[Fix, ...]] = fixes_data.FIXES | fixes_world.FIXES | fixes_python.FIXES
REMEDIES: dict[C, tuple[Remedy, ...]] = (
    remedies_data.REMEDIES | remedies_world.REMEDIES | remedies_python.REMEDIES
)


def advise(category: C, usage: Usage) -> tuple[Advice, ...]:
    """Return what to try against a break of a category, best first.

    First comes the remedy for the construct, with the user's expression. Then come the tested
    examples for similar code, other source changes, and settings of the compiler.
    """
    outside = PARTS["outside"](usage)
    fitting = [
        fix
        for fix in FIXES.get(category, ())
        if fix.fits(usage) and (outside or not fix.advice.text.endswith("and pass the result in."))
    ]
    fitting.sort(key=lambda fix: (not fix.when, not fix.advice.modes))
    examples = [with_user_expression(fix.advice, category, usage.expression) for fix in fitting]
    switches = [switch.advice for switch in SWITCHES.get(category, ())]
    found = list(_with_remedy(category, usage, examples))
    return (*found, *switches) or (Advice(_move(usage), "code"),)


def _move(usage: Usage) -> str:
    """Return where to put code of which nothing else is known."""
    code = quote(usage.expression)
    if usage.is_manager:
        return f"Enter {code} around the compiled call, if all of it may run inside."
    if usage.is_target:
        return f"Move the assignment to {code} out of the compiled function."
    seen = (usage.value or "", *usage.parts.values())
    if usage.is_computed and (not any(seen) or any(map(TRACED.match, seen))):
        return (
            f"Compile what comes before {code} and what comes after it as two functions: it needs "
            "what is computed inside."
        )
    return f"Move {code} out of the compiled function."


def _with_remedy(category: C, usage: Usage, examples: list[Advice]) -> Iterator[Advice]:
    """Yield the remedy that fits the user's code best, then those of `examples` that fit, too.

    If no remedy fits, yield all `examples`. If the remedy has an example of its own, the `examples`
    that were tested follow it. If it has none, nothing follows: `examples` are for other code.
    """
    found = find_remedy(REMEDIES.get(category, ()), usage)
    if found is None:
        yield from examples
        return
    remedy, text = found
    known = (*examples, *(fix.advice for fix in FIXES.get(category, ())))
    named = [one for one in known if remedy.fix and one.text.startswith(remedy.fix)]
    lead = replace(named[0], text=text) if named else Advice(text, "code", trap=remedy.trap)
    yield lead
    if named:
        yield from (one for one in examples if one.modes and one != named[0])


_WITHOUT_DATA = {
    r"\[": "If it is a mask of uint8, index with `mask.bool()`.",
    r"\b\w+Tensor\(": "Make the tensor with `torch.empty(shape)` or `torch.zeros(shape)`.",
}


def advise_on_fake(code: str) -> str:
    """Return advice on an operator that fails on fake tensors but not in eager.

    `code` is the expression that failed.
    """
    found = (text for pattern, text in _WITHOUT_DATA.items() if re.search(pattern, code))
    return next(found, "Write it with an operator that Dynamo can trace.")


def with_user_expression(advice: Advice, category: C, expression: str) -> Advice:
    """Return `advice` with a new example: the user's expression and its rewrite.

    Return `advice` unchanged if no rewrite of this expression is known.
    """
    rewrite = _REWRITES.get((category, advice.text))
    node = parse(expression) if rewrite is not None else None
    after = rewrite(node) if rewrite is not None and node is not None else ""
    return replace(advice, before=expression.strip(), after=after) if after else advice


def _guard_call(node: ast.AST) -> str:
    """Return code that makes the call `node` only in eager; "" if `node` is no call.

    The code begins with `if not torch.compiler.is_compiling():`.
    """
    if not isinstance(node, ast.Call):
        return ""
    return f"if not torch.compiler.is_compiling():\n    {ast.unparse(node)}"


def _unwrap(node: ast.AST) -> str:
    return ast.unparse(node.args[0]) if isinstance(node, ast.Call) and node.args else ""


def _multiply_shape(node: ast.AST) -> str:
    """Return `math.prod(shape)` for a product over a shape; "" for other code."""
    match node:
        case ast.Call(func=ast.Name(id="int"), args=[inner], keywords=[]):
            return _multiply_shape(inner)
        case ast.Call(func=ast.Attribute(attr="prod"), args=[shape], keywords=[]):
            return f"math.prod({ast.unparse(shape)})"
    return ""


_GUARD = "Guard it with `torch.compiler.is_compiling()`."
_REWRITES: dict[tuple[C, str], Callable[[ast.AST], str]] = {
    (C.PRINT, _GUARD): _guard_call,
    (C.WARNING, _GUARD): _guard_call,
    (C.VARIABLE, "Drop the wrapper."): _unwrap,
    (C.COPY, "Clone the tensor."): clone,
    (C.SCALAR, "Use the tensor's own method instead of `math`."): call_method,
    (C.NUMPY_SCALAR, "Use `math.prod` on shapes."): _multiply_shape,
}
