"""Reaching definitions of local names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import libcst as cst

from fullgraph.rewrites.analysis.flow import chain_root
from fullgraph.rewrites.source import Document, FunctionNode, walk

Bindings = frozenset[cst.CSTNode]
"""Nodes that bind a name: an assignment target, a parameter, an import, …"""
ReachingBindings = dict[str, Bindings]
"""The bindings that reach one point of a function, by name."""


@dataclass(frozen=True, eq=False)
class Definitions:
    """Reaching definitions of the local names of one function."""

    function: FunctionNode
    reaching: Mapping[cst.Name, Bindings]
    """Bindings that reach each use of a local name."""
    before: Mapping[cst.CSTNode, ReachingBindings]
    """Bindings that reach the start of each statement."""

    def uses(self, binding: cst.CSTNode) -> list[cst.Name]:
        """Return the uses that a binding reaches, nested functions included."""
        return [use for use, bindings in self.reaching.items() if binding in bindings]


def assigned_value(document: Document, binding: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the value that an assignment binds a name to; None for other bindings.

    Of `a, b = x, y` that is `x` for `a`.
    """
    parent = document.parents.get(binding)
    if isinstance(parent, cst.Element):
        display = document.parent(parent)
        values = assigned_value(document, display)
        if not isinstance(display, cst.Tuple) or not isinstance(values, cst.Tuple):
            return None
        pairs = [*display.elements, *values.elements]
        if len(display.elements) != len(values.elements) or any(
            isinstance(one, cst.StarredElement) for one in pairs
        ):
            return None
        return values.elements[display.elements.index(parent)].value
    assign = document.parents.get(parent) if isinstance(parent, cst.AssignTarget) else None
    single = isinstance(assign, cst.Assign) and len(assign.targets) == 1
    return assign.value if isinstance(assign, cst.Assign) and single else None


def parameter_of(document: Document, node: cst.CSTNode) -> cst.Param | None:
    """Return a parameter that gives the variable at the start of a chain its value, if one may."""
    root = chain_root(node)
    known = find_definitions(document, root)
    if known is None or not isinstance(root, cst.Name):
        return None
    binders = map(document.parents.get, known.reaching.get(root, ()))
    return next((one for one in binders if isinstance(one, cst.Param)), None)


def assigned_values(document: Document, name: cst.CSTNode) -> list[cst.BaseExpression | None]:
    """Return what may have been assigned to a local name where it is read; None for other bindings.

    [] for any other expression.
    """
    known = find_definitions(document, name) if isinstance(name, cst.Name) else None
    if known is None or not isinstance(name, cst.Name):
        return []
    return [assigned_value(document, one) for one in known.reaching.get(name, ())]


