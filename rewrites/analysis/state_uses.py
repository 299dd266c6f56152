"""Uses of an attribute of `self`, or of a global variable, in its file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.source import Document, dotted_name


@dataclass(frozen=True)
class StateUses:
    """All uses of one attribute of `self` or global variable, whose value lasts between calls."""

    name: str
    """"self.count", or "CALLS"."""
    scope: cst.ClassDef | cst.Module
    """The class for an attribute, the module for a global variable."""
    initial: cst.Assign | cst.AnnAssign | None
    """Its assignment in `__init__`, or at the file's top level."""
    updates: tuple[cst.SimpleStatementLine, ...]
    """Statements that only count or append: `self.count += 1`."""
    writes: tuple[cst.Assign | cst.AnnAssign, ...]
    """Other assignments to it."""
    reads: tuple[cst.CSTNode, ...]


def find_state_uses(document: Document, node: cst.CSTNode) -> StateUses | None:
    """Return the uses of the variable at `node`; None if it is neither `self.x` nor a name."""
    name = dotted_name(node)
    owner, _, last = name.rpartition(".")
    if owner not in ("", "self") or not last:
        return None
    scope = next((n for n in document.ancestors(node) if isinstance(n, cst.ClassDef)), None)
    if owner and scope is None:
        return None
    within = scope if owner and scope is not None else document.module
    initial, updates, writes, reads = None, [], [], []
    for use in _uses(document, within, name):
        statement, small = document.statement(use), _small_statement(document, use)
        if isinstance(small, cst.Assign | cst.AnnAssign) and _is_target(small, use):
            if initial is None and _runs_once(document, use, within):
                initial = small
            else:
                writes.append(small)
        elif isinstance(statement, cst.SimpleStatementLine) and _is_update(statement, use):
            updates.append(statement)
        else:
            reads.append(use)
    return StateUses(name, within, initial, tuple(updates), tuple(writes), tuple(reads))


def _uses(document: Document, scope: cst.CSTNode, name: str) -> Iterator[cst.CSTNode]:
    """Yield the uses of `name` in `scope`, except `global` declarations and argument keywords."""
    for node in document.ranges:
        if not isinstance(node, cst.Name | cst.Attribute) or dotted_name(node) != name:
            continue
        parent = document.parents.get(node)
        if isinstance(parent, cst.NameItem | cst.Arg) and getattr(parent, "keyword", None) is node:
            continue
        if isinstance(parent, cst.NameItem) or (
            isinstance(parent, cst.Attribute) and parent.attr is node
        ):
            continue
        if scope is document.module or scope in tuple(document.ancestors(node)):
            yield node


def _small_statement(document: Document, node: cst.CSTNode) -> cst.CSTNode | None:
    return next(
        (n for n in document.ancestors(node) if isinstance(n, cst.BaseSmallStatement)), None
    )


def _is_target(statement: cst.Assign | cst.AnnAssign, node: cst.CSTNode) -> bool:
    """Return whether an assignment binds `node`: `x` in `x = 1` and in `x, y = 1, 2`."""
    if isinstance(statement, cst.AnnAssign):
        return statement.target is node
    targets = [target.target for target in statement.targets]
    items = [e.value for t in targets if isinstance(t, cst.Tuple) for e in t.elements]
    return any(one is node for one in (*targets, *items))


def _is_update(statement: cst.SimpleStatementLine, node: cst.CSTNode) -> bool:
    """Return whether a statement only adds to `node`: `node += …` or `node.append(…)`."""
    match statement.body:
        case [cst.AugAssign(target=target)]:
            return target is node
        case [cst.Expr(cst.Call(cst.Attribute(value=value, attr=cst.Name("append"))))]:
            return value is node
    return False


def _runs_once(document: Document, node: cst.CSTNode, scope: cst.CSTNode) -> bool:
    """Return whether code at `node` runs once: at the top level of a file, or in `__init__`.

    `scope` is where the variable lives: for a module, only the top level counts; for a class, only
    its `__init__`.
    """
    around = list(document.ancestors(node))
    if isinstance(scope, cst.Module):
        return not any(isinstance(one, cst.FunctionDef | cst.ClassDef) for one in around)
    functions = [one for one in around if isinstance(one, cst.FunctionDef)]
    return len(functions) == 1 and functions[0].name.value == "__init__"
