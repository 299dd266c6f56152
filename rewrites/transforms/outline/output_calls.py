"""Which calls write for a person to read, and which statements do nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site
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
_LEVELS = re.compile(
    r"(debug|info|warn|warning|warning_once|info_once|error|critical|exception|log)"
)
_LOGGERS = re.compile(r"_*(logger|log|logging)_*", re.IGNORECASE)
"""What loggers are called where nothing was seen of them."""


def writes(site: Site, node: cst.CSTNode) -> bool:
    """Whether a call prints, logs or warns."""
    if not isinstance(node, cst.Call):
        return False
    name = site.calls(node)
    if _NAMES.fullmatch(name):
        return True
    if site.seen(node.func) is None and isinstance(node.func, cst.Attribute):
        receiver = dotted_name(node.func.value).rpartition(".")[2]
        return bool(_LOGGERS.fullmatch(receiver) and _LEVELS.fullmatch(node.func.attr.value))
    return "logg" in name.lower() and bool(_LEVELS.fullmatch(name.rpartition(".")[2]))


def call_of(statement: cst.CSTNode) -> cst.Call | None:
    """The call that a statement consists of."""
    call = m.extract(
        statement, m.SimpleStatementLine([m.Expr(m.SaveMatchedNode(m.Call(), "call"))])
    )
    found = call and call["call"]
    return found if isinstance(found, cst.Call) else None


def only_writes(site: Site, statement: cst.CSTNode) -> bool:
    """Whether a statement prints, logs or warns, perhaps under conditions, and does no more."""
    return _all_do(statement, lambda one: _writes_alone(site, one))


def only_checks(site: Site, statement: cst.CSTNode) -> bool:
    """Whether a statement asserts or raises, perhaps under conditions, and else only writes."""
    if isinstance(statement, cst.If):
        raises = bool(m.findall(statement, m.Raise() | m.Assert()))
        return raises and _all_do(
            statement, lambda one: _raises(one) or _asserts(one) or _writes_alone(site, one)
        )
    return _asserts(statement)


def _all_do(statement: cst.CSTNode, accepted: Callable[[cst.CSTNode], bool]) -> bool:
    """Whether a statement is accepted, or is an `if` with nothing but such statements."""
    if not isinstance(statement, cst.If):
        return accepted(statement)
    inner = [one for block in blocks(statement) for one in block.body]
    told = [_all_do(_whole(one), accepted) for one in inner]
    return any(told) and all(
        t or _says_nothing(_whole(o)) for t, o in zip(told, inner, strict=True)
    )


def _whole(statement: cst.CSTNode) -> cst.CSTNode:
    """A statement as a line of its own: those behind a colon on the same line are none."""
    if isinstance(statement, cst.BaseSmallStatement):
        return cst.SimpleStatementLine([statement])
    return statement


def _writes_alone(site: Site, statement: cst.CSTNode) -> bool:
    call = call_of(statement)
    return call is not None and writes(site, call)


def _raises(statement: cst.CSTNode) -> bool:
    return m.matches(statement, m.SimpleStatementLine([m.Raise()]))


def _asserts(statement: cst.CSTNode) -> bool:
    return m.matches(statement, m.SimpleStatementLine([m.Assert()]))


def blocks(statement: cst.If) -> list[cst.BaseSuite]:
    """The bodies of an `if` and of all its `elif` and `else`."""
    found = [statement.body]
    rest = statement.orelse
    while rest is not None:
        found.append(rest.body)
        rest = rest.orelse if isinstance(rest, cst.If) else None
    return found


def _says_nothing(statement: cst.CSTNode) -> bool:
    """`pass`, a text that stands alone, or a local name given to a value."""
    simple = m.Pass() | m.Expr(m.SimpleString()) | m.Assign([m.AssignTarget(m.Name())])
    return m.matches(statement, m.SimpleStatementLine([simple]))
