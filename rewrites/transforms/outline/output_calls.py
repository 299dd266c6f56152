"""Calls that print, log or warn, and statements that do nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site, has_raise
from fullgraph.rewrites.source import dotted_name

_NAMES = re.compile(
    r"(builtins\.)?print"
    r"|logging\.(\w+\.)*(debug|info|warn|warning\w*|error|critical|exception|log)"
    r"|warnings\.warn|_warnings\.warn"
    r"|sys\.(stdout|stderr)\.(write|flush|writelines)|_io\.TextIOWrapper\.(write|flush|writelines)"
    r"|p?print\.p?print|tqdm\.(\w+\.)*write|rich\.print"
    r"|(absl\.logging|loguru\._logger\.Logger|loguru\.logger)"
    r"\.(debug|info|warning|error|critical|success|trace)"
)
_WRITES = re.compile(r"print|write|flush")
"""Calls that write whatever the level or the filter is."""
_LEVELS = re.compile(
    r"(debug|info|warn|warning|warning_once|info_once|error|critical|exception|log)"
)
_LOGGERS = re.compile(r"_*(logger|log|logging)_*", re.IGNORECASE)
"""Names taken for loggers if their value was not observed."""


def is_output_call(site: Site, node: cst.CSTNode) -> bool:
    """Whether a call prints, logs or warns."""
    if not isinstance(node, cst.Call):
        return False
    name = site.callee_name(node)
    if _NAMES.fullmatch(name):
        return True
    if site.observed(node.func) is None and isinstance(node.func, cst.Attribute):
        receiver = dotted_name(node.func.value).rpartition(".")[2]
        return bool(_LOGGERS.fullmatch(receiver) and _LEVELS.fullmatch(node.func.attr.value))
    return "logg" in name.lower() and bool(_LEVELS.fullmatch(name.rpartition(".")[2]))


def call_of(statement: cst.CSTNode) -> cst.Call | None:
    """Return the call that a statement consists of, or None."""
    call = m.extract(
        statement, m.SimpleStatementLine([m.Expr(m.SaveMatchedNode(m.Call(), "call"))])
    )
    found = call and call["call"]
    return found if isinstance(found, cst.Call) else None


def is_output_statement(
    site: Site, statement: cst.CSTNode, also: Callable[[cst.CSTNode], bool] = lambda _: False
) -> bool:
    """Return whether a statement only prints, logs or warns, also under `if`s.

    Lines for which `also` returns True are accepted, too.
    """
    return _all_do(statement, lambda one: _is_output_line(site, one) or also(one))


def names_its_place(site: Site, statement: cst.CSTNode) -> bool:
    """Whether a statement logs or warns, also under `if`s, where `print` would not.

    A log record and a warning name the function and the line that they come from. Where a log is
    switched off, its call costs less than that of an operator, too.
    """
    if isinstance(statement, cst.If):
        lines = (_as_line(one) for block in blocks_of_if(statement) for one in block.body)
        return any(names_its_place(site, one) for one in lines)
    call = call_of(statement)
    if call is None:
        return False
    name = site.callee_name(call) or dotted_name(call.func)
    return is_output_call(site, call) and not _WRITES.search(name.rpartition(".")[2])


def is_check_statement(site: Site, statement: cst.CSTNode) -> bool:
    """Return whether a statement only asserts, raises or writes output, also under `if`s."""
    if isinstance(statement, cst.If):
        raises = has_raise(site.document, statement)
        return raises and _all_do(
            statement, lambda one: _is_raise(site, one) or _is_output_line(site, one)
        )
    return _is_assert(statement)


def _all_do(statement: cst.CSTNode, accepted: Callable[[cst.CSTNode], bool]) -> bool:
    """Return whether `accepted` holds for a statement, or for the statements in an `if`.

    The `if` may also contain statements without an effect, such as `pass`, but not only these.
    """
    if not isinstance(statement, cst.If):
        return accepted(statement)
    inner = [one for block in blocks_of_if(statement) for one in block.body]
    verdicts = [_all_do(_as_line(one), accepted) for one in inner]
    return any(verdicts) and all(
        t or _is_neutral(_as_line(o)) for t, o in zip(verdicts, inner, strict=True)
    )


def _as_line(statement: cst.CSTNode) -> cst.CSTNode:
    """Return `y = 1` of `if t: y = 1` as a line of its own; other statements unchanged."""
    if isinstance(statement, cst.BaseSmallStatement):
        return cst.SimpleStatementLine([statement])
    return statement


def _is_output_line(site: Site, statement: cst.CSTNode) -> bool:
    """Return whether a line only prints, logs or warns."""
    call = call_of(statement)
    return call is not None and is_output_call(site, call)


def _is_raise(site: Site, statement: cst.CSTNode) -> bool:
    is_alone = m.matches(statement, m.SimpleStatementLine([m.DoNotCare()]))
    return is_alone and has_raise(site.document, statement)


def _is_assert(statement: cst.CSTNode) -> bool:
    return m.matches(statement, m.SimpleStatementLine([m.Assert()]))


def blocks_of_if(statement: cst.If) -> list[cst.BaseSuite]:
    """Return the bodies of an `if` and of all its `elif` and `else`."""
    found = [statement.body]
    rest = statement.orelse
    while rest is not None:
        found.append(rest.body)
        rest = rest.orelse if isinstance(rest, cst.If) else None
    return found


def _is_neutral(statement: cst.CSTNode) -> bool:
    """Whether a statement is `pass`, a string or an assignment to a name."""
    simple = m.Pass() | m.Expr(m.SimpleString()) | m.Assign([m.AssignTarget(m.Name())])
    return m.matches(statement, m.SimpleStatementLine([simple]))
