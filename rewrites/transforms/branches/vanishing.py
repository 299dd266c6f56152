"""Values that are zero where a mask selects nothing: no `torch.where` has to make them so."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    Definitions,
    Operation,
    Site,
    assigned_value,
    assigned_values,
    find_definitions,
    find_hazards,
    is_away_from_zero,
    is_tensor,
    may_change,
    names_mutated,
    names_read,
    operation_of,
    torch_name,
    walk,
    word_set,
)
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    integer_literal,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches.tested import counted_mask, without_new_dims

_KEEP_ZERO = word_set(
    """
    abs clone contiguous detach double expand flatten float half neg permute relu reshape square
    squeeze sum to transpose unsqueeze view
    """
)
_DISTANCES = word_set("huber_loss l1_loss mse_loss smooth_l1_loss")
_LOSSES = _DISTANCES | {"binary_cross_entropy_with_logits"}
_CONSTANT = word_set("full_like ones_like zeros_like")
_MAKE_ZERO = word_set("new_zeros zeros zeros_like")


def unconditional_value(
    site: Site,
    mask: cst.BaseExpression,
    value: cst.BaseExpression,
    old: cst.BaseExpression,
    assumes: dict[str, None],
) -> cst.BaseExpression | None:
    """Return a value of a branch that is `old` where `mask` selects nothing; None if it is not.

    `old` is what there is without the branch, `mask` what the condition asks about. That is
    `torch.where(mask, x, 0).sum()` for `old` that is zero, and `old` plus that. A count of the mask
    that it is divided by becomes `mask.sum().clamp(min=1)`. Assumptions are added to `assumes`.
    """
    known = find_definitions(site.document, site.node)
    if known is None:
        return None
    zeros = _Zeros(site, known, mask)
    made = operation_of(site, value)
    if made is not None and made.name == "add" and not made.in_place and len(made.operands) == 2:
        pairs = (made.operands, made.operands[::-1])
        if any(a.deep_equals(old) and zeros.vanishes(b) for a, b in pairs):
            return zeros.clamped(value, assumes)
    if not (zeros.is_zero_before(old) or _Zeros(site, known, mask).vanishes(old)):
        return None
    return zeros.clamped(value, assumes) if zeros.vanishes(value) else None


class _Zeros:
    """What is zero at the site's branch, and in it where a mask selects nothing."""

    def __init__(self, site: Site, known: Definitions, mask: cst.BaseExpression) -> None:
        self._site, self._known, self._mask = site, known, mask
        self._before = known.before.get(site.statement, {})
        function = site.document.function(site.node)
        self._changed = names_mutated(function.body) if function is not None else ()
        self._counts: list[cst.BaseExpression] = []
        """Counts of the mask that something is divided by."""
        self._numbers: list[cst.BaseExpression] = []
        """Numbers of Python that are factors or divisors."""

    def clamped(self, value: cst.BaseExpression, assumes: dict[str, None]) -> cst.BaseExpression:
        """Return a value that vanishes, whose divisors are at least one; add to `assumes`."""
        for one in self._numbers:
            assumes[f"`{self._site.document.code(one)}` is a finite number other than zero"] = None
        edits: dict[cst.CSTNode, Replacement] = {
            one: build_expression("{n}.clamp(min=1)", n=one) for one in self._counts
        }
        return replace_nodes(value, edits) if edits else value

    def vanishes(self, node: cst.BaseExpression, depth: int = 8) -> bool:
        """Return whether a value of the branch is zero, and its gradient finite."""
        if depth == 0:
            return False
        if isinstance(node, cst.Name):
            if node.value in self._changed:
                return False
            values = assigned_values(self._site.document, node)
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
                hazards = find_hazards(self._site, *others[:1])
                safe = all(self._is_padded(one.operand) for one in hazards)
                return is_zero and safe and self._is_mask(first)
            case "mul":
                zero = [self.vanishes(one, depth - 1) for one in made.operands]
                numbers = [self._is_factor(one) for one in made.operands]
                return any(zero) and all(a or b for a, b in zip(zero, numbers, strict=True))
            case "add" | "sub":
                return all(self.vanishes(one, depth - 1) for one in made.operands)
            case "div":
                return self.vanishes(first, depth - 1) and self._may_divide(others[0])
            case _ if made.name in _LOSSES:
                return self._is_sum_of_none(made, depth)
        return made.name in _KEEP_ZERO and self.vanishes(first, depth - 1)

    def _is_padded(self, operand: cst.BaseExpression) -> bool:
        """Return whether an operand is a number where the mask selects nothing."""
        made = operation_of(self._site, operand)
        if made is None or made.name != "where" or len(made.operands) < 3:
            return False
        return integer_literal(made.operands[2]) is not None and self._is_mask(made.operands[0])

    def _may_divide(self, divisor: cst.BaseExpression) -> bool:
        """Return whether a divisor is not zero, or is so once a count of the mask is clamped."""
        if is_tensor(self._site, divisor) is False:
            return self._is_factor(divisor)
        if is_away_from_zero(self._site, divisor):
            return True
        if isinstance(divisor, cst.BinaryOperation) and isinstance(divisor.operator, cst.Multiply):
            return self._may_divide(divisor.left) and self._may_divide(divisor.right)
        counted = counted_mask(self._site, divisor)
        if counted is None or not counted.deep_equals(self._mask):
            return False
        self._counts.append(divisor)
        return True

    def _is_factor(self, node: cst.BaseExpression) -> bool:
        """Return whether a factor or divisor is a number; the size of a batch may be zero."""
        if is_tensor(self._site, node) is not False:
            return False
        code = self._site.document.code(node)
        if re.search(r"len\(|size\(0\)|shape\[0\]", code):
            return False
        if not isinstance(node, cst.Integer | cst.Float) or not 0 < node.evaluated_value < 1e300:
            self._numbers.append(node)
        return True

    def _is_sum_of_none(self, made: Operation, depth: int) -> bool:
        """Return whether a loss is a sum, in which every element has the weight or the value 0."""
        reduction, weight = made.keywords.get("reduction"), made.keywords.get("weight")
        if not m.matches(reduction or cst.Name("None"), m.SimpleString('"sum"')):
            return False
        first, second = made.operands[:2] if len(made.operands) > 1 else (made.operands[0],) * 2
        if weight is not None:  # of finite elements
            finite = self.vanishes(second, depth - 1) or (
                isinstance(second, cst.Call) and torch_name(self._site, second) in _CONSTANT
            )
            alone = finite and "pos_weight" not in made.keywords
            return alone and self._is_mask(weight) and self.vanishes(first, depth - 1)
        distance = made.name in _DISTANCES and len(made.operands) == 2
        return distance and all(self.vanishes(one, depth - 1) for one in (first, second))

    def _is_mask(self, chosen: cst.BaseExpression) -> bool:
        """Return whether `chosen` is the mask, perhaps with more dimensions, as it was tested."""
        match chosen:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("unsqueeze"))):
                chosen = inner
        if not without_new_dims(chosen).deep_equals(self._mask):
            return False
        names = [one for one in walk(chosen) if isinstance(one, cst.Name)]
        return "self" not in names_read(chosen) and all(
            one.value not in self._changed
            and self._known.reaching.get(one) == self._before.get(one.value)
            for one in names
        )

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
            return not may_change(self._site, [name], between)
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
        kept = [document.parent(document.parent(one)) for one in elements]
        others = [
            part
            for line in lines
            for part in walk(line)
            if isinstance(part, cst.BaseSmallStatement) and part not in kept
        ]
        values = [one.value for one in kept if isinstance(one, cst.Assign | cst.AugAssign)]
        if may_change(self._site, [name], [*others, *values]):
            return False
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
