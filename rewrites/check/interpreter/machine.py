"""State of the abstract interpreter: frames, names, what was noted, and the limits of the work."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fullgraph.rewrites.check.facts import Facts, Span
from fullgraph.rewrites.check.interpreter.values import (
    UNKNOWN,
    ClassObject,
    External,
    Function,
    ModuleObject,
    Value,
    join,
)
from fullgraph.rewrites.check.project import ClassDefinition, FunctionDefinition, Module, Project
from fullgraph.rewrites.check.syntax import imported_names

Env = dict[str, Value]
"""Values by name; by path for attributes that the function assigned or tested: "self.cache"."""
FUEL = 60_000
"""Number of expressions and statements that are evaluated for one entry."""


class OutOfFuel(Exception):
    """An entry takes too long; what was found until then counts."""


@dataclass(frozen=True)
class Note:
    """An expression that does what a construct of the table does."""

    construct: str
    """Key of the table: "branch.if", "method:item", "call:time.time"."""
    node: ast.expr | ast.stmt
    function: FunctionDefinition
    proved: bool
    context: tuple[ast.AST, ...] = ()
    """The statement around the expression, and for a condition the whole condition."""


@dataclass(eq=False)
class Frame:
    """One evaluation of a function."""

    function: FunctionDefinition
    module: Module
    env: Env | None
    """None where the code cannot be reached."""
    receiver: Value = ()
    enclosing: Env | None = None
    returned: list[Value] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    exits: list[list[Env]] = field(default_factory=list)
    """Environments at the `break`s and `continue`s of each loop around."""
    statement: ast.stmt | None = None
    global_names: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    """Attributes that the function assigned so far."""


class Machine:
    """Names, notes and limits; the evaluation is added in layers on top."""

    def __init__(self, project: Project, facts: Facts) -> None:
        self.project = project
        self.facts = facts
        self.tensors: dict[int, Mapping[Span, str]] = {}
        """The facts of each module."""
        self.frames: list[Frame] = []
        self.noted: set[Note] = set()
        """What the running function and those that it calls noted."""
        self.summaries: dict[object, tuple[Value, frozenset[Note]]] = {}
        """Result of each call, and what was noted during it."""
        self.globals: dict[tuple[int, str], Value] = {}
        self.attributes: dict[int, dict[str, Value]] = {}
        self.fuel = FUEL
        self.values: dict[ast.expr, Value] | None = None
        """What each expression was, joined over all calls; None if nobody asks."""
        self.silent = 0
        """Depth of evaluations that note nothing, such as those of `__init__`."""

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    # What was found.

    def note(
        self,
        node: ast.expr | ast.stmt,
        construct: str,
        proved: bool = True,
        context: Iterable[ast.AST] = (),
    ) -> None:
        """Note that an expression is an instance of a construct."""
        if self.silent:
            return
        self.noted.add(Note(construct, node, self.frame.function, proved, tuple(context)))

    def burn(self) -> None:
        """Count one step. Raises OutOfFuel."""
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel

    # Names.

    def lookup(self, name: str) -> Value:
        """Return the value of a name in the current frame."""
        frame = self.frame
        if frame.env is not None and name in frame.env:
            return frame.env[name]
        if frame.enclosing is not None and name in frame.enclosing:
            return frame.enclosing[name]
        return self.global_value(frame.module, name)

    def global_value(self, module: Module, name: str) -> Value:
        """Return the value of a name at the top level of a module, or of a builtin."""
        key = (id(module), name)
        if key not in self.globals:
            self.globals[key] = UNKNOWN  # for a name that is defined by itself
            self.globals[key] = self._find_global(module, name)
        return self.globals[key]

    def _find_global(self, module: Module, name: str) -> Value:
        if name in module.assigned and name not in module.definitions:
            if name in module.written_globals or len(module.assigned[name]) > 1:
                return UNKNOWN
            return self.evaluate_global(module, module.assigned[name][0])
        bound = name in module.definitions or name in module.imports
        if not bound and name in BUILTINS:
            return (External(f"builtins.{name}"),)
        known = module.find(name)
        return self.value_of_definition(known) if known is not None else UNKNOWN

    def value_of_definition(
        self, known: FunctionDefinition | ClassDefinition | Module | str
    ) -> Value:
        """Return what `Module.find` returned as a value."""
        if isinstance(known, FunctionDefinition):
            return (Function(known),)
        if isinstance(known, ClassDefinition):
            return (ClassObject(known),)
        if isinstance(known, Module):
            return (ModuleObject(known),)
        return self.external(known)

    def external(self, qualified: str) -> Value:
        """Return the value of a qualified name; a name of the project if it has one."""
        module, _, last = qualified.rpartition(".")
        asking = self.frames[-1].module if self.frames else None
        inside = self.project.module(module, asking) if module else None
        if inside is not None and last:
            if last in inside.assigned:
                return self.global_value(inside, last)
            if inside.find(last) is None:
                return UNKNOWN
        return (External(qualified),)

    def import_locally(self, node: ast.Import | ast.ImportFrom) -> None:
        """Bind the names of an import statement inside a function."""
        env = self.frame.env
        assert env is not None
        for name, qualified in imported_names([node], self.frame.module.package):
            known = self.project.find(qualified, self.frame.module)
            env[name] = self.value_of_definition(known) if known is not None else UNKNOWN

    # What the layers above evaluate.

    def evaluate(self, node: ast.expr) -> Value:
        """Return the value of an expression in the current frame."""
        raise NotImplementedError

    def evaluate_global(self, module: Module, node: ast.expr) -> Value:
        """Return the value of an expression at the top level of a module."""
        raise NotImplementedError

    def call(
        self, function: Value, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of a call."""
        raise NotImplementedError

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """Return the result of calling a function of the project."""
        raise NotImplementedError

    def class_attribute(self, kind: ClassDefinition, name: str) -> Value | None:
        """Return an attribute that `__init__` or the class body sets; None if neither does."""
        raise NotImplementedError

    def initial_attribute(self, kind: ClassDefinition, name: str) -> Value | None:
        """Return the value that `__init__` or the class body gives an attribute."""
        raise NotImplementedError

    def condition(self, node: ast.expr, construct: str) -> bool | None:
        """Evaluate a condition, note a branch on a tensor, and return its truth if known."""
        raise NotImplementedError

    def narrow(self, node: ast.expr, outcome: bool) -> None:
        """Restrict the names of a condition to values for which it has an outcome."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a target to a value."""
        raise NotImplementedError


def join_environments(environments: Iterable[Env | None]) -> Env | None:
    """Return the join of the environments that can be reached."""
    reached = [one for one in environments if one is not None]
    if not reached:
        return None
    if len(reached) == 1:
        return reached[0]
    first, *others = reached
    joined = {}
    for name, value in first.items():
        values = [other.get(name) for other in others]
        present = [one for one in values if one is not None]
        if "." in name and len(present) < len(values):
            continue  # an attribute that only one branch knows
        joined[name] = join(value, *present) if present else value
    for other in others:
        for name, value in other.items():
            if name not in joined and "." not in name:
                joined[name] = value
    return joined


BUILTINS = frozenset(dir(builtins))
