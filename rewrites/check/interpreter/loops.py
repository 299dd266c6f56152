"""What an iteration of a loop reads of the iteration before it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fullgraph.rewrites.check.syntax import dotted, walk


def carried_reads(loop: ast.For | ast.AsyncFor | ast.While) -> frozenset[str]:
    """Return the variables and attributes that an iteration may read before it assigns them.

    Attributes are written as paths, such as "self.cache".
    """
    found: set[str] = set()
    assigned: set[str] = set()
    if isinstance(loop, ast.While):
        found |= _read_in(loop.test)
    else:
        assigned |= _names_in([loop.target])
    _scan(loop.body, assigned, found)
    return frozenset(found)


def _scan(body: Iterable[ast.stmt], assigned: set[str], found: set[str]) -> None:
    """Add to `found` what statements read and is not in `assigned`; add there what they assign."""
    for one in body:
        match one:
            case ast.If(test=test, body=then, orelse=orelse):
                _add_reads([test], assigned, found)
                if isinstance(test, ast.NamedExpr):
                    assigned.add(test.target.id)
                branches = [set(assigned), set(assigned)]
                _scan(then, branches[0], found)
                _scan(orelse, branches[1], found)
                assigned |= branches[0] & branches[1]
            case ast.Assign(targets=targets, value=value):
                _add_reads([value, *targets], assigned, found)
                assigned |= _names_in(targets)
            case _:
                _add_reads([one], assigned, found)


def _add_reads(nodes: Iterable[ast.AST], assigned: set[str], found: set[str]) -> None:
    for node in nodes:
        found |= {path for path in _read_in(node) if path.partition(".")[0] not in assigned}


def _read_in(node: ast.AST) -> set[str]:
    """Return the variables and the paths of attributes that a node reads."""
    found: set[str] = set()
    for one in walk(node):
        if isinstance(one, ast.Name | ast.Attribute) and not isinstance(one.ctx, ast.Store):
            found.add(dotted(one))
        elif isinstance(one, ast.AugAssign):
            found.add(dotted(one.target))
    return found


def _names_in(targets: Iterable[ast.AST]) -> set[str]:
    """Return the variables that an assignment to `targets` sets."""
    return {
        one.id
        for target in targets
        for one in walk(target)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
