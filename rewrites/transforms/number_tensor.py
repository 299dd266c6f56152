"""A Python number that outlives a call, kept as a 0-d tensor: an input of the graph."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from fullgraph.rewrites.rule import Applicability, Rewrite
from fullgraph.rewrites.source import Document, Replacement


def tensor_text(document: Document, number: cst.Integer | cst.Float) -> str:
    """Return code that makes a 0-d tensor of a literal: "torch.tensor(3)".

    A float becomes float64, so that it loses no digits.
    """
    torch = document.imported_name("torch") or "torch"
    dtype = f", dtype={torch}.float64" if isinstance(number, cst.Float) else ""
    return f"{torch}.tensor({document.code(number)}{dtype})"


def rewrite_as_tensor(
    replacements: Mapping[cst.CSTNode, Replacement], name: str, *assumes: str
) -> Rewrite:
    """Return the rewrite with edits `replacements` that make the number `name` a tensor.

    It assumes that all code that reads the variable `name` accepts a tensor, and the clauses
    `assumes`.
    """
    return Rewrite(
        replacements,
        f"`{name}` is an input of the graph and no longer a constant of it.",
        Applicability.UNSAFE,
        (
            f"every reader of `{name}` accepts a 0-d tensor",
            f"no backward runs after a later call has changed `{name}` in place",
            *assumes,
        ),
        imports=("torch",),
        numbers=True,
    )
