"""Nested edits of expressions: the replacement of a node may contain other edited nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst
import torch

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import Document, Replacement, build_expression, replace_nodes
from fullgraph.rewrites.transforms.scalars.scalar import CASTS, Number


@dataclass(frozen=True)
class EditText:
    """Edit of an expression: another expression in its place, and calls appended to it."""

    plain: cst.BaseExpression | None = None
    """The new expression; None to keep the old one."""
    suffix: str = ""
    """Source of the appended calls, such as ".clone()"."""


class Edits:
    """Edits of expressions in one document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.texts: dict[cst.BaseExpression, EditText] = {}
        self.others: dict[cst.CSTNode, Replacement] = {}
        """Edits of nodes that are not expressions."""
        self.imports: list[str] = []
        """Modules that the edits need."""

    def write(self, node: cst.BaseExpression, new: cst.BaseExpression, *modules: str) -> None:
        """Replace `node` by `new`, which may contain other edited nodes of the document.

        `modules` are the modules that `new` needs imported.
        """
        self.texts[node] = EditText(new)
        self.imports += modules

    def append_call(self, node: cst.BaseExpression, number: Number, suffix: str) -> None:
        """Append a call such as `.clone()` to the tensor at `node`.

        Raises NotApplicable if `node` may also be a Python number.
        """
        if number.may_be_plain:
            raise NotApplicable("a plain number may stand there too")
        self.append(node, suffix)

    def append(self, node: cst.BaseExpression, suffix: str) -> None:
        """Append a call such as `.clone()` to the expression `node`, once."""
        known = self.texts.get(node, EditText())
        if not known.suffix.endswith(suffix):
            self.texts[node] = replace(known, suffix=known.suffix + suffix)

    def cast(self, node: cst.BaseExpression, number: Number, dtype: torch.dtype) -> Number:
        """Convert the tensor at `node` to a dtype; return the number with that dtype.

        Raises NotApplicable for a dtype that is not in CASTS.
        """
        if dtype is number.dtype:
            return number
        if dtype not in CASTS:
            raise NotApplicable("it meets a tensor of an unusual dtype")
        self.append_call(node, number, f".{CASTS[dtype]}()")
        return replace(number, dtype=dtype, owns_memory=True)

    def with_edits(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return `node` with its edit and the edits of all nodes inside it."""
        own = self.texts.get(node, EditText())
        inner = [one for one in self.texts if one is not node and self._contains(node, one)]
        whole = node if own.plain is None else own.plain
        new = replace_nodes(whole, {one: self.with_edits(one) for one in inner}) if inner else whole
        return build_expression(f"{{new}}{own.suffix}", new=new) if own.suffix else new

    def replacements(self) -> dict[cst.CSTNode, Replacement]:
        """Return the replacement of each outermost edited node, with the edits inside it."""
        outermost: dict[cst.CSTNode, Replacement] = {
            node: self.with_edits(node)
            for node in self.texts
            if not any(around in self.texts for around in self.document.ancestors(node))
        }
        return {**outermost, **self.others}

    def _contains(self, outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
        return any(one is outer for one in self.document.ancestors(inner))
