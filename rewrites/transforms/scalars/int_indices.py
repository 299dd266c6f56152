"""Indices that were tensors but may be ints in another run, converted before the statement."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    Definitions,
    assigned_value,
    find_all,
    find_definitions,
    may_be_int,
    names_bound,
    walk,
)
from fullgraph.rewrites.source import Document, dotted_name
from fullgraph.rewrites.transforms.number_tensor import assumed_of_readers, convert_to_tensor
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

_CONVERSION = "torch.as_tensor"


def convert_index(uses: UseEdits, node: cst.BaseExpression, subscript: cst.Subscript) -> bool:
    """Write `n = torch.as_tensor(n, device=x.device)` before `x[n]`, where `n` may be an int.

    `node` is `n`, a tensor when it was observed. Returns whether `n` is on the device of `x` then.
    """
    known = find_definitions(uses.document, node)
    if not isinstance(node, cst.Name) or known is None or not uses.is_tensor(node):
        return False
    table = dotted_name(subscript.value)
    if _is_converted(uses, known, node, table):
        return True
    if not may_be_int(uses.site, known, node):
        return False
    line = uses.document.statement(node)
    if not _fits_before(uses, known, node, line):
        uses.assume(f"`{node.value}` is a tensor in each call")
        return False
    new = convert_to_tensor(uses.document, node.value, table)
    uses.lines_before.setdefault(line, {})[subscript] = [new]
    uses.imports.append("torch")
    if (clause := assumed_of_readers(uses.document, known, node, table)) is not None:
        uses.assume(clause)
    return bool(table)


def table_of_index(uses: UseEdits, node: cst.BaseExpression) -> str:
    """Return the tensor `x` of the first `x[n]` if the number `n` at `node` is only an index.

    What is computed of `n` and of numbers may be an index, too. "" if there is another use, or if
    `x` may not exist or be another tensor where `node` is evaluated.
    """
    document, line = uses.document, uses.document.statement(node)
    function, block = document.function(node), document.parent(line)
    tensors = [one for one in walk(function or node) if one in uses.tensors]
    parents = {one: document.parent(one) for one in tensors}
    indices = [one for one, parent in parents.items() if isinstance(parent, cst.Index)]
    inner = [one for one in tensors if one not in indices and parents[one] not in uses.tensors]
    assigned = m.Assign(targets=[m.AtLeastN(m.AssignTarget(m.Name()), n=1)])
    if not indices or not all(m.matches(parents[one], assigned) for one in inner):
        return ""
    subscript = document.parent(document.parent(parents[indices[0]]))
    reads = document.statement(subscript)
    if not isinstance(subscript, cst.Subscript) or document.function(subscript) is not function:
        return ""
    if not isinstance(block, cst.IndentedBlock) or reads not in block.body:
        return ""
    between = block.body[block.body.index(line) : block.body.index(reads) + 1]
    table = dotted_name(subscript.value)
    root = table.partition(".")[0]
    leaves = m.Return() | m.Raise() | m.Assert() | m.Break() | m.Continue()
    may_differ = (
        not between
        or not uses.is_tensor(subscript.value)
        or {root, table} & {*names_bound(*between)}
        or any(find_all(one, leaves) for one in between[:-1])
        or ("." in table and any(find_all(one, m.Call()) for one in between[1:-1]))
        or not isinstance(reads, cst.SimpleStatementLine)
        or any(_find_guards(document, indices[0], reads))
    )
    return "" if may_differ else table


def _is_converted(uses: UseEdits, known: Definitions, name: cst.Name, table: str) -> bool:
    """Return whether a line converts the index `name` to the device of `table` already."""
    values = [assigned_value(uses.document, one) for one in known.reaching.get(name, ())]
    return bool(values and table) and all(
        isinstance(value, cst.Call)
        and uses.document.qualified_name(value.func) == _CONVERSION
        and any(uses.document.code(arg.value) == f"{table}.device" for arg in value.args)
        for value in values
    )


def _fits_before(uses: UseEdits, known: Definitions, name: cst.Name, line: cst.CSTNode) -> bool:
    """Return whether a line before the statement `line` can convert the index `name`.

    False if the statement binds the name, or may skip the index where it is not a number.
    """
    document = uses.document
    is_bound = any(line in document.ancestors(one) for one in known.reaching[name])
    in_block = isinstance(document.parent(line), cst.IndentedBlock)
    if is_bound or not in_block or find_all(line, m.NamedExpr()):
        return False
    return not any(_find_guards(document, name, line))


def deciding_branch(uses: UseEdits, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the condition `n >= 0` of a branch around the index `n`, a tensor; None without."""
    inner: cst.CSTNode = node
    for outer in uses.document.ancestors(node):
        match outer:
            case cst.IfExp(test=test) | cst.If(test=test) if inner is not test:
                if uses.is_tensor(node) and _orders(test, node):
                    return test
            case cst.FunctionDef():
                return None
        inner = outer
    return None


def _find_guards(document: Document, node: cst.CSTNode, line: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the conditions, loops and comprehensions in `line` that may skip the expression."""
    inner = node
    for outer in document.ancestors(node):
        match outer:
            case cst.IfExp(test=test) | cst.If(test=test) if inner is not test:
                yield test
            case cst.BooleanOperation(left=left) if inner is not left:
                yield left
            case cst.BaseComp():
                yield outer
            case cst.SimpleStatementSuite() if not isinstance(document.parent(outer), cst.If):
                yield outer
        if outer is line:
            return
        inner = outer


def _orders(condition: cst.CSTNode, index: cst.BaseExpression) -> bool:
    """Return whether a condition compares an index, as `n >= 0` does."""
    order = m.LessThan() | m.LessThanEqual() | m.GreaterThan() | m.GreaterThanEqual()
    target = m.ComparisonTarget(operator=order)
    compares = m.matches(condition, m.Comparison(comparisons=[target]))
    return compares and cst.ensure_type(condition, cst.Comparison).left.deep_equals(index)
