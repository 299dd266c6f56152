"""Where a number goes: whether a tensor can stand at every place, and what the text becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.rewrites.build import expression
from fullgraph.rewrites.document import Replacement, replaced
from fullgraph.rewrites.facts.classes import definition
from fullgraph.rewrites.facts.definitions import definitions
from fullgraph.rewrites.facts.inferred import inferred
from fullgraph.rewrites.facts.seen import Seen
from fullgraph.rewrites.scalars.number import CASTS, HALF, NARROW, No, Number, combined, met
from fullgraph.rewrites.scalars.signs import Sign, nonzero, sign
from fullgraph.rewrites.site import Site

KEPT = "whoever reads the number that is kept can do with a tensor"
RETURNED = "the caller can do with a tensor in place of the number"
_DIVIDES = "nothing is divided by zero, which would raise for numbers"
_PRECISE = "it may be computed in float32, where Python computes in float64"
_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply | cst.Divide | cst.FloorDivide | cst.Modulo
_BITS = cst.BitAnd | cst.BitOr | cst.BitXor
_ORDER = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual
_KINDS = {"int": int, "float": float, "bool": bool}


@dataclass(frozen=True)
class Text:
    """What a node becomes: another expression, or its own with a call behind it."""

    plain: cst.BaseExpression | None = None
    suffix: str = ""


class Uses:
    """The edits that let tensors take the place of numbers, and what they take for granted."""

    def __init__(self, site: Site, calls: Callable[[Uses, cst.Arg, Number], None]) -> None:
        self.site = site
        self.document = site.document
        self.calls = calls
        self.texts: dict[cst.BaseExpression, Text] = {}
        self.assumes: dict[str, None] = {}
        self.done: set[cst.CSTNode] = set()
        self.numbers = False

    # What is written.

    def write(self, node: cst.BaseExpression, plain: cst.BaseExpression) -> None:
        """Let `plain` stand where `node` stood."""
        self.texts[node] = Text(plain)

    def convert(self, node: cst.BaseExpression, number: Number, suffix: str) -> None:
        """Put a call behind the tensor at `node`."""
        if number.mixed:
            raise No("a plain number may stand there too")
        known = self.texts.get(node, Text())
        if not known.suffix.endswith(suffix):
            self.texts[node] = replace(known, suffix=known.suffix + suffix)

    def cast(self, node: cst.BaseExpression, number: Number, dtype: torch.dtype) -> Number:
        """Convert the tensor at `node` to a dtype."""
        if dtype is number.dtype:
            return number
        if dtype not in CASTS:
            raise No("it meets a tensor of an unusual dtype")
        self.convert(node, number, f".{CASTS[dtype]}()")
        return replace(number, dtype=dtype, fresh=True)

    def now(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The text of `node` with all edits inside it, and its own."""
        own = self.texts.get(node, Text())
        new = self.inside(node) if own.plain is None else own.plain
        return expression(f"{{new}}{own.suffix}", new=new) if own.suffix else new

    def inside(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The text of `node` with all edits inside it, without its own."""
        inner = [one for one in self.texts if one is not node and self._holds(node, one)]
        return replaced(node, {one: self.now(one) for one in inner}) if inner else node

    def replacements(self) -> dict[cst.CSTNode, Replacement]:
        """The outermost edits."""
        return {
            node: self.now(node)
            for node in self.texts
            if not any(around in self.texts for around in self.document.around(node))
        }

    def _holds(self, outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
        return any(one is outer for one in self.document.around(inner))

    # What is known.

    def seen(self, node: cst.BaseExpression) -> Seen | None:
        return inferred(self.site, node)

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
            self.assumes[_PRECISE] = None

    # Where it goes.

    def absorb(self, node: cst.BaseExpression, number: Number) -> None:
        """Let a tensor stand for the number at `node`. Raises No."""
        parent = self.document.parent(node)
        match parent:
            case cst.BinaryOperation():
                self._operation(parent, node, number)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus()):
                number = self._widened(node, number)
                self.absorb(parent, replace(number, fresh=True))
            case cst.UnaryOperation():
                raise No("it decides which way the code goes")
            case cst.Comparison() | cst.ComparisonTarget():
                self._comparison(node, number)
            case cst.Arg(star=""):
                self.calls(self, parent, number)
            case cst.Assign():
                self._assigned(parent, node, number)
            case cst.AnnAssign(target=cst.Name() as name, value=value) if value is node:
                self.keep(node, number)
                self.name(name, replace(number, fresh=False))
            case cst.AugAssign():
                self._augmented(parent, node, number)
            case cst.Return():
                self._returned(parent, node, number)
            case cst.Element() | cst.DictElement():
                self._element(parent, node, number)
            case cst.IfExp() if parent.test is not node:
                self.absorb(parent, replace(number, mixed=True))
            case cst.If() | cst.IfExp() | cst.While() | cst.BooleanOperation() | cst.Assert():
                raise No("it decides which way the code goes")
            case cst.FormattedStringExpression():
                raise No("it becomes text, which is made outside of the graph")
            case cst.Index() | cst.Slice():
                raise No("a size or an index depends on it")
            case cst.For():
                raise No("how often the loop runs depends on it")
            case _:
                raise No("a tensor cannot stand where the number is used")

    def keep(self, node: cst.BaseExpression, number: Number) -> None:
        """Give the tensor at `node`, which will be read later, memory of its own."""
        if not number.fresh:
            self.convert(node, replace(number, mixed=False), ".clone()")

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
            number = self._widened(node, number)
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
                self.assumes[_DIVIDES] = None
        elif isinstance(operator, cst.Power):
            base, exponent = sign(self.site, parent.left), sign(self.site, parent.right)
            if number.kind is not float and kind is not float and not exponent:
                self.assumes["the exponent is not negative"] = None
            elif base < Sign.POSITIVE and not isinstance(parent.right, cst.Integer):
                self.assumes["the base is greater than zero"] = None

    def _widened(self, node: cst.BaseExpression, number: Number) -> Number:
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
                    self.name(name, replace(number, fresh=False))
                case cst.Subscript(value=base) if self._is_tensor(base):
                    pass
                case cst.Attribute() | cst.Subscript():
                    self.keep(node, number)
                    self.numbers = True
                    self.assumes[KEPT] = None
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
        elif kind is None and isinstance(other, cst.Attribute) and value is node:
            self.numbers = True
            self.assumes[KEPT] = None
        elif kind is None or not isinstance(parent.operator, _AUGMENTED):
            raise No(f"it is not known what `{self.document.code(other)}` is")
        elif isinstance(target, cst.Name):
            divided = isinstance(parent.operator, cst.DivideAssign)
            if not isinstance(parent.operator, _SUMS) and not nonzero(self.site, value):
                self.assumes[_DIVIDES] = None
            if value is node:
                number = self._widened(node, number)
                self.keep(node, number)
            self.name(target, replace(combined(number, kind, divided), fresh=False))
        else:
            self.numbers = True
            self.assumes[KEPT] = None

    def _returned(self, parent: cst.Return, node: cst.BaseExpression, number: Number) -> None:
        self.keep(node, number)
        function = self.document.function(parent)
        calls = self._callers(function) if isinstance(function, cst.FunctionDef) else []
        if not calls:
            self.numbers = True
            self.assumes[RETURNED] = None
            return
        assert isinstance(function, cst.FunctionDef)
        others = m.findall(function.body, m.Return())
        for call in calls:
            self.absorb(call, replace(number, fresh=True, mixed=len(others) > 1))
        if not function.name.value.startswith("_"):
            self.assumes[f"all callers of `{function.name.value}` can do with a tensor"] = None

    def _callers(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The calls of a function in this file, if all of its uses are calls."""
        name = function.name.value
        calls = m.findall(
            self.document.module, m.Call(func=m.Name(name) | m.Attribute(attr=m.Name(name)))
        )
        found = [
            c for c in calls if isinstance(c, cst.Call) and definition(self.site, c) is function
        ]
        return found if len(found) == len(calls) else []

    def _element(self, parent: cst.CSTNode, node: cst.BaseExpression, number: Number) -> None:
        if isinstance(parent, cst.DictElement) and parent.key is node:
            raise No("it is a key")
        whole: cst.CSTNode = parent
        for around in self.document.around(parent):
            match around:
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Tuple() as names)], value=value
                ):
                    self._taken_apart(names, value, parent, node, number)
                    return
                case cst.Return() | cst.Assign():
                    self.keep(node, number)
                    self.numbers = True
                    self.assumes[RETURNED if isinstance(around, cst.Return) else KEPT] = None
                    if isinstance(around, cst.Assign):
                        self._container(around)
                    return
                case cst.Arg():
                    assert isinstance(whole, cst.BaseExpression)
                    self.calls(self, around, replace(number, mixed=True))
                    return
                case cst.Tuple() | cst.List() | cst.Dict() | cst.Element() | cst.DictElement():
                    whole = around
                case _:
                    break
        raise No("it goes into a container")

    def _container(self, assign: cst.Assign) -> None:
        """A container that holds the number must only be returned or kept."""
        for one in assign.targets:
            if not isinstance(one.target, cst.Name):
                continue
            known = definitions(self.document, one.target)
            for use in known.uses(one.target) if known is not None else ():
                around = self.document.around(use)
                if not any(isinstance(n, cst.Return) for n in around) or isinstance(
                    self.document.parent(use), cst.Subscript | cst.Attribute
                ):
                    raise No("it goes into a container that is read again")

    def _taken_apart(
        self,
        names: cst.Tuple,
        value: cst.BaseExpression,
        parent: cst.CSTNode,
        node: cst.BaseExpression,
        number: Number,
    ) -> None:
        """`a, b = x.item(), 1`"""
        elements = value.elements if isinstance(value, cst.Tuple) else ()
        place = [n for n, element in enumerate(elements) if element is parent]
        if not place or len(elements) != len(names.elements):
            raise No("it is taken apart")
        target = names.elements[place[0]].value
        self.keep(node, number)
        if isinstance(target, cst.Name):
            self.name(target, replace(number, fresh=False))
        else:
            self.numbers = True
            self.assumes[KEPT] = None

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        seen = self.seen(node)
        return seen is not None and seen.is_tensor


_SUMS = cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign
_AUGMENTED = _SUMS | cst.DivideAssign | cst.FloorDivideAssign | cst.ModuloAssign
