"""What is known and changed where a number becomes a tensor; each kind of use builds on it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Seen,
    Site,
    called_function,
    find_definitions,
    infer,
)
from fullgraph.rewrites.transforms.scalars.edits import Edits
from fullgraph.rewrites.transforms.scalars.scalar import HALF, NARROW, Number, met

_PRECISE = "it may be computed in float32, where Python computes in float64"


class UseEdits(Edits):
    """Edits that put tensors where numbers stood, and what these edits assume."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.document)
        self.site = site
        self.assumes: dict[str, None] = {}
        self.done: set[cst.CSTNode] = set()
        self.numbers = False

    def seen(self, node: cst.BaseExpression) -> Seen | None:
        """What is known of an expression; of a parameter, what its one caller gives it."""
        seen = infer(self.site, node)
        if seen is None and isinstance(node, cst.Name):
            argument = self._argument(node)
            seen = None if argument is None else infer(self.site, argument)
        return seen

    def _argument(self, name: cst.Name) -> cst.BaseExpression | None:
        known = find_definitions(self.document, name)
        bindings = known.reaching.get(name, frozenset()) if known is not None else frozenset()
        parameter = self.document.parents.get(next(iter(bindings))) if len(bindings) == 1 else None
        if known is None or not isinstance(parameter, cst.Param):
            return None
        assert isinstance(known.function, cst.FunctionDef)
        callers = self.callers(known.function)
        return argument_for(known.function, callers[0], parameter) if len(callers) == 1 else None

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
        known = find_definitions(self.document, name)
        if known is None:
            raise NotApplicable("the number is a global variable")
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

    def widened(self, node: cst.BaseExpression, number: Number) -> Number:
        """Give the tensor a dtype in which arithmetic does what Python's does."""
        if number.dtype in NARROW:
            return self.cast(node, number, torch.int64)
        if number.dtype in HALF:
            return self.cast(node, number, torch.float32)
        return number

    def callers(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The calls of a function in this file, if all of its uses are calls."""
        name = function.name.value
        calls = m.findall(
            self.document.module, m.Call(func=m.Name(name) | m.Attribute(attr=m.Name(name)))
        )
        found = [
            c
            for c in calls
            if isinstance(c, cst.Call) and called_function(self.site, c) is function
        ]
        return found if len(found) == len(calls) else []

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        seen = self.seen(node)
        return seen is not None and seen.is_tensor

    @abstractmethod
    def absorb(self, node: cst.BaseExpression, number: Number) -> None:
        """Let a tensor stand for the number at `node`. Raises NotApplicable."""


def argument_for(
    function: cst.FunctionDef, call: cst.Call, parameter: cst.Param
) -> cst.BaseExpression | None:
    """Return the argument that a call passes for `parameter`; None if there is none or `*args`."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == parameter.name.value:
            return arg.value
    positional = list(function.params.params)
    if isinstance(call.func, cst.Attribute):
        positional = positional[1:]
    place = next((n for n, one in enumerate(positional) if one is parameter), len(call.args))
    if any(arg.star for arg in call.args) or place >= len(call.args):
        return None
    return call.args[place].value if call.args[place].keyword is None else None
