"""The text of an edit while it grows: a node's new form may hold other nodes that change too."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst
import torch

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import Document, Replacement, build_expression, replace_nodes
from fullgraph.rewrites.transforms.scalars.scalar import CASTS, Number


@dataclass(frozen=True)
class EditText:
    """What a node becomes: another expression, or its own with a call behind it."""

    plain: cst.BaseExpression | None = None
    suffix: str = ""


class Edits:
    """The new texts of nodes of one document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.texts: dict[cst.BaseExpression, EditText] = {}
        self.others: dict[cst.CSTNode, Replacement] = {}
        """Edits of what is no expression."""
        self.imports: list[str] = []
        """Modules that the new texts need."""

    def write(self, node: cst.BaseExpression, plain: cst.BaseExpression, *needs: str) -> None:
        """Let `plain`, which may hold nodes of the document, stand where `node` stood."""
        self.texts[node] = EditText(plain)
        self.imports += needs

    def convert(self, node: cst.BaseExpression, number: Number, suffix: str) -> None:
        """Put a call behind the tensor at `node`."""
        if number.mixed:
            raise NotApplicable("a plain number may stand there too")
        known = self.texts.get(node, EditText())
        if not known.suffix.endswith(suffix):
            self.texts[node] = replace(known, suffix=known.suffix + suffix)

    def cast(self, node: cst.BaseExpression, number: Number, dtype: torch.dtype) -> Number:
        """Convert the tensor at `node` to a dtype."""
        if dtype is number.dtype:
            return number
        if dtype not in CASTS:
            raise NotApplicable("it meets a tensor of an unusual dtype")
        self.convert(node, number, f".{CASTS[dtype]}()")
        return replace(number, dtype=dtype, fresh=True)

    def now(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The text of `node` with all edits inside it, and its own."""
        own = self.texts.get(node, EditText())
        inner = [one for one in self.texts if one is not node and self._holds(node, one)]
        whole = node if own.plain is None else own.plain
        new = replace_nodes(whole, {one: self.now(one) for one in inner}) if inner else whole
        return build_expression(f"{{new}}{own.suffix}", new=new) if own.suffix else new

    def replacements(self) -> dict[cst.CSTNode, Replacement]:
        """The outermost edits."""
        outermost: dict[cst.CSTNode, Replacement] = {
            node: self.now(node)
            for node in self.texts
            if not any(around in self.texts for around in self.document.around(node))
        }
        return {**outermost, **self.others}

    def _holds(self, outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
        return any(one is outer for one in self.document.around(inner))
