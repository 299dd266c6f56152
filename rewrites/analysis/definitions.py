"""Reaching definitions of local names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.source import Document, FunctionNode

Bindings = frozenset[cst.CSTNode]
ReachingBindings = dict[str, Bindings]


@dataclass(frozen=True, eq=False)
class Definitions:
    """The local names of one function. A binding is the node that stores: mostly a `Name`."""

    function: FunctionNode
    reaching: Mapping[cst.Name, Bindings]
    """Bindings that reach each use of a local name."""
    before: Mapping[cst.CSTNode, ReachingBindings]
    """Bindings that reach the start of each statement."""

    def uses(self, binding: cst.CSTNode) -> list[cst.Name]:
        """Return the uses that a binding reaches, nested functions included."""
        return [use for use, bindings in self.reaching.items() if binding in bindings]


def find_definitions(document: Document, node: cst.CSTNode) -> Definitions | None:
    """Analyze the function around `node`; None at module level and in lambdas."""
    function = document.function(node)
    if not isinstance(function, cst.FunctionDef):
        return None
    walk = _Walk(document, function)
    walk.run()
    return Definitions(function, walk.reaching, walk.before)


@dataclass
class _Loop:
    """States at the exits of a loop, and at its `continue` statements."""

    exits: list[ReachingBindings] = field(default_factory=list)
    nexts: list[ReachingBindings] = field(default_factory=list)


class _Walk:
    """Walk over a function in evaluation order; the state None means unreachable."""

    def __init__(self, document: Document, function: cst.FunctionDef) -> None:
        self.document = document
        self.function = function
        self.state: ReachingBindings | None = {}
        self.reaching: dict[cst.Name, Bindings] = {}
        self.before: dict[cst.CSTNode, ReachingBindings] = {}
        self.every: ReachingBindings = {}
        self.loops: list[_Loop] = []
        self.nested: list[cst.Name] = []

    def run(self) -> None:
        for parameter in _nodes(self.function.params, lambda n: isinstance(n, cst.Param)):
            assert isinstance(parameter, cst.Param)
            self.store(parameter.name)
        self.block(self.function.body)
        for use in self.nested:
            if use.value in self.every:
                self.reaching[use] = self.every[use.value]

    # Statements.

    def block(self, body: cst.BaseSuite) -> None:
        for statement in body.body:
            if self.state is not None:
                known = self.before.get(statement, {})
                self.before[statement] = _merged([known, self.state]) or {}
            if isinstance(statement, cst.BaseCompoundStatement):
                self.compound(statement)
            elif isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self.small(small)
            else:
                self.small(statement)

    def small(self, node: cst.CSTNode) -> None:
        match node:
            case cst.Assign():
                self.load(node.value)
                for target in node.targets:
                    self.target(target.target)
            case cst.AnnAssign(value=None):
                pass
            case cst.AnnAssign():
                self.load(node.value)
                self.target(node.target)
            case cst.AugAssign():
                self.load(node.target)
                self.load(node.value)
                self.target(node.target)
            case cst.Import() | cst.ImportFrom():
                for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
                    self.bind(alias.evaluated_alias or alias.evaluated_name, alias)
            case cst.Return() | cst.Raise():
                self.load(node)
                self.state = None
            case cst.Break() | cst.Continue():
                if self.loops and self.state is not None:
                    states = self.loops[-1]
                    (states.exits if isinstance(node, cst.Break) else states.nexts).append(
                        self.state
                    )
                self.state = None
            case _:
                self.load(node)

    def compound(self, node: cst.BaseCompoundStatement) -> None:
        match node:
            case cst.If():
                self.load(node.test)
                start = self.state
                self.block(node.body)
                taken, self.state = self.state, start
                match node.orelse:
                    case cst.If() as other:
                        self.before[other] = dict(start or {})
                        self.compound(other)
                    case cst.Else(body=body):
                        self.block(body)
                self.state = _merged([taken, self.state])
            case cst.For() | cst.While():
                self.loop(node)
            case cst.With():
                for item in node.items:
                    self.load(item.item)
                    if item.asname is not None:
                        self.target(item.asname.name)
                self.block(node.body)
            case cst.Try() | cst.TryStar():
                self.attempt(node)
            case cst.Match():
                self.load(node.subject)
                start, ends = self.state, [self.state]
                for case in node.cases:
                    self.state = dict(start) if start is not None else None
                    for name in _nodes(case.pattern, lambda n: isinstance(n, cst.MatchAs)):
                        if isinstance(name, cst.MatchAs) and name.name is not None:
                            self.store(name.name)
                    if case.guard is not None:
                        self.load(case.guard)
                    self.block(case.body)
                    ends.append(self.state)
                self.state = _merged(ends)
            case cst.FunctionDef() | cst.ClassDef():
                self.load(node.body)
                self.store(node.name)

    def loop(self, node: cst.For | cst.While) -> None:
        if isinstance(node, cst.For):
            self.load(node.iter)
        states = _Loop()
        self.loops.append(states)
        for _ in range(2):  # bindings of one iteration reach the next
            self.state = _merged([self.state, *states.nexts])
            skipped = self.state
            if isinstance(node, cst.For):
                self.target(node.target)
            else:
                self.load(node.test)
            self.block(node.body)
            self.state = _merged([skipped, self.state])
        self.loops.pop()
        if node.orelse is not None:
            self.block(node.orelse.body)
        self.state = _merged([self.state, *states.exits, *states.nexts])

    def attempt(self, node: cst.Try | cst.TryStar) -> None:
        start = self.state
        self.block(node.body)
        ended = self.state
        made = {
            name.value: self.every[name.value]
            for name in _nodes(node.body, lambda n: isinstance(n, cst.Name))
            if isinstance(name, cst.Name) and name.value in self.every
        }
        anywhere = _merged([start, made])
        if node.orelse is not None:
            self.block(node.orelse.body)
        ends = [self.state]
        for handler in node.handlers:
            self.state = dict(anywhere or {})
            if handler.name is not None:
                self.target(handler.name.name)
            self.block(handler.body)
            ends.append(self.state)
        self.state = _merged(ends)
        if node.finalbody is not None:
            self.state = _merged([self.state, ended, anywhere])
            self.block(node.finalbody.body)

    # Names.

    def load(self, node: cst.CSTNode | None) -> None:
        for name in _nodes(node, lambda n: isinstance(n, cst.Name)) if node else ():
            assert isinstance(name, cst.Name)
            if not self.is_variable(name):
                continue
            parent = self.document.parent(name)
            if isinstance(parent, cst.NamedExpr) and parent.target is name:
                self.store(name)
            elif self.document.function(name) is not self.function:
                self.nested.append(name)
            elif self.state is not None and name.value in self.state:
                known = self.reaching.get(name, frozenset())
                self.reaching[name] = known | self.state[name.value]

    def target(self, node: cst.CSTNode) -> None:
        match node:
            case cst.Name():
                self.store(node)
            case cst.Tuple() | cst.List():
                for element in node.elements:
                    self.target(element.value)
            case cst.StarredElement():
                self.target(node.value)
            case _:
                self.load(node)

    def store(self, name: cst.Name) -> None:
        self.bind(name.value, name)

    def bind(self, name: str, node: cst.CSTNode) -> None:
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


def _merged(states: Sequence[ReachingBindings | None]) -> ReachingBindings | None:
    """Join the states of branches that meet; None if all are unreachable."""
    alive = [state for state in states if state is not None]
    if not alive:
        return None
    names = dict.fromkeys(name for state in alive for name in state)
    return {n: frozenset().union(*(state.get(n, frozenset()) for state in alive)) for n in names}


def _nodes(node: cst.CSTNode, wanted: Callable[[cst.CSTNode], bool]) -> Iterator[cst.CSTNode]:
    if wanted(node):
        yield node
    for child in node.children:
        yield from _nodes(child, wanted)
