"""Propagation of a tensor to the uses of the number it replaces."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.rewrites.analysis import NotApplicable, find_all, find_state_uses
from fullgraph.rewrites.transforms.random import draw_of
from fullgraph.rewrites.transforms.scalars import calls, containers, indices
from fullgraph.rewrites.transforms.scalars.containers import KEPT, RETURNED
from fullgraph.rewrites.transforms.scalars.scalar import LOOPS, Number, arithmetic_result
from fullgraph.rewrites.transforms.scalars.signs import Sign, is_nonzero, sign_of
from fullgraph.rewrites.transforms.scalars.use_edits import PRECISE, UseEdits

_DIVIDES = "nothing is divided by zero, which would raise for numbers"
_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply | cst.Divide | cst.FloorDivide | cst.Modulo
_BITS = cst.BitAnd | cst.BitOr | cst.BitXor
_ORDER = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual


class Uses(UseEdits):
    """Edits of all uses of a number that becomes a tensor."""

    def propagate(self, node: cst.BaseExpression, number: Number) -> None:
        """Replace the number at `node` by a tensor, and edit its uses. Raises NotApplicable."""
        parent = self.document.parent(node)
        self.tensors.add(node)
        match parent:
            case cst.BinaryOperation():
                self._propagate_to_operation(parent, node, number)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus()):
                number = self.widen(node, number)
                self.propagate(parent, replace(number, owns_memory=True))
            case cst.UnaryOperation():
                raise NotApplicable("it decides which branch is taken")
            case cst.Comparison() | cst.ComparisonTarget():
                self._propagate_to_comparison(node, number)
            case cst.Arg(star="") if (
                draw := draw_of(self.site, self.document.parent(parent))
            ) and not number.may_be_plain:
                self.draws.append(draw)
            case cst.Arg(star=""):
                calls.propagate_to_argument(self, parent, number)
            case cst.Assign():
                self._propagate_to_assignment(parent, node, number)
            case cst.AnnAssign(target=cst.Name() as name, value=value) if value is node:
                self.clone_if_shared(node, number)
                self.propagate_to_name(name, replace(number, owns_memory=True))
            case cst.AugAssign():
                self._propagate_to_augmented(parent, node, number)
            case cst.Return():
                self._propagate_to_return(parent, node, number)
            case cst.Element() | cst.DictElement() | cst.ListComp() | cst.GeneratorExp():
                containers.allow_tensor_element(self, node, number)
            case cst.IfExp() if parent.test is not node:
                self.propagate(parent, replace(number, may_be_plain=True))
            case cst.If() | cst.IfExp() if self.may_decide:
                self.decides = True  # a tensor decides the same
            case cst.If() | cst.IfExp() | cst.While() | cst.BooleanOperation() | cst.Assert():
                raise NotApplicable("it decides which branch is taken")
            case cst.FormattedStringExpression():
                raise NotApplicable("it becomes text, which is made outside of the graph")
            case cst.Index():
                indices.rewrite_index(self, node, number)
            case cst.Slice():
                indices.rewrite_slice_bounds(self, node, number)
            case cst.For():
                raise NotApplicable(LOOPS)
            case _:
                raise NotApplicable("a tensor cannot stand where the number is used")

    def _propagate_to_operation(
        self, parent: cst.BinaryOperation, node: cst.BaseExpression, number: Number
    ) -> None:
        """Propagate the tensor through arithmetic. Raises NotApplicable."""
        first = parent.left is node
        other = parent.right if first else parent.left
        operator = parent.operator
        if not isinstance(operator, _ARITHMETIC | cst.Power | _BITS):
            raise NotApplicable("a tensor cannot take part in this operation")
        seen, kind = self.observed(other), self.kind(other)
        divided = isinstance(operator, cst.Divide)
        if seen is not None and seen.is_tensor:
            if isinstance(operator, cst.Subtract) and number.dtype is torch.bool:
                number = self.cast(node, number, torch.int64)
            self.promote_with(node, number, seen, divided=divided)
        elif kind is not None:
            number = self.widen(node, number)
            self._assume_no_exception(parent, operator, number, kind)
            self.propagate(parent, arithmetic_result(number, kind, divided))
        elif seen is None:
            raise NotApplicable(f"it is not known what `{self.document.code(other)}` is")
        else:
            raise NotApplicable(f"`{self.document.code(other)}` is no tensor and no number")

    def _assume_no_exception(
        self, parent: cst.BinaryOperation, operator: cst.BaseBinaryOp, number: Number, kind: type
    ) -> None:
        """Assume that no operand makes Python raise, as `/ 0` does, or return another type."""
        if isinstance(operator, cst.Divide | cst.FloorDivide | cst.Modulo):
            if not is_nonzero(self.site, parent.right):
                self.assume(_DIVIDES)
        elif isinstance(operator, cst.Power):
            base, exponent = sign_of(self.site, parent.left), sign_of(self.site, parent.right)
            if number.kind is not float and kind is not float and not exponent:
                self.assume("the exponent is not negative")
            elif base < Sign.POSITIVE and not isinstance(parent.right, cst.Integer):
                self.assume("the base is greater than zero")

    def _propagate_to_comparison(self, node: cst.BaseExpression, number: Number) -> None:
        """Propagate the tensor through a comparison. Raises NotApplicable."""
        parent = self.document.parent(node)
        comparison = parent if isinstance(parent, cst.Comparison) else self.document.parent(parent)
        assert isinstance(comparison, cst.Comparison)
        (target, *more) = comparison.comparisons
        if more:
            raise NotApplicable("it is compared with two numbers at once")
        if not isinstance(target.operator, _ORDER | cst.Equal | cst.NotEqual):
            raise NotApplicable("it is looked for in a container")
        other = target.comparator if comparison.left is node else comparison.left
        seen, kind = self.observed(other), self.kind(other)
        if seen is not None and seen.is_tensor:
            self.promote_with(node, number, seen)
        elif kind is None:
            raise NotApplicable(f"`{self.document.code(other)}` is no tensor and no number")
        else:
            self.propagate(comparison, Number(bool, torch.bool, True, number.may_be_plain))

    def _propagate_to_assignment(
        self, parent: cst.Assign, node: cst.BaseExpression, number: Number
    ) -> None:
        """Propagate the tensor to the targets of an assignment. Raises NotApplicable."""
        for one in parent.targets:
            match one.target:
                case cst.Name() as name:
                    kept = self.clone_if_shared(node, number, is_local=True)
                    self.propagate_to_name(name, kept)
                case cst.Subscript(value=base) as subscript if self.is_tensor(base):
                    self._propagate_to_element(subscript, node, number)
                case cst.Attribute() | cst.Subscript() as target:
                    self.clone_if_shared(node, number)
                    self._keep(target, number)
                case _:
                    raise NotApplicable("it is taken apart")

    def _propagate_to_element(
        self, subscript: cst.Subscript, node: cst.BaseExpression, number: Number
    ) -> None:
        """Convert a tensor that `x[mask] = n` assigns, as the number was. Raises NotApplicable."""
        if not indices.has_tensor_index(self, subscript):
            return
        dtypes = self.dtypes(subscript.value)
        if number.is_computed and "float64" in dtypes and number.dtype is not torch.float64:
            self.assume(PRECISE)
        if not number.may_be_plain:
            self.convert_assigned(subscript, node)
        elif dtypes != {str(number.dtype).removeprefix("torch.")}:
            raise NotApplicable("a plain number may stand there too")

    def _propagate_to_augmented(
        self, parent: cst.AugAssign, node: cst.BaseExpression, number: Number
    ) -> None:
        """Propagate the tensor through `+=` or a similar operator. Raises NotApplicable."""
        target, value = parent.target, parent.value
        other = value if target is node else target
        seen, kind = self.observed(other), self.kind(other)
        if seen is not None and seen.is_tensor:
            if target is node:
                raise NotApplicable("it is added to in place")
            self.promote_with(node, number, seen)
        elif kind is None and value is node and not isinstance(other, cst.Name):
            self._keep(target, replace(number, is_computed=True))
        elif kind is None or not isinstance(parent.operator, _AUGMENTED):
            raise NotApplicable(f"it is not known what `{self.document.code(other)}` is")
        elif isinstance(target, cst.Name):
            divided = isinstance(parent.operator, cst.DivideAssign)
            if not isinstance(parent.operator, _SUMS) and not is_nonzero(self.site, value):
                self.assume(_DIVIDES)
            if value is node:
                number = self.widen(node, number)
                self.clone_if_shared(node, number)
            new = arithmetic_result(number, kind, divided)
            if target is node and new.dtype is not number.dtype:
                raise NotApplicable("in place its dtype cannot change")
            self.propagate_to_name(target, new)
        elif not (isinstance(target, cst.Subscript) and self.is_tensor(target.value)):
            self._keep(target, replace(number, is_computed=True))

    def _keep(self, target: cst.BaseExpression, number: Number) -> None:
        """Note that `target`, an attribute or an item, holds the tensor, or what it was added to.

        A number of Python is of float64, so an attribute of `self` that accumulates numbers needs a
        tensor of float64, unless that would promote tensors without dimensions that it meets.
        """
        self.assume_reader_accepts_tensor(KEPT)
        state = find_state_uses(self.document, target)
        if not number.is_computed or state is None or not state.name.startswith("self."):
            return
        beside = [self.document.parent(one) for one in state.reads]
        others = [
            part
            for one in beside
            if isinstance(one, cst.BinaryOperation)
            for part in (one.left, one.right)
        ]
        seen = [one for part in others if (one := self.observed(part)) is not None]
        self.accumulates |= not any(one.is_tensor and () in one.shapes for one in seen)

    def _propagate_to_return(
        self, parent: cst.Return, node: cst.BaseExpression, number: Number
    ) -> None:
        """Propagate a returned tensor to the callers in this file. Raises NotApplicable."""
        self.clone_if_shared(node, number)
        function = self.document.function(parent)
        calls = self.callers(function) if isinstance(function, cst.FunctionDef) else []
        if not calls:
            self.assume_reader_accepts_tensor(RETURNED)
            return
        assert isinstance(function, cst.FunctionDef)
        others = find_all(function.body, m.Return())
        for call in calls:
            self.propagate(call, replace(number, owns_memory=True, may_be_plain=len(others) > 1))
        if not function.name.value.startswith("_"):
            self.assume(f"all callers of `{function.name.value}` accept a tensor")


_SUMS = cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign
_AUGMENTED = _SUMS | cst.DivideAssign | cst.FloorDivideAssign | cst.ModuloAssign
