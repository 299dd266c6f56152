"""A check becomes an assertion that the graph holds; compiled, it raises RuntimeError.

Whether an `assert` fails or an `if …: raise` raises depends on a tensor's values, so the graph
breaks there. torch.compile turns `assert <tensor>` into `torch._assert_async`, but not
`assert not …`, a message that is made at run time, or an `if`.

Before:

    assert not torch.isnan(h).any(), "NaN"
    if torch.isnan(h).any():
        raise ValueError(f"NaN in {h}")

After:

    assert ~torch.isnan(h).any(), "NaN"
    if torch.compiler.is_compiling():
        assert ~torch.isnan(h).any(), "NaN in `h`"
    elif torch.isnan(h).any():
        raise ValueError(f"NaN in {h}")

Always unsafe: eager code raises as before, the compiled program raises RuntimeError with what is
constant in the message; on a GPU it does so later, and the device cannot be used any more. FG101
keeps the exception.

Refuses: checks inside a `try` that handles the exception, tests of which a part is not known to be
a tensor without dimensions, and an `if` that does more than raise.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.rules.asserts.outline_check import CHECKED
from fullgraph.rewrites.source import build_expression, build_statement, string_literal
from fullgraph.rewrites.transforms.outline import (
    find_outlined_statement,
    is_check_statement,
    is_exception_caught,
    strip_item,
)

_OPPOSITE: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThanEqual,
    cst.LessThanEqual: cst.GreaterThan,
    cst.GreaterThan: cst.LessThanEqual,
    cst.GreaterThanEqual: cst.LessThan,
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
}
_LONGEST_FIELD = 40
"""Most characters of the source of an f-string's field that a message keeps."""
_UNKNOWN = Refusal("its test is not known to be a tensor without dimensions")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    """Return the edit that lets Dynamo trace a check on a tensor, such as `assert x.all()`.

    The check is the site's statement: an `assert`, or an `if` that only raises. The result is a
    refusal if the check cannot be traced, and None if it needs no edit or there is no check.
    """
    statement = find_outlined_statement(site, is_check_statement)
    if statement is None:
        return None
    if is_exception_caught(site.document, statement):
        return Refusal("what it raises is handled by a `try` that would be compiled with it")
    if isinstance(statement, cst.If):
        return _rewrite_guard(site, statement)
    line = cst.ensure_type(statement, cst.SimpleStatementLine)
    return _rewrite_assertion(site, line, cst.ensure_type(line.body[0], cst.Assert))


def _rewrite_assertion(
    site: Site, line: cst.SimpleStatementLine, check: cst.Assert
) -> Rewrite | Refusal | None:
    """Return the rewrite of an `assert` statement, or a refusal.

    None if the statement can stay as it is, because torch.compile keeps it in the graph.
    """
    holds, message = _tensor_condition(site, check.test), _constant_text(check.msg)
    if holds is None:
        return _UNKNOWN
    if check.msg is None or (message and message == _string_value(check.msg)):
        if holds is check.test:
            return None
        return _assume_unused_exception({check.test: holds}, "AssertionError", check.test, message)
    inside = cst.IndentedBlock([line.with_changes(leading_lines=())])
    new = cst.If(
        _is_compiling_call(site),
        cst.IndentedBlock([_assertion_line(holds, message)]),
        cst.Else(inside),
        leading_lines=line.leading_lines,
    )
    return _assume_unused_exception({line: new}, "AssertionError", check.test, message)


def _rewrite_guard(site: Site, statement: cst.If) -> Rewrite | Refusal | None:
    """Return the edit of an `if` that only raises, such as `if x.any(): raise ValueError`.

    The edit adds a check in the graph. The result is a refusal if the `if` does more, or its
    condition is not known to be a tensor. It is never None.
    """
    pattern = m.SimpleStatementLine([m.Raise(exc=~m.MatchIfTrue(lambda exc: exc is None))])
    body = statement.body.body
    if statement.orelse is not None or len(body) != 1 or not m.matches(body[0], pattern):
        return Refusal("it does more than raise")
    raised = cst.ensure_type(cst.ensure_type(body[0], cst.SimpleStatementLine).body[0], cst.Raise)
    holds = _tensor_condition(site, statement.test, negated=True)
    if holds is None:
        return _UNKNOWN
    exception = raised.exc
    assert exception is not None
    arguments = exception.args if isinstance(exception, cst.Call) else ()
    kind = site.document.code(exception.func if isinstance(exception, cst.Call) else exception)
    message = _constant_text(arguments[0].value if arguments else None) or kind
    new = cst.If(
        _is_compiling_call(site),
        cst.IndentedBlock([_assertion_line(holds, message)]),
        statement.with_changes(leading_lines=()),
        leading_lines=statement.leading_lines,
    )
    return _assume_unused_exception({statement: new}, kind, statement.test, message)


def _assume_unused_exception(
    replacements: dict[cst.CSTNode, cst.CSTNode],
    kind: str,
    test: cst.BaseExpression,
    message: str,
) -> Rewrite:
    """Return a rewrite of a check, with the assumption that no caller needs its exception.

    `replacements` are the edits. `kind` is the exception that compiled code no longer raises, such
    as "ValueError". `test` is the check's condition, `message` what the assertion says.
    """
    needs = f"no caller needs the {kind}: compiled, a check that fails raises RuntimeError"
    if kind == "RuntimeError":
        needs = "no caller needs the text of the RuntimeError, which is another one when compiled"
    return Rewrite(
        replacements,
        "The graph holds the check; eager code raises as before.",
        Applicability.UNSAFE,
        (needs,),
        imports=("torch",),
        tests=(test,),
        exempts=frozenset({f"raises RuntimeError: {message or 'assertion error'}"}),
    )


