"""A check becomes an assertion that the graph holds; compiled, it raises RuntimeError.

Whether an `assert` fails or an `if …: raise` raises depends on a tensor's values, so the graph
breaks there. torch.compile turns `assert <tensor>` into `torch._assert_async`, but not
`assert not …`, a message that is made at run time, or an `if`.

Before:

    assert not torch.isnan(h).any(), "NaN"
    missing = int(torch.isnan(h).sum())
    if missing:
        raise ValueError(f"{missing} NaN in {h}")

After:

    assert ~torch.isnan(h).any(), "NaN"
    missing = torch.isnan(h).sum()
    if torch.compiler.is_compiling():
        assert missing == 0, "... NaN in ..."
    elif missing:
        raise ValueError(f"{missing} NaN in {h}")

The check may be an `elif`. What its own `elif` or `else` does follows it. A check inside a branch
that a tensor decides goes above it: `if a: if b: y = 1 else: raise …` begins with the check that
`a and not b` is false.

Always unsafe: eager code raises as before, the compiled program raises RuntimeError with what is
constant in the message; on a GPU it does so later, and the device cannot be used any more. FG101
keeps the exception.

Refuses: checks inside a `try` that handles the exception, tests of which a part is not known to be
a tensor without dimensions, or a number that was made of one for the check alone, an `if` whose
branch does more than raise or raises what it handles, and an `else` on one line.
"""

from __future__ import annotations

import ast
import re
import string
from dataclasses import replace

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site, ends_program, only_value
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.rules.asserts.outline_check import CHECKED
from fullgraph.rewrites.source import (
    Document,
    Replacement,
    build_expression,
    build_statement,
    leading_lines,
    string_literal,
)
from fullgraph.rewrites.transforms.eager_only import choose_when_compiling, compiling_condition
from fullgraph.rewrites.transforms.outline import (
    EXCEPTION_CAUGHT,
    LiftedCheck,
    TensorCheck,
    find_tensor_check,
    is_exception_caught,
    lift_check,
    replace_in_chain,
    tensor_condition,
)

_OUTER_FIELD = re.compile(r"^\.\.\.: +|[:;,] +\.\.\.$")
"""A field at the start or end of a message that a colon sets apart: ": ..."."""
_CLAUSE = re.compile(r"((?:[^\s:;,(.]+ ){2,}[^\s:;,(.]+)(?:[:;,]| \()")
"""Three words or more, all constant, that a mark sets apart from what follows."""
_PERCENT = re.compile(r"%(\(\w+\))?[-+ #0]*[\d*]*(\.[\d*]+)?[a-zA-Z]")
"""A field of a text before the operator `%`."""
_ASSIGNMENT = m.SimpleStatementLine([m.Assign([m.AssignTarget(m.Name())])])
_UNKNOWN = Refusal("its test is not known to be a tensor without dimensions")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    """Return the edit that lets Dynamo trace a check on a tensor, such as `assert x.all()`.

    The check is the site's statement: an `assert`, or an `if` that only raises. The result is a
    refusal if the check cannot be traced, and None if it needs no edit or there is no check.
    """
    lifted = lift_check(site)
    check = find_tensor_check(site) if lifted is None else TensorCheck(site, lifted.guard)
    if check is None:
        return None
    statement = check.statement
    if is_exception_caught(site.document, statement if lifted is None else lifted.outer):
        return Refusal(EXCEPTION_CAUGHT)
    if lifted is not None:
        made = _rewrite_guard(check, lifted.guard, lifted)
        return replace(made, tests=lifted.tests) if isinstance(made, Rewrite) else made
    if isinstance(statement, cst.If):
        return _rewrite_guard(check, statement)
    line = cst.ensure_type(statement, cst.SimpleStatementLine)
    return _rewrite_assertion(check, line, cst.ensure_type(line.body[0], cst.Assert))


