"""Where a number goes: whether a tensor can stand at every place, and what the text becomes."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.rewrites.analysis.classes import definition
from fullgraph.rewrites.analysis.definitions import definitions
from fullgraph.rewrites.analysis.inferred import inferred
from fullgraph.rewrites.analysis.seen import Seen
from fullgraph.rewrites.site import Site
from fullgraph.rewrites.transforms.scalars import calls, containers
from fullgraph.rewrites.transforms.scalars import indices as places
from fullgraph.rewrites.transforms.scalars.containers import KEPT, RETURNED
from fullgraph.rewrites.transforms.scalars.edits import Edits
from fullgraph.rewrites.transforms.scalars.scalar import HALF, NARROW, No, Number, combined, met
from fullgraph.rewrites.transforms.scalars.signs import Sign, nonzero, sign

_DIVIDES = "nothing is divided by zero, which would raise for numbers"
_PRECISE = "it may be computed in float32, where Python computes in float64"
_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply | cst.Divide | cst.FloorDivide | cst.Modulo
_BITS = cst.BitAnd | cst.BitOr | cst.BitXor
_ORDER = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual


class Uses(Edits):
    """The edits that let tensors take the place of numbers, and what they take for granted."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.document)
        self.site = site
        self.assumes: dict[str, None] = {}
        self.done: set[cst.CSTNode] = set()
        self.numbers = False

    # What is known.

    def seen(self, node: cst.BaseExpression) -> Seen | None:
        """What is known of an expression; of a parameter, what its one caller gives it."""
        seen = inferred(self.site, node)
        if seen is None and isinstance(node, cst.Name):
            argument = self._argument(node)
            seen = None if argument is None else inferred(self.site, argument)
        return seen

    def _argument(self, name: cst.Name) -> cst.BaseExpression | None:
        known = definitions(self.document, name)
        bindings = known.reaching.get(name, frozenset()) if known is not None else frozenset()
        parameter = self.document.parents.get(next(iter(bindings))) if len(bindings) == 1 else None
        if known is None or not isinstance(parameter, cst.Param):
            return None
        assert isinstance(known.function, cst.FunctionDef)
        callers = self.callers(known.function)
        return calls.given(known.function, callers[0], parameter) if len(callers) == 1 else None

    def dtypes(self, node: cst.BaseExpression) -> frozenset[str]:
        """The dtypes a tensor was seen to have."""
        seen = self.seen(node)
        return frozenset() if seen is None else seen.dtypes

    def kind(self, node: cst.BaseExpression) -> type | None:
        """`int`, `float` or `bool` for a Python number; None for anything else."""
        match node:
            case cst.Integer():
                return int
            case cst.Float():
                return float
            case cst.Name(value="True" | "False"):
                return bool
            case cst.UnaryOperation(operator=cst.Minus()):
                return self.kind(node.expression)
        seen = self.seen(node)
        if seen is None or not seen.is_number:
            return None
        return float if "float" in seen.types else int

    def meet(
        self, node: cst.BaseExpression, number: Number, *others: Seen, divided: bool = False
    ) -> None:
        """Let the tensor at `node` take part in an operation with other tensors."""
        tensors = [tensor for other in others for tensor in other.tensors]
        needed = met(number, tensors, divided)
        if needed is not None:
            self.cast(node, number, needed)
        double = any(tensor.dtype == "float64" for tensor in tensors)
        if number.computed and double and number.dtype is not torch.float64:
            self.assume(_PRECISE)

    # Where it goes.

    def absorb(self, node: cst.BaseExpression, number: Number) -> None:
        """Let a tensor stand for the number at `node`. Raises No."""
        parent = self.document.parent(node)
        match parent:
            case cst.BinaryOperation():
                self._operation(parent, node, number)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus()):
                number = self.widened(node, number)
                self.absorb(parent, replace(number, fresh=True))
            case cst.UnaryOperation():
                raise No("it decides which way the code goes")
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
                raise No("it decides which way the code goes")
            case cst.FormattedStringExpression():
                raise No("it becomes text, which is made outside of the graph")
            case cst.Index():
                places.index(self, node, number)
            case cst.Slice():
                places.bounds(self, node, number)
            case cst.For():
                raise No("how often the loop runs depends on it")
            case _:
                raise No("a tensor cannot stand where the number is used")

    def keep(self, node: cst.BaseExpression, number: Number) -> None:
        """Give the tensor at `node`, which will be read later, memory of its own."""
        parent = self.document.parent(node)
        names = {node.value} if isinstance(node, cst.Name) else set()
        if names and isinstance(parent, cst.Assign):
            names |= {n.target.value for n in parent.targets if isinstance(n.target, cst.Name)}
        shared = not isinstance(parent, cst.Return) and names & self._augmented_names(node)
        if shared or not number.fresh:
            self.convert(node, number, ".clone()")

    def name(self, name: cst.Name, number: Number) -> None:
        """Every use of a name that now is a tensor must be able to do with one."""
        known = definitions(self.document, name)
        if known is None:
            raise No("the number is a global variable")
        for use in known.uses(name):
            if use in self.done:
                continue
            self.done.add(use)
            mixed = number.mixed or known.reaching[use] != frozenset({name})
            self.absorb(use, replace(number, mixed=mixed))

    def assume(self, clause: str) -> None:
        """Take something for granted."""
        self.assumes[clause] = None

    def note(self, clause: str) -> None:
        """Take for granted that whoever gets a number can do with a tensor."""
        self.assumes[clause] = None
        self.numbers = True

    def _augmented_names(self, node: cst.CSTNode) -> set[str]:
        """The names that the function around `node` changes by `+=` and the like."""
        function = self.document.function(node)
        found = m.findall(function, m.AugAssign(target=m.Name())) if function else ()
        return {one.target.value for one in found}  # type: ignore[attr-defined]

    def _operation(
        self, parent: cst.BinaryOperation, node: cst.BaseExpression, number: Number
    ) -> None:
        first = parent.left is node
        other = parent.right if first else parent.left
        operator = parent.operator
        if not isinstance(operator, _ARITHMETIC | cst.Power | _BITS):
            raise No("a tensor cannot take part in this operation")
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
            raise No(f"it is not known what `{self.document.code(other)}` is")
        else:
            raise No(f"`{self.document.code(other)}` is no tensor and no number")

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

    def widened(self, node: cst.BaseExpression, number: Number) -> Number:
        """Give the tensor a dtype in which arithmetic does what Python's does."""
        if number.dtype in NARROW:
            return self.cast(node, number, torch.int64)
        if number.dtype in HALF:
            return self.cast(node, number, torch.float32)
        return number

    def _comparison(self, node: cst.BaseExpression, number: Number) -> None:
        parent = self.document.parent(node)
        comparison = parent if isinstance(parent, cst.Comparison) else self.document.parent(parent)
        assert isinstance(comparison, cst.Comparison)
        (target, *more) = comparison.comparisons
        if more:
            raise No("it is compared with two numbers at once")
        if not isinstance(target.operator, _ORDER | cst.Equal | cst.NotEqual):
            raise No("it is looked for in a container")
        other = target.comparator if comparison.left is node else comparison.left
        seen, kind = self.seen(other), self.kind(other)
        if seen is not None and seen.is_tensor:
            self.meet(node, number, seen)
        elif kind is None:
            raise No(f"`{self.document.code(other)}` is no tensor and no number")
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
                    raise No("it is taken apart")

    def _augmented(self, parent: cst.AugAssign, node: cst.BaseExpression, number: Number) -> None:
        target, value = parent.target, parent.value
        other = value if target is node else target
        seen, kind = self.seen(other), self.kind(other)
        if seen is not None and seen.is_tensor:
            if target is node:
                raise No("it is added to in place")
            self.meet(node, number, seen)
        elif kind is None and value is node and not isinstance(other, cst.Name):
            self.note(KEPT)
        elif kind is None or not isinstance(parent.operator, _AUGMENTED):
            raise No(f"it is not known what `{self.document.code(other)}` is")
        elif isinstance(target, cst.Name):
            divided = isinstance(parent.operator, cst.DivideAssign)
            if not isinstance(parent.operator, _SUMS) and not nonzero(self.site, value):
                self.assume(_DIVIDES)
            if value is node:
                number = self.widened(node, number)
                self.keep(node, number)
            new = combined(number, kind, divided)
            if target is node and new.dtype is not number.dtype:
                raise No("in place its dtype cannot change")
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

    def callers(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The calls of a function in this file, if all of its uses are calls."""
        name = function.name.value
        calls = m.findall(
            self.document.module, m.Call(func=m.Name(name) | m.Attribute(attr=m.Name(name)))
        )
        found = [
            c for c in calls if isinstance(c, cst.Call) and definition(self.site, c) is function
        ]
        return found if len(found) == len(calls) else []

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        seen = self.seen(node)
        return seen is not None and seen.is_tensor


_SUMS = cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign
_AUGMENTED = _SUMS | cst.DivideAssign | cst.FloorDivideAssign | cst.ModuloAssign
