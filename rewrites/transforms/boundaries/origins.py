"""Origin of a returned tensor: what decides its device and dtype, from the source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import Site, find_all, is_tensor, torch_name, walk, word_set
from fullgraph.rewrites.transforms.boundaries.arguments import OperatorArgument, OperatorBody

CPU = '"cpu"'
UNKNOWN = "?"


@dataclass(frozen=True)
class Origin:
    """Where a tensor comes from."""

    device: str
    """Source of its device: "x.device" of an argument `x`, '"cpu"', '"cuda"'; "?" if unknown."""
    of_numbers: bool = False
    """Whether it was made of Python numbers, so that its dtype depends on no tensor."""
    is_cast: bool = False
    """Whether it was converted to a given dtype: `x.float()`."""


Origins = frozenset[Origin]
"""The origins that a value may have; none if it holds no tensor."""
_NONE: Origins = frozenset()
_UNKNOWN: Origins = frozenset({Origin(UNKNOWN)})
_SAME = word_set("T H mT mH real imag data grad")
"""Attributes of a tensor that are tensors of its device."""
_NOT_TENSORS = word_set("item tolist numpy")
_NUMBERS = word_set("int float bool str NoneType range torch.Size torch.device torch.dtype")
"""Types of values that hold no tensor."""
_CASTS = word_set("bfloat16 bool byte double float half int long short to type")
"""Methods that convert to a given dtype."""
_COPIES = word_set("tensor as_tensor asarray from_numpy")
"""Functions of torch that turn one argument into a tensor."""
_FACTORIES = word_set(
    """
    arange empty eye full linspace logspace ones rand randint randn randperm tril_indices
    triu_indices zeros
    """
)
"""Functions of torch whose result is on the CPU, whatever tensors give its sizes and values."""
_COLLECTIONS = word_set("dict enumerate list max min reversed sorted sum tuple zip")
"""Functions of Python whose result holds tensors of the arguments."""


class OriginFinder:
    """Finder of the origins of expressions in code that moves into an operator."""

    def __init__(
        self, site: Site, body: OperatorBody, arguments: Iterable[OperatorArgument]
    ) -> None:
        self.site, self.body = site, body
        self.arguments = {one.code: one for one in arguments}
        self._active: set[int] = set()

    def origins_of(self, node: cst.CSTNode) -> Origins:
        """Return the origins of the tensors in the value of an expression."""
        if id(node) in self._active:  # a variable of a loop, which depends on itself
            return _NONE
        self._active.add(id(node))
        try:
            return self._origins_of(node)
        finally:
            self._active.discard(id(node))

    def host_arguments(self) -> frozenset[str]:
        """Return the arguments that are on the CPU, because `x.numpy()` needs that."""
        method = m.Call(func=m.Attribute(attr=m.Name("numpy")))
        calls = [cst.ensure_type(one, cst.Call) for one in find_all(self.body.body, method)]
        receivers = [cst.ensure_type(one.func, cst.Attribute).value for one in calls]
        devices = [{one.device for one in self.origins_of(node)} for node in receivers]
        single = [found.pop() for found in devices if len(found) == 1]
        return frozenset(
            one.name for one in self.arguments.values() if f"{one.name}.device" in single
        )

    def _origins_of(self, node: cst.CSTNode) -> Origins:
        seen = self.site.observed(node)
        if seen is not None and _holds_no_tensor(seen):
            return _NONE
        if (argument := self._argument_at(node)) is not None:
            if argument.annotation.startswith("list[torch.Tensor"):
                return frozenset({Origin(f"{argument.name}[0].device")})
            single = "Tensor" in argument.annotation
            return frozenset({Origin(f"{argument.name}.device")}) if single else _NONE
        match node:
            case cst.Name():
                return self._origins_of_name(node)
            case cst.Call():
                return self._origins_of_call(node)
            case cst.BinaryOperation():
                return self._combine([node.left, node.right])
            case cst.Comparison():
                return self._combine([node.left, *(one.comparator for one in node.comparisons)])
            case cst.UnaryOperation():
                return self.origins_of(node.expression)
            case cst.Subscript() | cst.StarredElement() | cst.NamedExpr():
                return self.origins_of(node.value)
            case cst.Attribute() if node.attr.value in _SAME:
                return self.origins_of(node.value)
            case cst.Tuple() | cst.List():
                return self._combine([one.value for one in node.elements])
            case cst.ListComp() | cst.GeneratorExp():
                return self.origins_of(node.elt)
            case cst.IfExp():
                return self.origins_of(node.body) | self.origins_of(node.orelse)
            case cst.BaseNumber() | cst.BaseString():
                return _NONE
        return _UNKNOWN

    def _argument_at(self, node: cst.CSTNode) -> OperatorArgument | None:
        """Return the argument that `node` reads, such as `x` or `self.weights`."""
        if node not in self.site.document.ranges:
            return None
        root = node
        while isinstance(root, cst.Attribute):
            root = root.value
        found = self.arguments.get(self.site.document.code(node))
        return found if found is not None and self.body.reads_argument(root) else None

    def _origins_of_name(self, name: cst.Name) -> Origins:
        """Return the origins of a local variable: those of all values that it may have here."""
        document = self.site.document
        for around in document.ancestors(name):
            loop = around.for_in if isinstance(around, cst.BaseComp) else None
            while isinstance(loop, cst.CompFor):
                if any(m.matches(one, m.Name(name.value)) for one in walk(loop.target)):
                    return self.origins_of(loop.iter)
                loop = loop.inner_for_in
        bindings = self.body.definitions.reaching.get(name, frozenset())
        found = _NONE.union(*map(self._origins_of_binding, bindings))
        added = m.Attribute(
            value=m.Name(name.value), attr=m.Name("append") | m.Name("extend") | m.Name("insert")
        )
        for one in find_all(self.body.body, m.Call(func=added)):
            found |= self._combine([arg.value for arg in cst.ensure_type(one, cst.Call).args])
        return found

    def _origins_of_binding(self, binding: cst.CSTNode) -> Origins:
        """Return the origins of what an assignment or a loop binds a name to."""
        document = self.site.document
        index, target = -1, document.parent(binding)
        if isinstance(target, cst.Element):
            packed = document.parent(target)
            if not isinstance(packed, cst.Tuple | cst.List):
                return _UNKNOWN
            index = next(n for n, one in enumerate(packed.elements) if one is target)
            binding, target = packed, document.parent(packed)
        statement = document.parent(target) if isinstance(target, cst.AssignTarget) else target
        match statement:
            case cst.Assign(value=cst.Tuple() | cst.List() as value) if (
                0 <= index < len(value.elements)
            ):
                return self.origins_of(value.elements[index].value)
            case cst.Assign() | cst.NamedExpr():
                return self.origins_of(statement.value)
            case cst.AugAssign():
                return self._combine([statement.target, statement.value])
            case cst.For():
                return self.origins_of(statement.iter)
        return _UNKNOWN

    def _origins_of_call(self, call: cst.Call) -> Origins:
        given = {one.keyword.value: one.value for one in call.args if one.keyword is not None}
        values = [one.value for one in call.args]
        last = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        if last in _NOT_TENSORS:
            return _NONE
        called = torch_name(self.site, call)
        method = receiver is not None and is_tensor(self.site, receiver)
        if receiver is not None and method:
            return self._origins_of_method(receiver, last, values, given)
        if called in _COPIES and values and not is_tensor(self.site, values[0]):
            of_numbers = called != "from_numpy" and not self._is_array(values[0])
            found = frozenset({Origin(CPU, of_numbers)})
        elif called in _FACTORIES:
            found = frozenset({Origin(CPU, of_numbers=True)})
        elif called or self.site.callee_name(call).startswith("torch."):
            found = self._combine(values) or frozenset({Origin(CPU, of_numbers=True)})
        elif isinstance(call.func, cst.Name) and call.func.value in _COLLECTIONS:
            return self._combine(values)
        else:
            return _UNKNOWN
        return self._moved(found, given["device"]) if "device" in given else found

    def _origins_of_method(
        self,
        receiver: cst.BaseExpression,
        name: str,
        values: Sequence[cst.BaseExpression],
        given: dict[str, cst.BaseExpression],
    ) -> Origins:
        """Return the origins of the result of a tensor's method.

        `values` are all arguments, and `given` are those with a keyword.
        """
        own = self.origins_of(receiver)
        if name in ("cpu", "cuda"):
            return frozenset(replace(one, device=f'"{name}"') for one in own)
        if name == "type_as":
            return self.origins_of(values[0])
        if "device" in given:
            return self._moved(own, given["device"])
        if name == "to" and values:
            if is_tensor(self.site, values[0]):
                return self.origins_of(values[0])
            if not self._is_dtype(values[0]):
                return self._moved(own, values[0])
        if name in _CASTS or "dtype" in given:
            return frozenset(replace(one, is_cast=True) for one in own)
        if name.startswith("new_"):
            return frozenset(replace(one, of_numbers=False) for one in own)
        return self._combine([receiver, *values])

    def _combine(self, operands: Sequence[cst.BaseExpression]) -> Origins:
        """Return the origins of an operation's result: those of its tensors.

        A 0-d tensor on the CPU may be an operand beside tensors of any device.
        """
        found = [(one, self.origins_of(one)) for one in operands]
        found = [(one, origins) for one, origins in found if origins]
        large = [origins for one, origins in found if not self._is_single(one)]
        every = _NONE.union(*(large or [origins for _, origins in found]))
        known = frozenset(one for one in every if not one.of_numbers)
        return frozenset(replace(one, of_numbers=not known) for one in every)

    def _moved(self, origins: Origins, device: cst.BaseExpression) -> Origins:
        """Return `origins` with the device that an expression gives."""
        to = self._device_of(device)
        return frozenset(replace(one, device=to) for one in origins)

    def _device_of(self, node: cst.CSTNode) -> str:
        """Return the source of the device that `node` is, by the names of the arguments."""
        document = self.site.document
        if (argument := self._argument_at(node)) is not None:
            return argument.name if argument.annotation == "torch.device" else UNKNOWN
        match node:
            case cst.SimpleString():
                return f'"{node.raw_value}"'
            case cst.Name(value="None"):
                return CPU
            case cst.Attribute(attr=cst.Name(value="device")):
                devices = {one.device for one in self.origins_of(node.value)}
                return devices.pop() if len(devices) == 1 else UNKNOWN
            case cst.Call(args=[only]) if document.qualified_name(node.func) == "torch.device":
                return self._device_of(only.value)
            case cst.Name():
                bindings = self.body.definitions.reaching.get(node, frozenset())
                targets = [document.parent(one) for one in bindings]
                values = [document.parent(one) for one in targets]
                if len(values) == 1 and isinstance(values[0], cst.Assign):
                    return self._device_of(values[0].value)
        return UNKNOWN

    def _is_single(self, node: cst.CSTNode) -> bool:
        seen = self.site.observed(node)
        return seen is not None and seen.dims == {0}

    def _is_array(self, node: cst.CSTNode) -> bool:
        seen = self.site.observed(node)
        return seen is not None and seen.is_ndarray

    def _is_dtype(self, node: cst.CSTNode) -> bool:
        seen = self.site.observed(node)
        name = self.site.document.qualified_name(node)
        known = seen is not None and set(seen.types) == {"torch.dtype"}
        return known or (name.startswith("torch.") and not name.startswith("torch.device"))


def _holds_no_tensor(seen: ValueSummary) -> bool:
    """Whether values were numbers, strings or arrays, or lists of such."""
    if seen.tensors:
        return False
    kinds = set(seen.items) or set(seen.types)
    return kinds <= _NUMBERS or seen.is_ndarray