def _rewrite_assertion(
    check: TensorCheck, line: cst.SimpleStatementLine, assertion: cst.Assert
) -> Rewrite | Refusal | None:
    """Return the rewrite of an `assert` statement, or a refusal.

    None if the statement can stay as it is, because torch.compile keeps it in the graph.
    """
    holds = tensor_condition(check, assertion.test)
    message, edits = _constant_text(check.site.document, assertion.msg), check.edits
    if holds is None:
        return _UNKNOWN
    test, kind = assertion.test, "AssertionError"
    if assertion.msg is None or (message and message == _string_value(assertion.msg)):
        if holds is test and not edits:
            return None
        changed: dict[cst.CSTNode, cst.CSTNode] = {} if holds is test else {test: holds}
        return _assume_unused_exception({**edits, **changed}, kind, test, message)
    compiled = _assertion_line(holds, message)
    new = choose_when_compiling(check.site.document, compiled, line)
    return _assume_unused_exception({**edits, line: new}, kind, test, message)


def _rewrite_guard(
    check: TensorCheck, statement: cst.If, lifted: LiftedCheck | None = None
) -> Rewrite | Refusal | None:
    """Return the edit of an `if` that only raises, such as `if x.any(): raise ValueError`.

    The edit adds a check in the graph. The result is a refusal if the `if` does more, or its
    condition is not known to be a tensor. It is never None. The check may be `lifted`.
    """
    *before, last = statement.body.body
    match last:
        case cst.SimpleStatementLine([cst.Raise(exc=cst.BaseExpression() as exception)]):
            pass
        case cst.Raise(exc=cst.BaseExpression() as exception):
            pass
        case cst.SimpleStatementLine([cst.Expr(value=exception)]) if ends_program(
            check.site.document, exception
        ):
            pass
        case cst.SimpleStatementLine([cst.Raise()]) | cst.Raise():
            return Refusal("it raises what it handles")
        case _:
            return Refusal("it does more than raise")
    rest = _lines_after(statement)
    if rest is None:
        return Refusal("its `else` is on one line")
    if not all(m.matches(one, _ASSIGNMENT) for one in before):
        return Refusal("it does more than raise")
    holds = tensor_condition(check, statement.test, negated=True)
    if holds is None:
        return _UNKNOWN
    document = check.site.document
    exception = _value_of(document, exception)
    arguments = exception.args if isinstance(exception, cst.Call) else ()
    kind = document.code(exception.func if isinstance(exception, cst.Call) else exception)
    kind = "SystemExit" if ends_program(document, exception) else kind
    said = arguments[0].value if arguments else None
    message = _constant_text(document, said) or kind
    new = cst.If(
        build_expression(compiling_condition(document)),
        cst.IndentedBlock([_assertion_line(holds, message)]),
        statement.with_changes(leading_lines=(), orelse=None),
        leading_lines=statement.leading_lines,
    )
    edits: dict[cst.CSTNode, Replacement] = {**check.edits}
    if lifted is None:
        edits[statement] = replace_in_chain(document, statement, [new, *rest])
    else:
        edits[lifted.outer] = cst.FlattenSentinel([new, *filter(None, [lifted.remaining])])
    is_whole = said is not None and message == _text_of(document, said)
    return _assume_unused_exception(edits, kind, statement.test, message, is_whole=is_whole)


def _lines_after(statement: cst.If) -> list[cst.BaseStatement] | None:
    """Return the `elif` or the lines of the `else` of an `if`; None if these are on its line."""
    match statement.orelse:
        case cst.If() as rest:
            return [rest]
        case cst.Else(body=cst.IndentedBlock(body=[first, *others]), leading_lines=above):
            above = (*above, *leading_lines(first))
            return [first.with_changes(leading_lines=above), *others]
    return None if statement.orelse is not None else []


