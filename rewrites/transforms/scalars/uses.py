"""Where a number goes: whether a tensor can stand at every place, and what the text becomes."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.transforms.scalars import calls, containers
from fullgraph.rewrites.transforms.scalars import indices as places
from fullgraph.rewrites.transforms.scalars.containers import KEPT, RETURNED
from fullgraph.rewrites.transforms.scalars.scalar import Number, combined
from fullgraph.rewrites.transforms.scalars.signs import Sign, nonzero, sign
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

_DIVIDES = "nothing is divided by zero, which would raise for numbers"
_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply | cst.Divide | cst.FloorDivide | cst.Modulo
_BITS = cst.BitAnd | cst.BitOr | cst.BitXor
_ORDER = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual


class Uses(UseEdits):
    """Edits that let a tensor stand at every use of a number."""

    def absorb(self, node: cst.BaseExpression, number: Number) -> None:
        """Let a tensor stand for the number at `node`. Raises NotApplicable."""
        parent = self.document.parent(node)
        match parent:
            case cst.BinaryOperation():
                self._operation(parent, node, number)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus()):
                number = self.widened(node, number)
                self.absorb(parent, replace(number, fresh=True))
            case cst.UnaryOperation():
                raise NotApplicable("it decides which way the code goes")
            case cst.Comparison() | cst.ComparisonTarget():
                self._comparison(node, number)
            case cst.Arg(star=""):
                calls.take(self, parent, number)
            case cst.Assign():
                self._assigned(parent, node, number)
            case cst.AnnAssign(target=cst.Name() as name, value=value) if value is node:
                self.keep(node, number)
                self.name(name, replace(number, fresh=True))
            case cst.AugAssign():
                self._augmented(parent, node, number)
            case cst.Return():
                self._returned(parent, node, number)
            case cst.Element() | cst.DictElement() | cst.ListComp() | cst.GeneratorExp():
                containers.put(self, node, number)
            case cst.IfExp() if parent.test is not node:
                self.absorb(parent, replace(number, mixed=True))
            case cst.If() | cst.IfExp() | cst.While() | cst.BooleanOperation() | cst.Assert():
                raise NotApplicable("it decides which way the code goes")
            case cst.FormattedStringExpression():
                raise NotApplicable("it becomes text, which is made outside of the graph")
            case cst.Index():
                places.index(self, node, number)
            case cst.Slice():
                places.bounds(self, node, number)
            case cst.For():
                raise NotApplicable("how often the loop runs depends on it")
            case _:
                raise NotApplicable("a tensor cannot stand where the number is used")

    def _operation(
        self, parent: cst.BinaryOperation, node: cst.BaseExpression, number: Number
    ) -> None:
        first = parent.left is node
        other = parent.right if first else parent.left
        operator = parent.operator
        if not isinstance(operator, _ARITHMETIC | cst.Power | _BITS):
            raise NotApplicable("a tensor cannot take part in this operation")
        seen, kind = self.seen(other), self.kind(other)
        divided = isinstance(operator, cst.Divide)
        if seen is not None and seen.is_tensor:
            if isinstance(operator, cst.Subtract) and number.dtype is torch.bool:
                number = self.cast(node, number, torch.int64)
            self.meet(node, number, seen, divided=divided)
        elif kind is not None:
            number = self.widened(node, number)
            self._raises(parent, operator, number, kind)
            self.absorb(parent, combined(number, kind, divided))
        elif seen is None:
            raise NotApplicable(f"it is not known what `{self.document.code(other)}` is")
        else:
            raise NotApplicable(f"`{self.document.code(other)}` is no tensor and no number")

    def _raises(
        self, parent: cst.BinaryOperation, operator: cst.BaseBinaryOp, number: Number, kind: type
    ) -> None:
        """Note where Python raises, or gives another kind of number, and a tensor does not."""
        if isinstance(operator, cst.Divide | cst.FloorDivide | cst.Modulo):
            if not nonzero(self.site, parent.right):
                self.assume(_DIVIDES)
        elif isinstance(operator, cst.Power):
            base, exponent = sign(self.site, parent.left), sign(self.site, parent.right)
            if number.kind is not float and kind is not float and not exponent:
                self.assume("the exponent is not negative")
            elif base < Sign.POSITIVE and not isinstance(parent.right, cst.Integer):
                self.assume("the base is greater than zero")

    def _comparison(self, node: cst.BaseExpression, number: Number) -> None:
        parent = self.document.parent(node)
        comparison = parent if isinstance(parent, cst.Comparison) else self.document.parent(parent)
        assert isinstance(comparison, cst.Comparison)
        (target, *more) = comparison.comparisons
        if more:
            raise NotApplicable("it is compared with two numbers at once")
        if not isinstance(target.operator, _ORDER | cst.Equal | cst.NotEqual):
            raise NotApplicable("it is looked for in a container")
        other = target.comparator if comparison.left is node else comparison.left
        seen, kind = self.seen(other), self.kind(other)
        if seen is not None and seen.is_tensor:
            self.meet(node, number, seen)
        elif kind is None:
            raise NotApplicable(f"`{self.document.code(other)}` is no tensor and no number")
        else:
            self.absorb(comparison, Number(bool, torch.bool, True, number.mixed))

    def _assigned(self, parent: cst.Assign, node: cst.BaseExpression, number: Number) -> None:
        for one in parent.targets:
            match one.target:
                case cst.Name() as name:
                    self.keep(node, number)
                    self.name(name, replace(number, fresh=True))
                case cst.Subscript(value=base) if self.is_tensor(base):
                    pass
                case cst.Attribute() | cst.Subscript():
                    self.keep(node, number)
                    self.note(KEPT)
                case _:
                    raise NotApplicable("it is taken apart")

    def _augmented(self, parent: cst.AugAssign, node: cst.BaseExpression, number: Number) -> None:
        target, value = parent.target, parent.value
        other = value if target is node else target
        seen, kind = self.seen(other), self.kind(other)
        if seen is not None and seen.is_tensor:
            if target is node:
                raise NotApplicable("it is added to in place")
            self.meet(node, number, seen)
        elif kind is None and value is node and not isinstance(other, cst.Name):
            self.note(KEPT)
        elif kind is None or not isinstance(parent.operator, _AUGMENTED):
            raise NotApplicable(f"it is not known what `{self.document.code(other)}` is")
        elif isinstance(target, cst.Name):
            divided = isinstance(parent.operator, cst.DivideAssign)
            if not isinstance(parent.operator, _SUMS) and not nonzero(self.site, value):
                self.assume(_DIVIDES)
            if value is node:
                number = self.widened(node, number)
                self.keep(node, number)
            new = combined(number, kind, divided)
            if target is node and new.dtype is not number.dtype:
                raise NotApplicable("in place its dtype cannot change")
            self.name(target, new)
        elif not (isinstance(target, cst.Subscript) and self.is_tensor(target.value)):
            self.note(KEPT)

    def _returned(self, parent: cst.Return, node: cst.BaseExpression, number: Number) -> None:
        self.keep(node, number)
        function = self.document.function(parent)
        calls = self.callers(function) if isinstance(function, cst.FunctionDef) else []
        if not calls:
            self.note(RETURNED)
            return
        assert isinstance(function, cst.FunctionDef)
        others = m.findall(function.body, m.Return())
        for call in calls:
            self.absorb(call, replace(number, fresh=True, mixed=len(others) > 1))
        if not function.name.value.startswith("_"):
            self.assume(f"all callers of `{function.name.value}` can do with a tensor")


_SUMS = cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign
_AUGMENTED = _SUMS | cst.DivideAssign | cst.FloorDivideAssign | cst.ModuloAssign
