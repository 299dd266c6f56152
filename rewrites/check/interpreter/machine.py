"""State of the abstract interpreter: frames, names, notes and limits."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
"""Values of local variables, and of attributes assigned or narrowed here ("self.cache")."""
DEPTH = 20
"""Number of nested calls that are followed at most."""
FUEL = 60_000
"""Number of expressions and statements that are evaluated for one entry at most."""


class OutOfFuel(Exception):
    """Raised when the interpreter has evaluated FUEL expressions for one entry; notes are kept."""


@dataclass(frozen=True)
class Note:
    """A note by the interpreter: this expression or statement may break the graph or recompile."""

    construct: str
    """Key of the table: "branch.if", "method:item", "call:time.time"."""
    node: ast.expr | ast.stmt | ast.arg
    function: FunctionDefinition
    proved: bool
    context: tuple[ast.AST, ...] = ()
    """The statement that contains the node."""
    state: str = ""
    """Key of the attribute or global that is read or changed here; "" if it is none."""
    needs: tuple[str, ...] = ()
    """Constructs, of which the compiled code must have one that reads the state."""


@dataclass(eq=False)
class Frame:
    """One call of a function that the interpreter is evaluating."""

    function: FunctionDefinition
    module: Module
    env: Env | None
    """None if the current code cannot be reached."""
    receiver: Value = ()
    enclosing: Env | None = None
    returned: list[Value] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    exits: list[list[Env]] = field(default_factory=list)
    """Environments at `break` and `continue`, in a list for each loop around the statement."""
    statement: ast.stmt | None = None
    global_names: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    """Names of the attributes that the function has assigned."""


class Machine:
    """State of the interpreter: call stack, notes and known values; subclasses evaluate code."""

    def __init__(self, project: Project, facts: Facts) -> None:
        self.project = project
        self.facts = facts
        self.tensors: dict[int, Mapping[Span, str]] = {}
        """The facts of each module, by its id."""
        self.methods: dict[type[ast.AST], Callable[[Any], Any]] = {}
        """Method that evaluates each type of expression or runs each type of statement."""
        self.frames: list[Frame] = []
        self.noted: set[Note] = set()
        """Notes of the function being evaluated and of those that it called."""
        self.summaries: dict[object, tuple[Value, frozenset[Note], frozenset[str]]] = {}
        """Result, notes and assigned attributes of each call, by function and arguments."""
        self.globals: dict[tuple[int, str], Value] = {}
        self.attributes: dict[int, dict[str, Value]] = {}
        self.constants: dict[ast.Constant, Value] = {}
        """Values of literals in the source."""
        self.fuel = FUEL
        """Number of steps, expressions and statements, that are left for this entry."""
        self.values: dict[ast.expr, Value] | None = None
        """Value of each expression, joined over all calls; None to record none."""
        self.silent = 0
        """Nesting of evaluations without notes, such as that of `__init__`; 0 to take notes."""

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
        state: str = "",
        needs: tuple[str, ...] = (),
    ) -> None:
        """Note that a node is an instance of a construct, unless notes are off."""
        if self.silent:
            return
        function = self.frame.function
        self.noted.add(Note(construct, node, function, proved, tuple(context), state, needs))

    def frame_statement(self) -> tuple[ast.AST, ...]:
        """Return the statement being evaluated, in a tuple; () if there is none."""
        return (self.frame.statement,) if self.frame.statement is not None else ()

    def method_for(
        self, verb: str, node: ast.AST, default: Callable[[Any], Any]
    ) -> Callable[[Any], Any]:
        """Return the method for a type of node, such as `eval_Call`; `default` if there is none."""
        kind = node.__class__
        method: Callable[[Any], Any] = getattr(self, f"{verb}_{kind.__name__}", default)
        self.methods[kind] = method
        return method

    # Names.

    def lookup(self, name: str) -> Value:
        """Return the value of a name in the current frame."""
        frame = self.frames[-1]
        for names in (frame.env, frame.enclosing):
            if names is not None and (known := names.get(name)) is not None:
                return known
        return self.global_value(frame.module, name)

    def global_value(self, module: Module, name: str) -> Value:
        """Return the value of a name at the top level of a module, or of a builtin."""
        key = (id(module), name)
        if (known := self.globals.get(key)) is not None:
            return known
        self.globals[key] = UNKNOWN  # for a name that is defined by itself
        found = self.globals[key] = self._find_global(module, name)
        return found

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
        """Convert a result of `Module.find` to an abstract value."""
        if isinstance(known, FunctionDefinition):
            return (Function(known),)
        if isinstance(known, ClassDefinition):
            return (ClassObject(known),)
        if isinstance(known, Module):
            return (ModuleObject(known),)
        return self.external(known)

    def external(self, qualified: str) -> Value:
        """Return the value of a qualified name: of a global of the project, else an `External`."""
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

    # What subclasses evaluate.

    def evaluate(self, node: ast.expr) -> Value:
        """Return the value of an expression in the current frame."""
        raise NotImplementedError

    def quiet(self, node: ast.expr) -> Value:
        """Evaluate an expression without notes."""
        self.silent += 1
        try:
            return self.evaluate(node)
        finally:
            self.silent -= 1

    def evaluate_global(self, module: Module, node: ast.expr) -> Value:
        """Return the value of an expression at the top level of a module."""
        raise NotImplementedError

    def call(
        self, function: Value, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of calling the value `function`; `node` is the call."""
        raise NotImplementedError

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """Return the result of calling a function of the project."""
        raise NotImplementedError

    def class_attribute(self, kind: ClassDefinition, name: str) -> Value | None:
        """Return an attribute of the instances of `kind`; None if no code of the class sets it."""
        raise NotImplementedError

    def initial_attribute(self, kind: ClassDefinition, name: str) -> Value | None:
        """Return the value of an attribute after `__init__`; None if the class does not set it."""
        raise NotImplementedError

    def condition(self, node: ast.expr, construct: str) -> bool | None:
        """Evaluate a condition and return its truth; None if unknown.

        A branch on a tensor or on data is noted as `construct`.
        """
        raise NotImplementedError

    def narrow(self, node: ast.expr, outcome: bool) -> None:
        """Narrow the variables in a condition to the alternatives for which it is `outcome`."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a target: a name, attribute, subscript or tuple of targets."""
        raise NotImplementedError


def join_environments(environments: Iterable[Env | None]) -> Env | None:
    """Return the join of the given environments: for each variable, what it is in any of them.

    An environment of None, for code that cannot be reached, is left out; None if all are None.
    """
    reached = [one for one in environments if one is not None]
    if not reached:
        return None
    if len(reached) == 1:
        return reached[0]
    first, *others = reached
    joined = {}
    for name, value in first.items():
        values = [one for other in others if (one := other.get(name)) is not value]
        if not values:
            joined[name] = value
            continue
        present = [one for one in values if one is not None]
        if "." in name and len(present) < len(values):
            continue  # an attribute that only one branch knows
        joined[name] = join(value, *present) if present else value
    for other in others:
        for name, value in other.items():
            if name not in joined and "." not in name:
                joined[name] = value
    return joined


def changed_names(before: Env, after: Env) -> set[str]:
    """Return the names whose values differ between two environments, or are in one of them only."""
    changed = {name for name, value in after.items() if before.get(name) != value}
    return changed | (before.keys() - after.keys())


BUILTINS = frozenset(dir(builtins))
