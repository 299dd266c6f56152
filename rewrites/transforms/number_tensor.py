"""A Python number as a 0-d tensor: an input of the graph, or an index."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    Definitions,
    Site,
    StateUses,
    assigned_value,
    chain_root,
    find_definitions,
    statements_after,
    walk,
)
from fullgraph.rewrites.rule import Applicability, Rewrite
from fullgraph.rewrites.source import Document, Replacement, build_statement, dotted_name

_FLOATING = m.Call(m.Attribute(attr=m.Name(m.MatchRegex("double|exp|float|half|log|mean|norm"))))
"""Methods whose result is of a floating dtype."""


def tensor_text(document: Document, number: cst.Integer | cst.Float) -> str:
    """Return code that makes a 0-d tensor of a literal: "torch.tensor(3)".

    A float becomes float64, so that it loses no digits.
    """
    torch = document.torch
    dtype = f", dtype={torch}.float64" if isinstance(number, cst.Float) else ""
    return f"{torch}.tensor({document.code(number)}{dtype})"


def convert_to_tensor(document: Document, name: str, table: str) -> cst.BaseStatement:
    """Return `n = torch.as_tensor(n, device=x.device)` for the index `name` of `table`, or ""."""
    return build_statement(f"{name} = {as_tensor_text(document, name, table)}")


def as_tensor_text(document: Document, number: str, table: str, dtype: str = "") -> str:
    """Return the call that makes a tensor of `number`, on the device of `table` if not ""."""
    convert = document.imported_name("torch.as_tensor") or "torch.as_tensor"
    of_dtype = f", dtype={dtype}" if dtype else ""
    device = f", device={table}.device" if table else ""
    return f"{convert}({number}{of_dtype}{device})"


def assumed_of_readers(
    document: Document, known: Definitions, name: cst.Name, table: str
) -> str | None:
    """Return what a conversion of `name` before its statement assumes of code that reads it later.

    None if that code only compares it and indexes with it. `table` is as for `convert_to_tensor`.
    """
    bindings = known.reaching[name]
    later = [
        use
        for statement in statements_after(document, document.statement(name))
        for use in walk(statement)
        if isinstance(use, cst.Name) and known.reaching.get(use, frozenset()) & bindings
    ]
    harmless = cst.Comparison | cst.ComparisonTarget | cst.Index
    if all(isinstance(document.parent(use), harmless) for use in later):
        return None
    where = f" on the device of `{table}`" if table else ""
    return f"code that reads `{name.value}` later accepts a tensor{where}"


def argument_behind(site: Site, node: cst.BaseExpression, depth: int = 4) -> str:
    """Return the parameter of the function whose dtype a tensor may have; "" if there is none.

    At most `depth` definitions are followed.
    """
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Divide):
            return ""
        return argument_behind(site, node.left, depth) or argument_behind(site, node.right, depth)
    root = chain_root(node, _FLOATING)
    known = find_definitions(site.document, root)
    if known is None or not isinstance(root, cst.Name) or root.value == "self" or not depth:
        return ""
    for one in known.reaching.get(root, frozenset()):
        if isinstance(site.document.parent(one), cst.Param):
            return root.value
        value = assigned_value(site.document, one)
        if value is not None and (name := argument_behind(site, value, depth - 1)):
            return name
    return ""


def rewrite_as_tensor(
    replacements: Mapping[cst.CSTNode, Replacement],
    name: str,
    *assumes: str,
    in_place: bool = False,
) -> Rewrite:
    """Return the rewrite with edits `replacements` that make the number `name` a tensor.

    It assumes that all code that reads the variable `name` accepts a tensor, and the clauses
    `assumes`. `in_place` says whether the tensor that was read is changed in place.
    """
    later = (f"no backward runs after a later call has changed `{name}` in place",)
    return Rewrite(
        replacements,
        f"`{name}` is an input of the graph and no longer a constant of it.",
        Applicability.UNSAFE,
        (
            f"every reader of `{name}` accepts a 0-d tensor",
            *(later if in_place else ()),
            *assumes,
        ),
        imports=("torch",),
        numbers=True,
    )


def update_out_of_place(document: Document, uses: StateUses) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that write `n += 1` as `n = n + 1` where the tensor is read, too.

    AOTAutograd may compute again in the backward what was read, of the changed tensor: gradients
    are wrong then (torch 2.10 to 2.15).
    """
    edits: dict[cst.CSTNode, Replacement] = {}
    for line in uses.updates if uses.reads else ():
        for small in line.body:
            if isinstance(small, cst.AugAssign) and dotted_name(small.target) == uses.name:
                sign = document.code(small.operator).strip().removesuffix("=")
                new = build_statement(f"{uses.name} = {uses.name} {sign} {{n}}", n=small.value)
                edits[small] = cst.ensure_type(new, cst.SimpleStatementLine).body[0]
    return edits
