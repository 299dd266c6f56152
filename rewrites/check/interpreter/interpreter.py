"""Abstract interpreter: functions and classes of the project."""

from __future__ import annotations

import ast

from fullgraph.rewrites.check.entries import Entry
from fullgraph.rewrites.check.facts import Facts
from fullgraph.rewrites.check.interpreter.annotations import value_of_annotation
from fullgraph.rewrites.check.interpreter.evidence import Evidence, evidence_for
from fullgraph.rewrites.check.interpreter.initialisation import Initialisation
from fullgraph.rewrites.check.interpreter.inputs import changing_inputs
from fullgraph.rewrites.check.interpreter.machine import (
    DEPTH,
    FUEL,
    Env,
    Frame,
    Machine,
    Note,
    OutOfFuel,
)
from fullgraph.rewrites.check.interpreter.recompiles import CALLED, state_of_inputs
from fullgraph.rewrites.check.interpreter.values import (
    LIKELY_TENSOR,
    NONE,
    TENSOR,
    UNKNOWN,
    Function,
    Instance,
    Layer,
    Literal,
    Mapping,
    Object,
    Plain,
    Value,
    is_unknown,
    join,
    join_all,
    sequence_of,
)
from fullgraph.rewrites.check.project import ClassDefinition, FunctionDefinition, Module, Project
from fullgraph.rewrites.check.syntax import functions_around, is_none, statements_of

CONTEXTS = 12
"""Number of times that the entries of one file evaluate a function at most."""
NESTED_IN_INIT = 1
"""Number of nested calls that are followed inside `__init__`; calls of `__init__` do not count."""


