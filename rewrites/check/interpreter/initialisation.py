"""Attributes of instances: what `__init__` and the other methods of a class assign."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fullgraph.rewrites.check.interpreter.annotations import value_of_annotation
from fullgraph.rewrites.check.interpreter.machine import DEPTH, Env, Frame
from fullgraph.rewrites.check.interpreter.statements import Statements
from fullgraph.rewrites.check.interpreter.values import (
    UNKNOWN,
    Function,
    Instance,
    Literal,
    Plain,
    Value,
    join,
    join_all,
)
from fullgraph.rewrites.check.methods import first_parameter
from fullgraph.rewrites.check.project import ClassDefinition, FunctionDefinition
from fullgraph.rewrites.check.syntax import is_none


@dataclass(frozen=True, eq=False)
class DeferredCall:
    """Call of a method in `__init__` that is evaluated once an attribute it sets is asked for."""

    node: ast.Call
    function: Value
    args: list[Value]
    keywords: dict[str, Value]
    frames: list[Frame]
    """The call stack at the call."""
    sets: frozenset[str]
    """Attributes of `self` that the method sets."""


class Initialisation(Statements):
    """Part of the interpreter that evaluates `__init__` for the attributes of an instance."""

    written: dict[int, dict[str, Value]]
    """Attributes that methods other than `__init__` assign, by the id of the class."""
    deferred: dict[int, list[DeferredCall]]
    """Calls in `__init__` that are not evaluated yet, by the id of the class."""

    def class_attribute(self, kind: ClassDefinition, name: str) -> Value | None:
        found = self.initial_attribute(kind, name)
        if name in kind.written_outside_init:
            written = self.written.get(id(kind), {}).get(name, UNKNOWN)
            return join(found, written) if found is not None else written
        return found

    def initial_attribute(self, kind: ClassDefinition, name: str) -> Value | None:
        if id(kind) not in self.attributes:
            self.attributes[id(kind)] = {}
            self._initialise(kind)
        self._evaluate_deferred(kind, name)
        found = self.attributes[id(kind)].get(name)
        return found if found is not None else self._attribute_of_body(kind, name)

    def _attribute_of_body(self, kind: ClassDefinition, name: str) -> Value | None:
        """Return an attribute that the body of the class or of a base assigns or annotates."""
        for one in kind.order:
            if isinstance(one, str):
                continue
            if name in one.assigned:
                return _as_attribute(self.evaluate_global(one.module, one.assigned[name]))
            if name in one.annotated:
                return value_of_annotation(one.annotated[name], one.module)
        return None

    def _initialise(self, kind: ClassDefinition) -> None:
        """Evaluate `__init__` to collect the attributes that it assigns."""
        method = kind.method("__init__")
        if method is None or len(self.frames) > DEPTH:
            return
        self.silent += 1
        fuel = self.fuel
        try:
            env = self.parameters_of_entry(method, (Instance(kind),), compiled=False)
            for name, default in method.signature.defaults:
                if env[name] == UNKNOWN and not isinstance(default, ast.Constant):
                    env[name] = self.evaluate_global(method.module, default)
                elif env[name] == UNKNOWN and not is_none(default):
                    assert isinstance(default, ast.Constant)
                    env[name] = (Plain(type(default.value).__name__),)
            self.run_function(method, env, (Instance(kind),))
        finally:
            self.fuel = fuel
            self.silent -= 1

    def defer_call(self, node: ast.Call) -> bool:
        """Defer a call of a method of `self` whose result is not used; return whether it was.

        Only calls in `__init__` of methods that do no more than set attributes of `self` are.
        """
        frame, function = self.frame, node.func
        if not self.silent or frame.function.name != "__init__":
            return False
        if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
            return False
        if function.value.id != first_parameter(frame.function.node):
            return False
        match frame.receiver:
            case (Instance(kind=kind),) if (method := kind.method(function.attr)) is not None:
                if method.sets is None or method.decorators:
                    return False
                args, keywords = self.arguments_of(node)
                bound = (Function(method, frame.receiver),)
                call = DeferredCall(node, bound, args, keywords, [*self.frames], method.sets)
                self.deferred.setdefault(id(kind), []).append(call)
                return True
        return False

    def _evaluate_deferred(self, kind: ClassDefinition, name: str) -> None:
        """Evaluate the deferred calls that set an attribute of the instances of `kind`."""
        waiting = self.deferred.get(id(kind), ())
        asked = [one for one in waiting if name in one.sets]
        if asked:
            self.deferred[id(kind)] = [one for one in waiting if one not in asked]
        for call in asked:
            frames, fuel = self.frames, self.fuel
            self.frames = [*call.frames]
            self.silent += 1
            try:
                self.call(call.function, call.args, call.keywords, call.node)
            finally:
                self.silent -= 1
                self.frames, self.fuel = frames, fuel

    def parameters_of_entry(
        self, definition: FunctionDefinition, receiver: Value, compiled: bool = True
    ) -> Env:
        """Return the values of the parameters of a function that nothing is known to call."""
        raise NotImplementedError

    def run_function(self, definition: FunctionDefinition, env: Env, receiver: Value) -> Value:
        """Evaluate the body of a function and return its result."""
        raise NotImplementedError

    def set_attribute(self, kind: ClassDefinition, name: str, value: Value) -> None:
        inside = any(frame.function.name == "__init__" for frame in self.frames)
        table = self.attributes.setdefault(id(kind), {})
        value = _as_attribute(value)
        if not inside:
            table = self.written.setdefault(id(kind), {})
        old = table.get(name)
        table[name] = value if old is None else join(old, value)


def _as_attribute(value: Value) -> Value:
    """Return what is known of an attribute after `self.n = value`: for 3, only "it is an int".

    Constants other than None become their types, because other code may assign other constants.
    """
    if any(isinstance(one, Literal) and one.value is not None for one in value):
        return join_all(
            (Plain(one.kind),) if isinstance(one, Literal) and one.value is not None else (one,)
            for one in value
        )
    return value
