"""Whether one tensor can take the place of either of two values."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.branches.predicate import Escape
from fullgraph.rewrites.facts.inferred import inferred
from fullgraph.rewrites.facts.seen import Seen
from fullgraph.rewrites.site import Site


@dataclass
class Agreement:
    """What is taken for granted of pairs of values, one clause each."""

    site: Site
    assumes: dict[str, None] = field(default_factory=dict)
    known: dict[cst.CSTNode, Seen] = field(default_factory=dict)
    """What is known of new nodes."""
    arithmetic: bool = False
    """Whether the values are only used as operands of tensors: then a number may be a tensor."""

    def pair(
        self, one: cst.BaseExpression, other: cst.BaseExpression, *, numbers: bool = True
    ) -> None:
        """Ask whether two values are of one kind. Raises Escape where they are surely not.

        `numbers` says whether a Python number may become a tensor.
        """
        a, b = (self.known.get(side) or inferred(self.site, side) for side in (one, other))
        texts = [self.text(one), self.text(other)]
        for seen, text in zip((a, b), texts, strict=True):
            if seen is not None and not seen.is_tensor and not (numbers and seen.is_number):
                raise Escape(f"{text} is no tensor")
        if a is None or b is None:
            unknown, known = (texts[0], texts[1]) if a is None else (texts[1], texts[0])
            self.assumes[f"{unknown} has the dtype and shape of {known}"] = None
        elif a.is_tensor and b.is_tensor:
            self._tensors(a, b, texts)
        elif a.is_number and b.is_number:
            if a.types != b.types:
                self.assumes[f"{texts[0]} and {texts[1]} may be of one type"] = None
            if not self.arithmetic:
                clause = f"a tensor may take the place of {texts[0]} and {texts[1]}"
                self.assumes[clause] = None
        else:
            number, tensor = (0, 1) if a.is_number else (1, 0)
            shapes = (a, b)[tensor].shapes
            if shapes != {()}:
                raise Escape(f"{texts[number]} is a number and {texts[tensor]} has dimensions")
            self.assumes[f"a tensor may take the place of {texts[number]}"] = None

    def _tensors(self, a: Seen, b: Seen, texts: list[str]) -> None:
        for what, x, y in (("dtype", a.dtypes, b.dtypes), ("shape", a.shapes, b.shapes)):
            if len(x) == len(y) == 1 and x != y:
                (p,), (q,) = x, y
                raise Escape(f"{texts[0]} has {what} {p} and {texts[1]} has {what} {q}")
            if x != y or len(x) > 1:
                self.assumes[f"{texts[0]} and {texts[1]} have the same {what}"] = None
        if a.requires_grad != b.requires_grad:
            constant = texts[0] if b.requires_grad else texts[1]
            self.assumes[f"the result may ask for a gradient where {constant} does not"] = None

    def text(self, node: cst.BaseExpression) -> str:
        """A value as it stands in an explanation."""
        code = " ".join(cst.Module([]).code_for_node(node).split())
        return f"`{code}`" if len(code) <= 40 else f"`{code[:37]}…`"