class Interpreter(Initialisation):
    """The complete interpreter: it runs functions from the entries on and finds what breaks."""

    def __init__(self, project: Project, facts: Facts) -> None:
        Machine.__init__(self, project, facts)
        self.inner = {}
        self.operands, self.settable = {}, {}
        self.loops = {}
        self.written = {}
        self.deferred = {}
        self.contexts: dict[int, int] = {}
        self.static_modules: dict[int, FunctionDefinition] = {}
        self.stored: frozenset[str] = frozenset()
        """Attributes that the last finished call has assigned."""

    # Functions.

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        definition = function.definition
        depth = sum(frame.function is definition for frame in self.frames)
        if depth > 1 or len(self.frames) > DEPTH:
            return UNKNOWN
        env = self._bind(
            definition, [*([function.receiver] if function.receiver else []), *args], keywords
        )
        if self.silent and self._is_nested_in_init(definition):
            return UNKNOWN
        self.note(definition.node, CALLED, state=state_of_inputs(definition))
        closed = function.scope is None
        key = (id(definition), bool(self.silent), tuple(env.items())) if closed else None
        if key is not None and key in self.summaries:
            result, known, stored = self.summaries[key]
            self.noted |= known
            self._store(stored)
            return result
        number = self.contexts[id(definition)] = self.contexts.get(id(definition), 0) + 1
        if number > CONTEXTS and closed:
            return UNKNOWN
        if key is not None:
            self.summaries[key] = UNKNOWN, frozenset(), frozenset()  # for a recursive call
        outer, self.noted = self.noted, set()
        try:
            result = self.run_function(definition, env, function.receiver, function.scope)
        finally:
            seen, self.noted = self.noted, outer
            self.noted |= seen
        if key is not None:
            self.summaries[key] = result, frozenset(seen), self.stored
        return result

    def _store(self, names: frozenset[str]) -> None:
        """Count attributes that a call has assigned as assigned by its caller."""
        self.stored = names
        if self.frames and not self.silent:
            self.frame.stored |= names

    def _is_nested_in_init(self, definition: FunctionDefinition) -> bool:
        """Return whether a call inside `__init__` is nested too deeply to be followed."""
        if definition.name == "__init__":
            return False
        names = [frame.function.name for frame in self.frames]
        if "__init__" not in names:
            return False
        return names[::-1].index("__init__") >= NESTED_IN_INIT

    def run_function(
        self,
        definition: FunctionDefinition,
        env: Env,
        receiver: Value = (),
        scope: dict[str, Value] | None = None,
    ) -> Value:
        """Evaluate the body of a function and return its result.

        `env` holds its arguments, `receiver` the first of a bound method, `scope` the variables
        of the functions that contain it.
        """
        frame = Frame(definition, definition.module, env, receiver, scope)
        self.frames.append(frame)
        outer = self.comprehensions
        self.comprehensions = 0
        try:
            if isinstance(definition.node, ast.Lambda):
                return self.evaluate(definition.node.body)
            self.run_block(definition.node.body)
            if frame.env is not None:
                frame.returned.append(NONE)
            if frame.yielded:
                return sequence_of(join_all(frame.yielded) or UNKNOWN, "generator")
            return join_all(frame.returned) or UNKNOWN
        finally:
            self.comprehensions = outer
            self._store(frozenset(self.frames.pop().stored))

    def _bind(
        self, definition: FunctionDefinition, args: list[Value], keywords: dict[str, Value]
    ) -> Env:
        """Return the values of the parameters of a call, by name."""
        signature, parameters = definition.signature, definition.node.args
        env: Env = {one.arg: value for one, value in zip(signature.positional, args, strict=False)}
        rest = dict(keywords)
        for one in signature.parameters:
            if one.arg in rest:
                env[one.arg] = rest.pop(one.arg)
            if one.annotation is not None and is_unknown(env.get(one.arg, NONE)):
                env[one.arg] = value_of_annotation(one.annotation, definition.module)
        self._bind_defaults(definition, env)
        if parameters.vararg is not None:
            extra = args[len(signature.positional) :]
            env[parameters.vararg.arg] = sequence_of(join_all(extra) or UNKNOWN, "tuple")
        if parameters.kwarg is not None:
            env[parameters.kwarg.arg] = (Mapping(tuple(rest.items()), ()),)
        for one in signature.parameters:
            env.setdefault(one.arg, UNKNOWN)
        return env

    def _bind_defaults(self, definition: FunctionDefinition, env: Env) -> None:
        for name, default in definition.signature.defaults:
            if name not in env:
                env[name] = self.evaluate_global(definition.module, default)

    # Entries.

    def start_file(self) -> None:
        """Reset the notes and the counts of evaluated functions, to start another file."""
        self.noted = set()
        self.contexts.clear()

    def run_entry(self, entry: Entry) -> None:
        """Evaluate a function that runs compiled; stop if it takes too long, and keep the notes."""
        self.fuel = FUEL
        function, owner = entry.function, entry.owner
        receiver: Value = (Instance(owner),) if owner is not None else ()
        if entry.context:
            receiver = (Object("torch.autograd.function.FunctionCtx"),)
        try:
            env = self.parameters_of_entry(function, receiver)
            for one in changing_inputs(function, env):
                state, proved = state_of_inputs(function), one.constant and entry.compiled
                self.noted.add(Note(one.construct, one.node, function, proved, (), state))
            bound = receiver if owner is not None else ()
            self.run_function(function, env, bound, self._scope_around(function))
        except (OutOfFuel, RecursionError):
            self.frames.clear()
            self.silent = self.comprehensions = 0

    def _scope_around(self, function: FunctionDefinition) -> dict[str, Value] | None:
        """Return the functions that those around an entry define, by name; None at the top."""
        if (function.owner or function) in function.module.definitions.values():
            return None  # most are, and a search of the file for each entry takes time
        around = functions_around(function.module.source.tree, function.node)
        scope: dict[str, Value] = {}
        for outer in around:
            for one in statements_of(outer.body):
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                    definition = self.definition_of(one, function, f"{outer.name}.")
                    scope.setdefault(one.name, (Function(definition, (), scope),))
        return scope if around else None

    def parameters_of_entry(
        self, definition: FunctionDefinition, receiver: Value, compiled: bool = True
    ) -> Env:
        """Return the values of an entry's parameters, from annotations, defaults and uses.

        If `compiled` is False, parameters without annotation are unknown.
        """
        node, module = definition.node, definition.module
        defaults = dict(definition.signature.defaults)
        env: Env = {}
        names = [*node.args.posonlyargs, *node.args.args]
        if receiver and names:
            env[names[0].arg] = receiver
            names = names[1:]
        for one in (*names, *node.args.kwonlyargs):
            value = value_of_annotation(one.annotation, module)
            if one.annotation is None and compiled:
                value = self._guess(definition, one.arg, defaults.get(one.arg))
            elif one.arg in defaults and is_none(defaults[one.arg]):
                value = join(value, NONE)
            env[one.arg] = value
        if node.args.vararg is not None:
            env[node.args.vararg.arg] = sequence_of(UNKNOWN, "tuple")
        if node.args.kwarg is not None:
            env[node.args.kwarg.arg] = (Mapping((), UNKNOWN),)
        return env

    def _guess(self, definition: FunctionDefinition, name: str, default: ast.expr | None) -> Value:
        """Return the value of a parameter without annotation, from its default and its uses."""
        if isinstance(default, ast.Constant) and default.value is not None:
            return (Plain(type(default.value).__name__),)
        seen = evidence_for(definition, name)
        if seen is Evidence.NONE and self._is_passed_to_tensor_code(definition, name):
            seen = Evidence.TENSOR
        if seen is Evidence.OTHER:
            return UNKNOWN
        value = TENSOR if seen is Evidence.TENSOR else LIKELY_TENSOR
        if default is not None:
            if not is_none(default):
                return UNKNOWN
            value = join(value if seen is Evidence.TENSOR else UNKNOWN, NONE)
        return value

    def _is_passed_to_tensor_code(self, definition: FunctionDefinition, name: str) -> bool:
        """Return whether a method calls a layer or method of `self` with a parameter as tensor."""
        owner = definition.owner
        for node in definition.nodes:
            if not isinstance(node, ast.Call) or not node.args:
                continue
            first = node.args[0]
            if not (isinstance(first, ast.Name) and first.id == name):
                continue
            function = node.func
            if (
                owner is not None
                and isinstance(function, ast.Attribute)
                and isinstance(function.value, ast.Name)
                and function.value.id == "self"
            ):
                value = self.quiet_attribute(owner, function.attr)
                if any(self._needs_tensor(one) for one in value):
                    return True
        return False

    def quiet_attribute(self, kind: ClassDefinition, name: str) -> Value:
        """Return an attribute of an instance of `kind`, without notes."""
        self.silent += 1
        try:
            return self.instance_attribute(kind, name)
        finally:
            self.silent -= 1

    def _needs_tensor(self, one: object, depth: int = 0) -> bool:
        """Return whether calling a value needs a tensor as its first argument."""
        if isinstance(one, Layer):
            if one.name.endswith((".Sequential", ".ModuleList")):
                return any(self._needs_tensor(o, depth + 1) for o in one.element) and depth < 3
            return not one.name.endswith((".Identity", ".ModuleDict", ".Module"))
        method = None
        if isinstance(one, Instance):
            method = one.kind.method("forward")
        elif isinstance(one, Function) and one.receiver:
            method = one.definition
        if method is None or depth > 2:
            return False
        parameters = method.node.args.args[1:]
        if not parameters:
            return False
        if parameters[0].annotation is not None:
            return value_of_annotation(parameters[0].annotation, method.module) == TENSOR
        return evidence_for(method, parameters[0].arg) is Evidence.TENSOR

    # Globals.

    def evaluate_global(self, module: Module, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant):
            return NONE if node.value is None else (Literal(node.value, type(node.value).__name__),)
        if id(module) not in self.static_modules:
            body = ast.parse("def module(): pass").body[0]
            assert isinstance(body, ast.FunctionDef)
            self.static_modules[id(module)] = FunctionDefinition(body, module)
        self.frames.append(Frame(self.static_modules[id(module)], module, {}))
        self.silent += 1
        try:
            return self.evaluate(node)
        finally:
            self.silent -= 1
            self.frames.pop()