def _is_compiling_call(site: Site) -> cst.BaseExpression:
    """Return the expression `torch.compiler.is_compiling()`."""
    torch = site.document.imported_name("torch") or "torch"
    return build_expression(f"{torch}.compiler.is_compiling()")


def _assertion_line(holds: cst.BaseExpression, message: str) -> cst.SimpleStatementLine:
    """Return the statement `assert holds, "message"`, which torch.compile keeps in the graph.

    `holds` is an expression for a 0-d tensor: whether the assertion holds.
    """
    line = build_statement("assert {holds}, {text}", holds=holds, text=string_literal(message))
    return cst.ensure_type(line, cst.SimpleStatementLine)


def _constant_text(message: cst.BaseExpression | None) -> str:
    """Return the text of an assertion's message: "NaN in `h`" for `f"NaN in {h}"`.

    A field of an f-string becomes its source if that is short, and "..." otherwise. Any other
    expression becomes "...". The text is "" if `message` is None: there is no message.
    """
    if isinstance(message, cst.FormattedString):
        parts = [
            part.value if isinstance(part, cst.FormattedStringText) else _field_text(part)
            for part in message.parts
        ]
        return "".join(parts)
    return "" if message is None else _string_value(message) or "..."


def _field_text(field: cst.BaseFormattedStringContent) -> str:
    """Return "`x.min()`" for `{x.min().item():.2f}`; "..." if it is long, or is `self`."""
    value = cst.ensure_type(field, cst.FormattedStringExpression).expression
    code = " ".join(cst.Module([]).code_for_node(value).split()).removesuffix(".item()")
    return f"`{code}`" if len(code) <= _LONGEST_FIELD and code != "self" else "..."


def _string_value(message: cst.BaseExpression) -> str | None:
    """Return the value of a string literal; None for other expressions."""
    if isinstance(message, cst.SimpleString | cst.ConcatenatedString):
        value = message.evaluated_value
        return value if isinstance(value, str) else None
    return None


def _tensor_condition(
    site: Site, test: cst.BaseExpression, *, negated: bool = False
) -> cst.BaseExpression | None:
    """Return an expression for a 0-d bool tensor with the truth value of a condition.

    For `x.any() and y.any()` it is `x.any() & y.any()`. None if a part of the condition is not
    known to be a 0-d tensor. With `negated`, the tensor has the opposite truth value.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _tensor_condition(site, test.expression, negated=not negated)
    if isinstance(test, cst.BooleanOperation):
        left = _tensor_condition(site, test.left, negated=negated)
        right = _tensor_condition(site, test.right, negated=negated)
        if left is None or right is None:
            return None
        both = isinstance(test.operator, cst.And) is not negated
        return build_expression(
            "{left} & {right}" if both else "{left} | {right}", left=left, right=right
        )
    if (found := _tensor_of_condition(site, test)) is None:
        return None
    tensor, is_bool = found
    if not negated:
        return tensor if is_bool else build_expression("{t} != 0", t=tensor)
    if (opposite := _opposite_comparison(site, tensor)) is not None:
        return opposite
    return build_expression("~{t}" if is_bool else "{t} == 0", t=tensor)


def _opposite_comparison(site: Site, test: cst.BaseExpression) -> cst.Comparison | None:
    """Return `a < b` for `a >= b` between integers; None for others, which may be NaN."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    (target,) = test.comparisons
    opposite = _OPPOSITE.get(type(target.operator))
    for side in (test.left, target.comparator):
        if isinstance(side, cst.Integer):
            continue
        seen = site.observed(side)
        if seen is None or "float" in seen.types or any(t.is_float for t in seen.tensors):
            return None
    if opposite is None:
        return None
    return test.with_changes(comparisons=[target.with_changes(operator=opposite())])


def _tensor_of_condition(
    site: Site, test: cst.BaseExpression
) -> tuple[cst.BaseExpression, bool] | None:
    """Return a 0-d tensor with the truth value of a condition, and whether its dtype is bool.

    For `x.item() > 0` the result is the expression `x > 0` and True. None if no such tensor is
    known.
    """
    seen = site.observed(test)
    if seen is not None and seen.is_tensor:
        return (test, seen.dtypes == {"bool"}) if seen.dims == {0} else None
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        operator = test.comparisons[0]
        left, right = strip_item(site, test.left), strip_item(site, operator.comparator)
        if left is test.left and right is operator.comparator:
            return None
        compared = operator.with_changes(comparator=right)
        return test.with_changes(left=left, comparisons=[compared]), True
    if isinstance(test, cst.Call):
        return _tensor_of_call(site, test)
    return None


def _tensor_of_call(site: Site, call: cst.Call) -> tuple[cst.BaseExpression, bool] | None:
    """Return a 0-d tensor with the truth value of a call, and whether its dtype is bool.

    For `torch.equal(a, b)` it is `(a == b).all()`. None if no such tensor is known.
    """
    if (inner := strip_item(site, call)) is not call:
        return _tensor_of_condition(site, inner)
    torch = site.document.imported_name("torch") or "torch"
    match site.callee_name(call):
        case "bool" if len(call.args) == 1:
            return _tensor_of_condition(site, call.args[0].value)
        case "torch.allclose":
            close = call.with_changes(func=build_expression(f"{torch}.isclose"))
            return build_expression("{close}.all()", close=close), True
        case "torch.equal" if len(call.args) == 2:
            a, b = (argument.value for argument in call.args)
            shapes = [
                seen.shapes for seen in (site.observed(a), site.observed(b)) if seen is not None
            ]
            if len(shapes) == 2 and len(shapes[0]) == 1 and shapes[0] == shapes[1]:
                return build_expression("({a} == {b}).all()", a=a, b=b), True
    return None


RULE = Rule("FG102", "assert-in-graph", CHECKED, rewrite)