def _assume_unused_exception(
    replacements: dict[cst.CSTNode, Replacement],
    kind: str,
    test: cst.BaseExpression,
    message: str,
    *,
    is_whole: bool = True,
) -> Rewrite:
    """Return a rewrite of a check, with the assumption that no caller needs its exception.

    `replacements` are the edits. `kind` is the exception that compiled code no longer raises, such
    as "ValueError". `test` is the check's condition, `message` what the assertion says, `is_whole`
    whether that is all of its text.
    """
    is_lost = not is_whole or message == kind or "..." in message
    text = f" with the text {string_literal(message).value}" if is_lost else ""
    needs = f"no caller needs the {kind}: compiled, a check that fails raises RuntimeError{text}"
    if kind == "RuntimeError":
        other = string_literal(message).value if message else "another one"
        needs = f"no caller needs the text of the RuntimeError, which is {other} when compiled"
    return Rewrite(
        replacements,
        "The graph holds the check; eager code raises as before.",
        Applicability.UNSAFE,
        (needs,),
        imports=("torch",),
        tests=(test,),
        exempts=frozenset({f"raises RuntimeError: {message or 'assertion error'}"}),
    )


def _assertion_line(holds: cst.BaseExpression, message: str) -> cst.SimpleStatementLine:
    """Return the statement `assert holds, "message"`, which torch.compile keeps in the graph.

    `holds` is an expression for a 0-d tensor: whether the assertion holds. The statement has no
    message if `message` is "".
    """
    if message:
        line = build_statement("assert {holds}, {text}", holds=holds, text=string_literal(message))
    else:
        line = build_statement("assert {holds}", holds=holds)
    return cst.ensure_type(line, cst.SimpleStatementLine)


def _constant_text(document: Document, message: cst.BaseExpression | None) -> str:
    """Return what is constant in a message: "NaN in ..." for `f"{self}: NaN in {h}"`.

    "..." stands for what is not; that before the first and after the last colon is left out, and so
    is all that follows a whole clause: "no root: residual ..." is "no root". The text is "" if no
    word is constant, or `message` is None.
    """
    text = "" if message is None else _OUTER_FIELD.sub("", _text_of(document, message))
    clause = _CLAUSE.match(text)
    if clause is not None and "..." in text:
        return clause[1]
    return text if re.search(r"\w", text) else ""


def _text_of(document: Document, node: cst.BaseExpression) -> str:
    """Return the value of a string expression, with "..." for its parts that are not constant."""
    match node:
        case cst.SimpleString():
            return _string_value(node) or ""
        case cst.FormattedString(start=start, end=end):
            plain = start.lower().replace("f", "")
            parts = (
                str(ast.literal_eval(f"{plain}{part.value}{end}"))
                if isinstance(part, cst.FormattedStringText)
                else "{}"
                for part in node.parts
            )
            return _without_fields("".join(parts))
        case cst.ConcatenatedString() | cst.BinaryOperation(operator=cst.Add()):
            return _text_of(document, node.left) + _text_of(document, node.right)
        case cst.BinaryOperation(left=left, operator=cst.Modulo()):
            return _PERCENT.sub("...", _text_of(document, left)).replace("%%", "%")
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("format"))):
            return _without_fields(_text_of(document, value))
        case cst.Name() if (value := _value_of(document, node)) is not node:
            return _text_of(document, value)
    return "..."


def _without_fields(text: str) -> str:
    """Return a text for `str.format` with "..." for its fields."""
    try:
        fields = [*string.Formatter().parse(text)]
    except ValueError:  # braces that do not match
        return "..."
    return "".join(part if name is None else f"{part}..." for part, name, *_ in fields)


def _value_of(document: Document, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the value that a variable was assigned, if it is known; else the node itself."""
    value = only_value(document, node)
    return node if value is None else value


def _string_value(message: cst.BaseExpression) -> str | None:
    """Return the value of a string literal; None for other expressions."""
    if isinstance(message, cst.SimpleString | cst.ConcatenatedString):
        value = message.evaluated_value
        return value if isinstance(value, str) else None
    return None


RULE = Rule("FG102", "assert-in-graph", CHECKED, rewrite)
