"""Tensors that a branch makes itself, so that nothing else sees how it changes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.rewrites.analysis import Site, is_new_tensor
from fullgraph.rewrites.source import dotted_name


def parts_evaluated(site: Site, lines: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Yield the statements, but of updates of tensors that they make only value and indices."""
    for line in lines:
        for one in line.body if isinstance(line, cst.SimpleStatementLine) else [line]:
            match one:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as item)]) if (
                    updates_own_tensor(site, one, lines)
                ):
                    yield from (one.value, *item.slice)
                case _:
                    yield one


def updates_own_tensor(site: Site, small: cst.CSTNode, lines: Sequence[cst.CSTNode]) -> str:
    """Return the name of a new tensor that `lines` make, to whose elements `small` assigns.

    "y" for `y[1:] = 0` after `y = x + 1`; "" for other statements.
    """
    match small:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Subscript(value=cst.Name(value=name)))]
        ):
            bound = [
                one.value
                for line in lines
                if isinstance(line, cst.SimpleStatementLine)
                for one in line.body
                if isinstance(one, cst.Assign)
                and name in [dotted_name(target.target) for target in one.targets]
            ]
            return name if len(bound) == 1 and is_new_tensor(site, bound[0]) else ""
    return ""
