"""Facts and edits at the uses of a number that becomes a tensor; the base of `Uses`."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    called_function,
    find_all,
    find_definitions,
    follow_or_assume,
    infer,
    may_change,
    names_read,
    walk,
)
from fullgraph.rewrites.transforms.random import RandomDraw
from fullgraph.rewrites.transforms.scalars.dtypes import have_same_dtype
from fullgraph.rewrites.transforms.scalars.edits import Edits
from fullgraph.rewrites.transforms.scalars.scalar import HALF, NARROW, Number, promoted_dtype

PRECISE = "it may be computed in float32, where Python computes in float64"


class UseEdits(Edits):
    """Edits of the uses of numbers that become tensors, with their assumptions."""

    def __init__(self, site: Site, may_decide: bool = False) -> None:
        super().__init__(site.document)
        self.site = site
        self.may_decide = may_decide
        """Whether the condition of a branch may use the tensor, where eager code reads it."""
        self.assumes: dict[str, None] = {}
        """Clauses that the edits assume, in order."""
        self.visited: set[cst.CSTNode] = set()
        self.tensors: set[cst.CSTNode] = set()
        """Expressions that were numbers and become tensors."""
        self.positions: dict[cst.Slice, cst.Subscript] = {}
        """Slices that become the positions in them, with the subscripts that have them."""
        self.lines_before: dict[cst.CSTNode, dict[cst.Subscript, list[cst.BaseStatement]]] = {}
        """For each statement, lines to insert before it, by the slice that they are made for."""
        self.draws: list[RandomDraw] = []
        """Draws of random numbers with an argument that becomes a tensor."""
        self.decides = False
        """Whether a branch depends on the number, and now on the tensor."""
        self.selects = False
        """Whether the number was an index or a bound of a slice."""
        self.accumulates = False
        """Whether an attribute of `self` holds what is computed from the number."""
        self.numbers = False
        """Whether code that is not edited may get a tensor in place of a number."""

    def observed(self, node: cst.BaseExpression) -> ValueSummary | None:
        """Return the values that an expression had in eager; None if there are none.

        For a parameter that was not observed, return the values of its argument in the only call.
        """
        seen = infer(self.site, node)
        if seen is None and isinstance(node, cst.Name):
            argument = self._argument(node)
            seen = None if argument is None else infer(self.site, argument)
        return seen

    def _argument(self, name: cst.Name) -> cst.BaseExpression | None:
        """Return the argument that the only call in this file passes for a parameter, or None."""
        known = find_definitions(self.document, name)
        bindings = known.reaching.get(name, frozenset()) if known is not None else frozenset()
        parameter = self.document.parents.get(next(iter(bindings))) if len(bindings) == 1 else None
        if known is None or not isinstance(parameter, cst.Param):
            return None
        assert isinstance(known.function, cst.FunctionDef)
        callers = self.callers(known.function)
        return argument_for(known.function, callers[0], parameter) if len(callers) == 1 else None

    def dtypes(self, node: cst.BaseExpression) -> frozenset[str]:
        """Return the dtypes that a tensor was observed to have; none if it was not observed."""
        seen = self.observed(node)
        return frozenset() if seen is None else seen.dtypes

    def kind(self, node: cst.BaseExpression) -> type | None:
        """Return `int`, `float` or `bool` for a Python number; None for anything else."""
        match node:
            case cst.Integer():
                return int
            case cst.Float():
                return float
            case cst.Name(value="True" | "False"):
                return bool
            case cst.UnaryOperation(operator=cst.Minus()):
                return self.kind(node.expression)
        seen = self.observed(node)
        if seen is None or not seen.is_number:
            return None
        return float if "float" in seen.types else int

    def promote_with(
        self, node: cst.BaseExpression, number: Number, *others: ValueSummary, divided: bool = False
    ) -> None:
        """Cast the tensor at `node` so that results with `others` keep their dtype.

        `divided` is true for a division.
        """
        tensors = [tensor for other in others for tensor in other.tensors]
        needed = promoted_dtype(number, tensors, divided)
        if needed is not None:
            self.cast(node, number, needed)
        double = any(tensor.dtype == "float64" for tensor in tensors)
        if number.is_computed and double and number.dtype is not torch.float64:
            self.assume(PRECISE)

    def convert_assigned(self, subscript: cst.Subscript, value: cst.BaseExpression) -> None:
        """Append `.to(x.dtype)` to the tensor `value` of `x[index] = value`, if it may be needed.

        A slice and an int convert what is assigned to them, as numbers are; a tensor that is an
        index raises.
        """
        if not have_same_dtype(self.site, subscript.value, value):
            self.append(value, f".to({self.document.code(subscript.value)}.dtype)")

    def clone_if_shared(
        self, node: cst.BaseExpression, number: Number, *, is_local: bool = False
    ) -> Number:
        """Clone the tensor at `node` if it shares memory or a `+=` may change it in place.

        A local variable may share memory that nothing in its function changes. Returns the number
        with what it owns then.
        """
        parent = self.document.parent(node)
        names = {node.value} if isinstance(node, cst.Name) else set()
        if names and isinstance(parent, cst.Assign):
            names |= {n.target.value for n in parent.targets if isinstance(n.target, cst.Name)}
        shared = not isinstance(parent, cst.Return) and names & self._augmented_names(node)
        function = self.document.function(node) if is_local else None
        is_constant = function is not None and not may_change(
            self.site, names_read(node), [function.body]
        )
        if not shared and (number.owns_memory or is_constant):
            return number
        self.append_call(node, number, ".clone()")
        return replace(number, owns_memory=True)

    def propagate_to_name(self, name: cst.Name, number: Number) -> None:
        """Propagate the tensor to all uses of the variable `name`. Raises NotApplicable."""
        known = find_definitions(self.document, name)
        if known is None:
            raise NotApplicable("the number is a global variable")
        for use in known.uses(name):
            if use in self.visited:
                continue
            self.visited.add(use)
            may_be_plain = number.may_be_plain or known.reaching[use] != frozenset({name})
            here = replace(number, may_be_plain=may_be_plain)
            clause = follow_or_assume(self.site, use, self, partial(self.propagate, use, here))
            if clause:
                self.assume(clause)

    def assume(self, clause: str) -> None:
        """Add a clause to the assumptions of the rewrite."""
        self.assumes[clause] = None

    def assume_reader_accepts_tensor(self, clause: str) -> None:
        """Add the assumption `clause`: code that is not edited accepts a tensor for the number."""
        self.assumes[clause] = None
        self.numbers = True

    def _augmented_names(self, node: cst.CSTNode) -> set[str]:
        """Return the names that `+=` and similar operators update in the function around `node`."""
        function = self.document.function(node)
        return {
            one.target.value
            for one in (walk(function) if function is not None else ())
            if isinstance(one, cst.AugAssign) and isinstance(one.target, cst.Name)
        }

    def widen(self, node: cst.BaseExpression, number: Number) -> Number:
        """Cast the tensor at `node` to a dtype in which arithmetic gives Python's results.

        Returns the number with that dtype.
        """
        if number.dtype in NARROW:
            return self.cast(node, number, torch.int64)
        if number.dtype in HALF:
            return self.cast(node, number, torch.float32)
        return number

    def callers(self, function: cst.FunctionDef) -> list[cst.Call]:
        """Return the calls of a function in this file.

        Empty if a call of the same name is not known to call it.
        """
        name = function.name.value
        calls = find_all(
            self.document.module, m.Call(func=m.Name(name) | m.Attribute(attr=m.Name(name)))
        )
        found = [
            c
            for c in calls
            if isinstance(c, cst.Call) and called_function(self.site, c) is function
        ]
        return found if len(found) == len(calls) else []

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether an expression was a tensor each time it was observed."""
        seen = self.observed(node)
        return seen is not None and seen.is_tensor

    @abstractmethod
    def propagate(self, node: cst.BaseExpression, number: Number) -> None:
        """Replace the number at `node` by a tensor, and edit its uses. Raises NotApplicable."""


def argument_for(
    function: cst.FunctionDef, call: cst.Call, parameter: cst.Param
) -> cst.BaseExpression | None:
    """Return the argument that `call`, a call of `function`, passes for `parameter`.

    None if the call leaves it to the default, or passes it by `*args`.
    """
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
