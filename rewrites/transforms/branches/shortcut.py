"""What a branch skips stays skipped in eager code; compiled code alone computes both branches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from fullgraph.rewrites.analysis import (
    LAYERS_WITHOUT_PARAMETERS,
    Site,
    class_of,
    torch_name,
    walk,
    word_set,
)
from fullgraph.rewrites.source import Document, build_expression
from fullgraph.rewrites.transforms.branches.branches import Branches, last_line
from fullgraph.rewrites.transforms.eager_only import compiling_condition, eager_and

_PRODUCTS = word_set("addmm baddbmm bilinear bmm einsum linear matmul mm")


def count_work(site: Site, statements: Iterable[cst.CSTNode]) -> int:
    """Return the number of calls of layers that may have parameters, and of matrix products."""
    return sum(is_work_alone(site, one) for statement in statements for one in walk(statement))


def is_work_alone(site: Site, node: cst.CSTNode) -> bool:
    """Return whether a node, without what is inside it, is such a call or product."""
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.MatrixMultiply)
    if not isinstance(node, cst.Call):
        return False
    kind = class_of(site, node.func).rpartition(".")[2]
    is_layer = bool(kind) and kind not in LAYERS_WITHOUT_PARAMETERS
    return is_layer or torch_name(site, node) in _PRODUCTS


def saves_work(site: Site, branches: Branches, may_misfit: bool) -> bool:
    """Return whether one branch is empty, and eager code had better not run the other one.

    That is work, or what a bare `return` skips, or may fail if it is not skipped: `may_misfit`.
    """
    if branches.one and branches.other:
        return False
    last = None if branches.one else last_line(branches.node)
    returns = last is not None and isinstance(last.body[-1], cst.Return)
    return may_misfit or returns or count_work(site, (*branches.one, *branches.other)) > 0


def skip_in_eager(
    document: Document,
    test: cst.BaseExpression,
    branches: Branches,
    lines: Sequence[cst.BaseStatement],
) -> list[cst.BaseStatement]:
    """Return `lines`, which do nothing where the work was skipped, so that eager code skips them.

    `test` is the condition. An `if` that holds the work becomes
    `if torch.compiler.is_compiling() or test:`; what an exit skips comes after `leave_in_eager`.
    """
    if not branches.one:
        return [leave_in_eager(document, test, (branches.inner or branches.node).body), *lines]
    return [work_in_eager(document, test, lines)]


def work_in_eager(
    document: Document, test: cst.BaseExpression, lines: Sequence[cst.BaseStatement]
) -> cst.If:
    """Return `if torch.compiler.is_compiling() or test:` with `lines`, which eager may skip."""
    guard = build_expression(f"{compiling_condition(document)} or {{t}}", t=test)
    return cst.If(guard, cst.IndentedBlock(lines))


def leave_in_eager(document: Document, test: cst.BaseExpression, body: cst.BaseSuite) -> cst.If:
    """Return `if not torch.compiler.is_compiling() and test:` with `body`, which leaves early."""
    return cst.If(eager_and(document, test), body)
