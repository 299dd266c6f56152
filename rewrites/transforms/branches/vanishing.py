"""Values that are zero where a mask selects nothing: no `torch.where` has to make them so."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fullgraph.rewrites.analysis import (
    Definitions,
    Site,
    assigned_value,
    find_definitions,
    is_away_from_zero,
    is_tensor,
    names_mutated,
    operation_of,
    torch_name,
    walk,
    word_set,
)
from fullgraph.rewrites.source import integer_literal
from fullgraph.rewrites.transforms.branches.tested import without_new_dims

_KEEP_ZERO = word_set(
    """
    abs clone contiguous detach double expand flatten float half neg permute relu reshape square
    squeeze sum to transpose unsqueeze view
    """
)
_MAKE_ZERO = word_set("new_zeros zeros zeros_like")


def is_unchanged(
    site: Site, mask: cst.BaseExpression, value: cst.BaseExpression, old: cst.BaseExpression
) -> bool:
    """Return whether a branch that assigns `value` changes nothing where `mask` selects nothing.

    `old` is what stays without the branch, `mask` what the condition asks about. True for `old`
    that is zero and `torch.where(mask, x, 0).sum() / n.clamp(min=1)`; for `old` plus that.
    """
    known = find_definitions(site.document, site.node)
    if known is None:
        return False
    zeros = _Zeros(site, known, mask)
    made = operation_of(site, value)
    if made is not None and made.name == "add" and not made.in_place and len(made.operands) == 2:
        pairs = (made.operands, made.operands[::-1])
        if any(a.deep_equals(old) and zeros.vanishes(b) for a, b in pairs):
            return True
    return zeros.is_zero_before(old) and zeros.vanishes(value)


class _Zeros:
    """What is zero at the site's branch, and in it where a mask selects nothing."""

    def __init__(self, site: Site, known: Definitions, mask: cst.BaseExpression) -> None:
        self._site, self._known, self._mask = site, known, mask
        self._before = known.before.get(site.statement, {})

    def vanishes(self, node: cst.BaseExpression, depth: int = 8) -> bool:
        """Return whether a value of the branch is zero, and its gradient finite."""
        if depth == 0:
            return False
        if isinstance(node, cst.Name):
            found = self._known.reaching.get(node, frozenset())
            values = [assigned_value(self._site.document, one) for one in found]
            return bool(values) and all(
                value is not None and self.vanishes(value, depth - 1) for value in values
            )
        made = operation_of(self._site, node)
        if made is None or made.in_place or not made.operands:
            return False
        first, *others = made.operands
        match made.name:
            case "where":
                is_zero = len(others) == 2 and integer_literal(others[1]) == 0
                return is_zero and self._is_mask(first)
            case "mul":
                zero = [self.vanishes(one, depth - 1) for one in made.operands]
                numbers = [is_tensor(self._site, one) is False for one in made.operands]
                return any(zero) and all(a or b for a, b in zip(zero, numbers, strict=True))
            case "add" | "sub":
                return all(self.vanishes(one, depth - 1) for one in made.operands)
            case "div":
                return self.vanishes(first, depth - 1) and is_away_from_zero(self._site, others[0])
        return made.name in _KEEP_ZERO and self.vanishes(first, depth - 1)

    def _is_mask(self, chosen: cst.BaseExpression) -> bool:
        """Return whether `chosen` is the mask, perhaps with more dimensions, as it was tested."""
        match chosen:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("unsqueeze"))):
                chosen = inner
        if not without_new_dims(chosen).deep_equals(self._mask):
            return False
        names = [one for one in walk(chosen) if isinstance(one, cst.Name)]
        return all(self._known.reaching.get(one) == self._before.get(one.value) for one in names)

    def is_zero_before(self, node: cst.BaseExpression) -> bool:
        """Return whether `total`, or `losses[0]`, is zero before the branch."""
        if integer_literal(node) == 0:
            return True
        name, index = _element(node)
        document, statement = self._site.document, self._site.statement
        bindings = self._before.get(name, frozenset())
        values = [assigned_value(document, one) for one in bindings]
        block = document.parent(statement)
        if len(values) != 1 or values[0] is None or not isinstance(block, cst.IndentedBlock):
            return False
        made = document.statement(values[0])
        if made not in block.body or not self._makes_zero(values[0]):
            return False
        body = [*block.body]
        between = body[body.index(made) + 1 : body.index(statement)]
        if index is None:
            return name not in names_mutated(*between)
        return self._is_kept(name, index, [*between, statement])

    def _makes_zero(self, value: cst.BaseExpression) -> bool:
        """Return whether an expression is a number or a new tensor that is zero."""
        number = isinstance(value, cst.Integer | cst.Float) and value.evaluated_value == 0
        return number or (
            isinstance(value, cst.Call) and torch_name(self._site, value) in _MAKE_ZERO
        )

    def _is_kept(self, name: str, index: int, lines: Sequence[cst.CSTNode]) -> bool:
        """Return whether statements use `name` by literal indices alone, and store `index` last.

        The last of `lines` is the branch, which may store at `index` once.
        """
        document = self._site.document
        uses = [
            one
            for line in lines
            for one in walk(line)
            if isinstance(one, cst.Name) and one.value == name
        ]
        elements = [document.parent(use) for use in uses]
        found = [_element(one)[1] for one in elements]
        stores = [
            one
            for one, at in zip(elements, found, strict=True)
            if at == index and isinstance(document.parent(one), cst.AssignTarget | cst.AugAssign)
        ]
        inside = all(lines[-1] in document.ancestors(one) for one in stores)
        return all(at is not None and at >= 0 for at in found) and len(stores) < 2 and inside


def _element(node: cst.CSTNode) -> tuple[str, int | None]:
    """Return ("losses", 0) for `losses[0]`, ("total", None) for `total`; "" for anything else."""
    match node:
        case cst.Subscript(
            value=cst.Name(value=name), slice=[cst.SubscriptElement(slice=cst.Index(value=part))]
        ):
            number = integer_literal(part)
            return ("", None) if number is None else (name, number)
        case cst.Name(value=name):
            return name, None
    return "", None
