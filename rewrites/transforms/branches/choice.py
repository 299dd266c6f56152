"""Choose between two values with `torch.where`, safely for gradients."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    Hazard,
    NeutralValue,
    NotApplicable,
    Site,
    assigned_value,
    find_definitions,
    find_hazards,
    has_nan_free_gradient,
    infer,
    may_raise,
    operation_of,
    side_effect_of,
    skipping_flag,
    torch_name,
    walk,
)
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    dotted_name,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches.agreement import Agreement, used_names
from fullgraph.rewrites.transforms.branches.tested import (
    is_count,
    is_negative_test,
    is_nonnegative_test,
    is_positive_test,
    is_zero_test,
    mask_of_any,
    mask_of_none,
    tested_for_finiteness,
    without_new_dims,
)
from fullgraph.rewrites.transforms.branches.vanishing import unconditional_value

_Item = cst.BaseElement | cst.BaseDictElement
_BOUNDED = ("softmax", "sigmoid")


@dataclass
class Choice:
    """Writer of `torch.where` for one condition; `uses` counts the calls it wrote."""

    site: Site
    test: cst.BaseExpression
    agreement: Agreement
    uses: int = 0
    random: bool = False
    """Whether the values may draw random numbers."""
    integer: str = ""
    """Name of an index that becomes an int, always in range."""
    may_misfit: bool = False
    """Whether a value may have another shape than the tensor that it is not copied to."""
    where: str = field(init=False)

    def __post_init__(self) -> None:
        self.where = self.site.document.imported_name("torch.where") or "torch.where"

    def select(self, one: cst.BaseExpression, other: cst.BaseExpression) -> cst.BaseExpression:
        """Return `torch.where(condition, one, other)`; tuples, lists and dicts item by item.

        Raises NotApplicable if the values certainly differ in type, dtype or shape.
        """
        if one.deep_equals(other):
            return one
        for copy, tensor in ((one, other), (other, one)):
            if (copied := copied_tensor(copy)) is not None and copied.deep_equals(tensor):
                return copy  # of the same value, and it may be changed
        if (selected := self._already_selected(one, other)) is not None:
            return selected
        if self._is_same_where_equal(one, other):
            return other
        if parts := self._parts(one, other):
            return replace_nodes(one, parts)
        self.agreement.check_pair(one, other)
        if self._tests_finiteness and self._learns(one) is not self._learns(other):
            raise NotApplicable("a gradient of zero times what is not finite would be NaN")
        return self.select_stored(one, other)

    @functools.cached_property
    def _tests_finiteness(self) -> bool:
        """Whether the condition asks whether something is NaN or infinite."""
        return tested_for_finiteness(self.site, self.test) is not None

    def _learns(self, value: cst.BaseExpression) -> bool:
        seen = self.agreement.known.get(value) or infer(self.site, value)
        if seen is None and not dotted_name(value):
            return any(map(self._learns, used_names([value]).values()))
        return seen is not None and seen.requires_grad

    def _already_selected(
        self, one: cst.BaseExpression, other: cst.BaseExpression
    ) -> cst.BaseExpression | None:
        """Return `torch.where(m, x, y)` if the choice by `m.any()` is between it and `y`, or None.

        Where `m` is true nowhere, it is `y` itself. So is `y.masked_fill(m, x)`, and so is
        `torch.nan_to_num(y)` of a softmax `y` without NaN.
        """
        test: cst.CSTNode = self.test
        while m.matches(test, m.UnaryOperation(operator=m.BitInvert())):
            test = cst.ensure_type(test, cst.UnaryOperation).expression
            one, other = other, one
        mask = mask_of_any(self.site, test)
        if mask is None:
            return None
        match one:
            case cst.Call(args=[cst.Arg(value=chosen), cst.Arg(), cst.Arg(value=kept)]) if (
                torch_name(self.site, one) == "where" and kept.deep_equals(other)
            ):
                return one if without_new_dims(chosen).deep_equals(mask) else None
        made, tested = operation_of(self.site, one), operation_of(self.site, mask)
        if made is not None and made.name == "masked_fill" and not made.in_place:
            filled, chosen, *_ = made.operands
            if filled.deep_equals(other) and without_new_dims(chosen).deep_equals(mask):
                self.agreement.check_pair(one, other)  # a larger mask gives a larger tensor
                return one
            return None
        cleans = made is not None and made.name == "nan_to_num" and not made.in_place
        if made is None or not cleans or tested is None or tested.name != "isnan":
            return None
        same = made.operands[0].deep_equals(other) and tested.operands[0].deep_equals(other)
        return one if same and self._is_never_inf(other) else None

    def _is_same_where_equal(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Return whether the condition is `(a == b).all()`, and `other` is `one` with `b`."""
        match self.test:
            case cst.Call(
                func=cst.Attribute(
                    value=cst.Comparison(
                        left=cst.Name() as a,
                        comparisons=[
                            cst.ComparisonTarget(operator=cst.Equal(), comparator=cst.Name() as b)
                        ],
                    ),
                    attr=cst.Name("all"),
                )
            ):
                pass
            case _:
                return False
        shapes = [seen.shapes if (seen := infer(self.site, one)) else None for one in (a, b)]
        if shapes[0] is None or shapes[0] != shapes[1]:
            return False  # it may hold for another shape
        for old, new in ((a, b), (b, a)):
            uses = [node for node in walk(one) if old.deep_equals(node) and self._is_read(node)]
            if uses and replace_nodes(one, dict.fromkeys(uses, new)).deep_equals(other):
                clause = f"nothing tells `{a.value}` and `{b.value}` apart where they are equal"
                self.agreement.assumes[clause] = None
                return True
        return False

    def _is_read(self, name: cst.CSTNode) -> bool:
        """Return whether a name is that of a variable, and not of an attribute or argument."""
        parent = self.site.document.parents.get(name)
        is_label = isinstance(parent, cst.Attribute | cst.Arg) and parent.value is not name
        return parent is not None and not is_label

    def _is_never_inf(self, name: cst.BaseExpression) -> bool:
        """Return whether the only value of a name before the branch is a softmax or sigmoid."""
        known = find_definitions(self.site.document, self.site.node)
        if known is None or not isinstance(name, cst.Name):
            return False
        found = known.before.get(self.site.statement, {}).get(name.value, frozenset())
        values = [assigned_value(self.site.document, one) for one in found]
        made = [operation_of(self.site, one) if one is not None else None for one in values]
        return bool(made) and all(one is not None and one.name in _BOUNDED for one in made)

    def select_stored(
        self, one: cst.BaseExpression, other: cst.BaseExpression
    ) -> cst.BaseExpression:
        """Return `torch.where(condition, one, other)` without checking that the values agree.

        For values that are stored in a tensor, which keeps its dtype and shape.
        """
        if (unconditional := self._without_choice(one, other)) is not None:
            return unconditional
        left, right = self.make_finite(one, True), self.make_finite(other, False)
        self.uses += 1
        return build_expression("{w}({t}, {a}, {b})", w=self.where, t=self.test, a=left, b=right)

    def _without_choice(
        self, one: cst.BaseExpression, other: cst.BaseExpression
    ) -> cst.BaseExpression | None:
        """Return the value that is the other one where the mask of the condition selects nothing.

        None if neither is.
        """
        for value, old, masks in ((one, other, mask_of_any), (other, one, mask_of_none)):
            mask = masks(self.site, self.test)
            if mask is None:
                continue
            assumes = self.agreement.assumes
            if (made := unconditional_value(self.site, mask, value, old, assumes)) is not None:
                return made
        return None

    def as_bool(self, when: bool) -> cst.BaseExpression:
        """Return the condition, or its opposite if not `when`, as a boolean tensor."""
        forms = (
            ("torch.ne({t}, 0)", "{t}") if when else ("torch.eq({t}, 0)", "torch.logical_not({t})")
        )
        return build_expression(forms[self._is_bool(self.test)], t=self.test)

    def make_finite(self, value: cst.CSTNode, when: bool) -> cst.BaseExpression:
        """Return `value`, edited so that no gradient becomes NaN where it is not selected.

        `value` is selected where the condition equals `when`.
        """
        new = self._without_hazards(value, when)
        assert isinstance(new, cst.BaseExpression)
        return new

    def make_finite_edits(self, node: cst.CSTNode, when: bool) -> dict[cst.CSTNode, Replacement]:
        """Return the edits that `make_finite` makes inside `node`.

        `node` is selected where the condition equals `when`.
        """
        found = find_hazards(self.site, node)
        edits: dict[cst.CSTNode, Replacement] = {}
        inner = [child for one in found for child in walk(one.operand)]
        for hazard in found:
            if any(hazard.operation is node for node in inner):
                continue
            if hazard.neutral is None:
                edits |= self._select_all(hazard, when)
            elif isinstance(hazard.operation, cst.Subscript):
                edits[hazard.operation] = self._guard_index(hazard, when)
            else:
                edits[hazard.operand] = self._guard_operand(hazard, when)
        return edits

    def _select_all(self, hazard: Hazard, when: bool) -> dict[cst.CSTNode, Replacement]:
        """Return the edits that select all elements where the mask of the condition selects none.

        The mean of no element is NaN, and so is its gradient. `mask | ~mask.any()` is never empty.
        """
        mask = (mask_of_any if when else mask_of_none)(self.site, self.test)
        document, text = self.site.document, self.site.document.code(hazard.operation)
        known = find_definitions(document, self.site.node)
        uses = [one for one in walk(hazard.operation) if mask is not None and mask.deep_equals(one)]
        names = [one for one in uses if isinstance(one, cst.Name) and self._is_bool(one)]
        if mask is None or known is None or not uses or names != uses:
            raise NotApplicable(f"the gradient of `{text}` may be NaN where it is not used")
        name = names[0].value
        tested = known.before.get(self.site.statement, {}).get(name)
        if any(known.reaching.get(one) != tested for one in names):
            raise NotApplicable(f"`{name}` changes after the condition")
        self.agreement.assumes[f"`{text}` is finite also where all elements are selected"] = None
        forms = {True: f"{name} | ~{name}.any()", False: f"({name} | ~{name}.any())"}
        alone = (cst.Arg, cst.Index)
        return {
            one: build_expression(forms[isinstance(document.parent(one), alone)]) for one in names
        }

    def _is_bool(self, node: cst.BaseExpression) -> bool:
        seen = infer(self.site, node)
        return seen is not None and seen.dtypes == {"bool"}

    def require_pure(self, *nodes: cst.CSTNode) -> None:
        """Raise NotApplicable if evaluating nodes unconditionally has side effects or may raise."""
        if reason := side_effect_of(self.site, *nodes, random=self.random):
            raise NotApplicable(f"both branches would be evaluated, and {reason}")
        if text := may_raise(self.site, *nodes, indices=False):
            known = [one for one in nodes if one in self.site.document.ranges]
            flags = [flag for one in known if (flag := skipping_flag(self.site, one)) is not None]
            if not flags:
                raise NotApplicable(f"both branches would be evaluated, and `{text}` may raise")
            clause = f"what `{self.site.document.code(flags[0])}` kept from running raises nothing"
            self.agreement.assumes[clause] = None
        if text := may_raise(self.site, *nodes):
            self.agreement.assumes[f"the indices of `{text}` are always in range"] = None
        if self._tests_finiteness and not has_nan_free_gradient(self.site, *nodes):
            raise NotApplicable("a gradient of zero times what is not finite would be NaN")

    def _without_hazards(self, value: cst.CSTNode, when: bool) -> cst.CSTNode:
        """Return a branch's value with each hazardous operand guarded by `_guard_operand`."""
        edits = self.make_finite_edits(value, when)
        if value in edits:
            new = edits[value]
            assert isinstance(new, cst.CSTNode)
            return new
        return replace_nodes(value, edits) if edits else value

    def _guard_operand(self, hazard: Hazard, when: bool) -> cst.BaseExpression:
        """Replace a hazardous operand by a neutral number where the other branch is selected."""
        assert hazard.neutral is not None
        if self.integer and dotted_name(hazard.operand) == self.integer:
            return hazard.operand
        operand = self._without_hazards(hazard.operand, when)
        assert isinstance(operand, cst.BaseExpression)
        if hazard.neutral == NeutralValue.ONE and self._is_zero_count(hazard.operand, when):
            return build_expression("{x}.clamp(min=1)", x=operand)
        self.uses += 1
        order = "{x}, {n}" if when else "{n}, {x}"
        return build_expression(
            f"{{where}}({{test}}, {order})",
            where=self.where,
            test=self.test,
            x=operand,
            n=hazard.neutral.value,
        )

    def _guard_index(self, hazard: Hazard, when: bool) -> cst.BaseExpression:
        """Write `x[n]` as `x[torch.where(t, n, 0)[None]].squeeze(0)`: a 0-d index is read."""
        table = cst.ensure_type(hazard.operation, cst.Subscript).value
        seen = infer(self.site, hazard.operand)
        if self._is_negative_elsewhere(hazard.operand, when):
            index = build_expression("{i}.clamp(min=0)", i=hazard.operand)
        else:
            index = self._guard_operand(hazard, when)
        reads = seen is not None and seen.dims == {0} and index is not hazard.operand
        template = "{x}[{i}[None]].squeeze(0)" if reads else "{x}[{i}]"
        return build_expression(template, x=self.make_finite(table, when), i=index)

    def _is_negative_elsewhere(self, index: cst.BaseExpression, when: bool) -> bool:
        """Return whether an index is negative where it is not selected, and only there.

        It is selected where the condition equals `when`.
        """
        match self.test:
            case cst.Comparison(left=left, comparisons=[one]) if left.deep_equals(index):
                return is_nonnegative_test(one) if when else is_negative_test(one)
        return False

    def _is_zero_count(self, operand: cst.BaseExpression, when: bool) -> bool:
        """Return whether `operand` counts true elements, and is 0 where it is not selected.

        It is selected where the condition equals `when`.
        """
        match self.test:
            case cst.Comparison(left=left, comparisons=[one]) if left.deep_equals(operand):
                is_zero = is_positive_test(one) if when else is_zero_test(one)
                return is_zero and is_count(self.site, operand)
        return False

    def _parts(
        self, one: cst.BaseExpression, other: cst.BaseExpression
    ) -> dict[cst.CSTNode, Replacement]:
        """Return the selection for each item of `one`, if both are displays of the same form.

        Empty for values that are not tuples, lists or dicts. Raises NotApplicable for displays of
        different lengths or keys.
        """
        pairs: list[tuple[_Item, _Item]]
        if isinstance(one, cst.Tuple | cst.List) and isinstance(other, type(one)):
            if len(one.elements) != len(other.elements):
                raise NotApplicable("its two results have different lengths")
            pairs = list(zip(one.elements, other.elements, strict=True))
        elif isinstance(one, cst.Dict) and isinstance(other, cst.Dict):
            keys = [_key_codes(one), _key_codes(other)]
            if keys[0] != keys[1] or None in keys[0]:
                raise NotApplicable("its two results have different keys")
            pairs = list(zip(one.elements, other.elements, strict=True))
        else:
            return {}
        return {a.value: self.select(a.value, b.value) for a, b in pairs}


def copied_tensor(value: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `x` for `x.clone()`, or None."""
    match value:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("clone")), args=[]):
            return tensor
    return None


def _key_codes(node: cst.Dict) -> list[str | None]:
    """Return the source of a dict's keys; None for `**` items."""
    code = cst.Module([]).code_for_node
    return [code(e.key) if isinstance(e, cst.DictElement) else None for e in node.elements]
