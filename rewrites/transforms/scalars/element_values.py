"""Expressions in a loop over indices that are as well computed for all indices at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    COMPARED,
    NotApplicable,
    Site,
    infer,
    names_read,
    side_effect_of,
)
from fullgraph.rewrites.source import build_expression, dotted_name

_OPERATORS = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
_NUMBERS = ("int", "float", "bool")


@dataclass
class ElementValues:
    """Checks of the expressions in a loop, so that a tensor of indices may stand for its index.

    Each method raises NotApplicable if it may not.
    """

    site: Site
    names: Sequence[str]
    """The loop's variables: perhaps the number of the iteration, and the index."""
    indices: cst.BaseExpression
    """The tensor of indices."""
    is_set: bool
    """Whether a number that is in it twice counts once."""
    target: cst.Subscript
    """The only place that the loop assigns."""
    assumes: dict[str, None] = field(default_factory=dict)
    reads_others: bool = False
    """Whether elements of other places are read."""
    kinds: set[str] = field(default_factory=set)
    """The dtypes of the elements and types of the numbers from which new elements come."""
    computes: bool = False
    """Whether new elements are sums, products or quotients."""
    branches: int = 0
    """How many conditions on elements are around what is computed."""

    def code(self, node: cst.CSTNode) -> str:
        return self.site.document.code(node).strip().partition("\n")[0]

    def depends(self, node: cst.CSTNode) -> bool:
        """Return whether an expression has a variable of the loop in it."""
        return not names_read(node).isdisjoint(self.names)

    def has_one_dtype(self) -> bool:
        """Return whether all that is assigned has the dtype of the assigned tensor."""
        dtypes = {one for one in self.kinds if one not in _NUMBERS}
        numbers = self.kinds - dtypes
        seen = infer(self.site, self.target.value)
        (dtype,) = seen.dtypes if seen is not None and len(seen.dtypes) == 1 else [""]
        if not dtypes <= {dtype}:
            return False
        if dtype.startswith(("float", "bfloat")):
            return True
        if dtype == "bool":
            return numbers <= {"bool"} and not self.computes
        return dtype.startswith("int") and numbers <= {"int"}

    def condition(self, test: cst.BaseExpression) -> cst.BaseExpression:
        """Return a condition on an element as a mask."""
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return build_expression("~{inner}", inner=self.condition(inner))
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                return build_expression(
                    f"{{left}} {'&' if isinstance(operator, cst.And) else '|'} {{right}}",
                    left=self.condition(left),
                    right=self.condition(right),
                )
            case cst.Comparison(left=left, comparisons=[one]) if self.depends(test) and isinstance(
                one.operator, tuple(COMPARED)
            ):
                kinds = {*self.kinds}
                for side in (left, one.comparator):
                    self._check_side(side)
                self.kinds = kinds  # what is compared is not assigned
                return test
        raise NotApplicable(f"`{self.code(test)}` does not compare elements")

    def _check_side(self, node: cst.BaseExpression) -> None:
        """Check one side of a comparison, perhaps the index itself."""
        if isinstance(node, cst.Name) and node.value == self.names[-1]:
            indices, table = map(self.code, (self.indices, self.target.value))
            self.assumes[f"every number in `{indices}` is an index of `{table}`"] = None
        else:
            self.check_value(node)

    def check_value(self, node: cst.BaseExpression) -> None:
        """Check that a value is a number, or has an element for each index in the tensor."""
        if not self.depends(node):
            seen = infer(self.site, node)
            if seen is None or not seen.is_number or side_effect_of(self.site, node):
                raise NotApplicable(f"`{self.code(node)}` is not known to be a number")
            if dotted_name(self.target.value) in names_read(node):
                raise NotApplicable(f"`{self.code(node)}` may be assigned by another iteration")
            self.kinds.update(seen.types)
            return
        match node:
            case cst.Subscript():
                self._check_element(node)
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                self.computes = True
                self.check_value(inner)
            case cst.BinaryOperation(left=left, operator=operator, right=right) if isinstance(
                operator, _OPERATORS
            ):
                self.computes = True
                divides = isinstance(operator, cst.Divide)
                if divides:
                    self.kinds.add("float")
                both = self.depends(left) and self.depends(right)
                is_sum = isinstance(operator, cst.Add | cst.Subtract)
                if (divides and self.depends(right)) or (both and self.branches and not is_sum):
                    raise NotApplicable(f"the gradient of `{self.code(node)}` may be NaN")
                self.check_value(left)
                self.check_value(right)
            case _:
                raise NotApplicable(f"`{self.code(node)}` needs the number itself")

    def _check_element(self, place: cst.Subscript) -> None:
        """Check a place that is read; of the assigned tensor, only the place that is assigned."""
        table, other = self.code(self.target.value), self.code(place.value)
        is_target = self.target.deep_equals(place)
        if len(self.names) == 1:
            if is_target:
                places = "no two numbers in `{}` are one place, as -1 and the last are"
                numbers = places if self.is_set else "no number is twice in `{}`"
                self.assumes[numbers.format(self.code(self.indices))] = None
            if self.is_set or not is_target:
                twice = "no gradient is asked for where a number is twice in `{}`"
                self.assumes[twice.format(self.code(self.indices))] = None
        if table == other and not is_target:
            raise NotApplicable(f"`{self.code(place)}` may be assigned by another iteration")
        if not is_target:
            self.reads_others = True
            self.assumes[f"`{table}` and `{other}` share no memory"] = None
        self.check_place(place)
        if self.has_parts(place) and not is_target:
            raise NotApplicable(f"`{self.code(place)}` is no single element")
        seen = infer(self.site, place.value)
        self.kinds.update(seen.dtypes if seen is not None else ())

    def check_place(self, place: cst.Subscript) -> None:
        """Check that all indices of `x[i, k]` are numbers and variables of the loop."""
        for one in place.slice:
            index = one.slice.value if isinstance(one.slice, cst.Index) else one.slice
            if isinstance(index, cst.Slice | cst.Ellipsis):
                fits = not self.depends(index)
            elif self.depends(index):
                fits = isinstance(index, cst.Name)
            else:
                number = infer(self.site, index)
                fits = number is not None and number.types == ("int",)
            if not fits or side_effect_of(self.site, index):
                raise NotApplicable(f"`{self.code(place)}` has another index than numbers")

    def has_parts(self, place: cst.Subscript) -> bool:
        """Return whether a place has dimensions, as `x[:, k]` has."""
        return self.dims(place) > len(self.plain_indices(place))

    def dims(self, place: cst.Subscript) -> int:
        """Return the number of dimensions of the tensor that `place` is of."""
        seen = infer(self.site, place.value)
        if (
            not dotted_name(place.value)
            or seen is None
            or not seen.is_tensor
            or len(seen.dims) != 1
        ):
            raise NotApplicable(f"`{self.code(place.value)}` is not known to be a tensor")
        return next(iter(seen.dims))

    def plain_indices(self, place: cst.Subscript) -> list[str]:
        """Return the code of the indices of a place that are no slices and no `...`."""
        plain = m.SubscriptElement(m.Index(~m.Ellipsis()))
        return [self.code(one.slice) for one in place.slice if m.matches(one, plain)]