def only_value(document: Document, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the value that a local name has where it is read, if only one was assigned to it."""
    values = assigned_values(document, node)
    return values[0] if len(values) == 1 else None


def find_definitions(
    document: Document, node: cst.CSTNode, taken: Mapping[cst.If, bool] | None = None
) -> Definitions | None:
    """Return the definitions in the function around `node`; None if it is not in a `def`.

    `taken` are conditions that have a known value.
    """
    function = document.function(node)
    if not isinstance(function, cst.FunctionDef):
        return None
    return _definitions_in(document, function, frozenset((taken or {}).items()))


@lru_cache(maxsize=128)
def _definitions_in(
    document: Document, function: cst.FunctionDef, taken: frozenset[tuple[cst.If, bool]]
) -> Definitions:
    """Return the definitions in a function, for `find_definitions` of any node in it."""
    walk = _Walk(document, function, dict(taken))
    walk.run()
    return Definitions(function, walk.reaching, walk.before)


@dataclass
class _Loop:
    """Reaching bindings at the `break` statements of a loop, and at its `continue` statements."""

    exits: list[ReachingBindings] = field(default_factory=list)
    nexts: list[ReachingBindings] = field(default_factory=list)


class _Walk:
    """Walk over a function in evaluation order; `state` is None where code is unreachable."""

    def __init__(
        self, document: Document, function: cst.FunctionDef, taken: Mapping[cst.If, bool]
    ) -> None:
        self.document = document
        self.function = function
        self.taken = taken
        self.state: ReachingBindings | None = {}
        self.reaching: dict[cst.Name, Bindings] = {}
        self.before: dict[cst.CSTNode, ReachingBindings] = {}
        self.every: ReachingBindings = {}
        self.loops: list[_Loop] = []
        self.nested: list[cst.Name] = []

    def run(self) -> None:
        """Walk the function; every binding of a variable reaches its uses in nested functions."""
        for parameter in _nodes_that(self.function.params, lambda n: isinstance(n, cst.Param)):
            assert isinstance(parameter, cst.Param)
            self.bind_name(parameter.name)
        self.walk_block(self.function.body)
        for use in self.nested:
            if use.value in self.every:
                self.reaching[use] = self.every[use.value]

    # Statements.

    def walk_block(self, body: cst.BaseSuite) -> None:
        """Walk statements in order, and record the state before each."""
        for statement in body.body:
            if self.state is not None:
                known = self.before.get(statement, {})
                self.before[statement] = _merge_states([known, self.state]) or {}
            if isinstance(statement, cst.BaseCompoundStatement):
                self.walk_compound(statement)
            elif isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self.walk_small(small)
            else:
                self.walk_small(statement)

    def walk_small(self, node: cst.CSTNode) -> None:
        """Walk a simple statement: first its reads, then its bindings."""
        match node:
            case cst.Assign():
                self.walk_uses(node.value)
                for target in node.targets:
                    self.bind_target(target.target)
            case cst.AnnAssign(value=None):
                pass
            case cst.AnnAssign():
                self.walk_uses(node.value)
                self.bind_target(node.target)
            case cst.AugAssign():
                self.walk_uses(node.target)
                self.walk_uses(node.value)
                self.bind_target(node.target)
            case cst.Import() | cst.ImportFrom():
                for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
                    self.bind(alias.evaluated_alias or alias.evaluated_name, alias)
            case cst.Return() | cst.Raise():
                self.walk_uses(node)
                self.state = None
            case cst.Break() | cst.Continue():
                if self.loops and self.state is not None:
                    states = self.loops[-1]
                    (states.exits if isinstance(node, cst.Break) else states.nexts).append(
                        self.state
                    )
                self.state = None
            case _:
                self.walk_uses(node)

    def walk_compound(self, node: cst.BaseCompoundStatement) -> None:
        """Walk a compound statement and merge the states of its branches."""
        match node:
            case cst.If():
                self.walk_uses(node.test)
                start, value = self.state, self.taken.get(node)
                self.state = None if value is False else start
                self.walk_block(node.body)
                taken, self.state = self.state, None if value else start
                match node.orelse:
                    case cst.If() as other:
                        self.before[other] = dict(self.state or {})
                        self.walk_compound(other)
                    case cst.Else(body=body):
                        self.walk_block(body)
                self.state = _merge_states([taken, self.state])
            case cst.For() | cst.While():
                self.walk_loop(node)
            case cst.With():
                for item in node.items:
                    self.walk_uses(item.item)
                    if item.asname is not None:
                        self.bind_target(item.asname.name)
                self.walk_block(node.body)
            case cst.Try() | cst.TryStar():
                self.walk_try(node)
            case cst.Match():
                self.walk_uses(node.subject)
                start, ends = self.state, [self.state]
                for case in node.cases:
                    self.state = dict(start) if start is not None else None
                    for name in _nodes_that(case.pattern, lambda n: isinstance(n, cst.MatchAs)):
                        if isinstance(name, cst.MatchAs) and name.name is not None:
                            self.bind_name(name.name)
                    if case.guard is not None:
                        self.walk_uses(case.guard)
                    self.walk_block(case.body)
                    ends.append(self.state)
                self.state = _merge_states(ends)
            case cst.FunctionDef() | cst.ClassDef():
                self.walk_uses(node.body)
                self.bind_name(node.name)

    def walk_loop(self, node: cst.For | cst.While) -> None:
        """Walk a loop twice, so that definitions of one iteration reach the next."""
        if isinstance(node, cst.For):
            self.walk_uses(node.iter)
        states = _Loop()
        self.loops.append(states)
        for _ in range(2):  # bindings of one iteration reach the next
            self.state = _merge_states([self.state, *states.nexts])
            skipped = self.state
            if isinstance(node, cst.For):
                self.bind_target(node.target)
            else:
                self.walk_uses(node.test)
            self.walk_block(node.body)
            self.state = _merge_states([skipped, self.state])
        self.loops.pop()
        if node.orelse is not None:
            self.walk_block(node.orelse.body)
        self.state = _merge_states([self.state, *states.exits, *states.nexts])

    def walk_try(self, node: cst.Try | cst.TryStar) -> None:
        """Walk a `try`; its handlers may start after any statement of the body."""
        start = self.state
        self.walk_block(node.body)
        ended = self.state
        made = {
            name.value: self.every[name.value]
            for name in _nodes_that(node.body, lambda n: isinstance(n, cst.Name))
            if isinstance(name, cst.Name) and name.value in self.every
        }
        anywhere = _merge_states([start, made])
        if node.orelse is not None:
            self.walk_block(node.orelse.body)
        ends = [self.state]
        for handler in node.handlers:
            self.state = dict(anywhere or {})
            if handler.name is not None:
                self.bind_target(handler.name.name)
            self.walk_block(handler.body)
            ends.append(self.state)
        self.state = _merge_states(ends)
        if node.finalbody is not None:
            self.state = _merge_states([self.state, ended, anywhere])
            self.walk_block(node.finalbody.body)

    # Names.

    def walk_uses(self, node: cst.CSTNode | None) -> None:
        """Record the definitions that reach each name in an expression."""
        for name in _nodes_that(node, lambda n: isinstance(n, cst.Name)) if node else ():
            assert isinstance(name, cst.Name)
            if not self.is_variable(name):
                continue
            parent = self.document.parent(name)
            if isinstance(parent, cst.NamedExpr) and parent.target is name:
                self.bind_name(name)
            elif (target := _comprehension_target(self.document, name)) is not None:
                if target is not name:
                    self.reaching[name] = frozenset({target})
            elif self.document.function(name) is not self.function:
                self.nested.append(name)
            elif self.state is not None and name.value in self.state:
                known = self.reaching.get(name, frozenset())
                self.reaching[name] = known | self.state[name.value]

    def bind_target(self, node: cst.CSTNode) -> None:
        """Bind the names of an assignment target."""
        match node:
            case cst.Name():
                self.bind_name(node)
            case cst.Tuple() | cst.List():
                for element in node.elements:
                    self.bind_target(element.value)
            case cst.StarredElement():
                self.bind_target(node.value)
            case _:
                self.walk_uses(node)

    def bind_name(self, name: cst.Name) -> None:
        self.bind(name.value, name)

    def bind(self, name: str, node: cst.CSTNode) -> None:
        """Make `node` the only definition of `name` from here on."""
        self.every[name] = self.every.get(name, frozenset()) | {node}
        if self.state is not None:
            self.state = {**self.state, name: frozenset({node})}

    def is_variable(self, name: cst.Name) -> bool:
        """Return whether a name is a variable, and not an attribute or a keyword."""
        parent = self.document.parents.get(name)
        if isinstance(parent, cst.Attribute):
            return parent.value is name
        if isinstance(parent, cst.Arg):
            return parent.value is name
        return not isinstance(parent, cst.Param | cst.FunctionDef | cst.ClassDef | cst.ImportAlias)


def _comprehension_target(document: Document, name: cst.Name) -> cst.Name | None:
    """Return the target that binds a name in a comprehension around it; None if none does."""
    path: list[cst.CSTNode] = [name]
    for around in document.ancestors(name):
        if isinstance(around, cst.BaseCompoundStatement | cst.BaseSmallStatement):
            return None
        if isinstance(around, cst.BaseComp) and path[-2:] != [around.for_in.iter, around.for_in]:
            clause: cst.CompFor | None = around.for_in
            while clause is not None:
                for target in _nodes_that(clause.target, lambda n: isinstance(n, cst.Name)):
                    if isinstance(target, cst.Name) and target.value == name.value:
                        return target
                clause = clause.inner_for_in
        path.append(around)
    return None


def _merge_states(states: Sequence[ReachingBindings | None]) -> ReachingBindings | None:
    """Return the bindings that reach a point where several paths meet.

    `states` holds the bindings on each path, None for an unreachable path. Return None if all paths
    are unreachable.
    """
    alive = [state for state in states if state is not None]
    if not alive:
        return None
    names = dict.fromkeys(name for state in alive for name in state)
    return {n: frozenset().union(*(state.get(n, frozenset()) for state in alive)) for n in names}


def _nodes_that(node: cst.CSTNode, wanted: Callable[[cst.CSTNode], bool]) -> Iterator[cst.CSTNode]:
    """Yield the nodes inside `node` for which `wanted` is true."""
    return filter(wanted, walk(node))
