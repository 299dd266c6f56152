"""Search that tries simplifications of a script, each in a forked child."""

from __future__ import annotations

import ast
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import libcst as cst

from fullgraph.minifier.oracle.oracle import Oracle
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.source.inlining import CALLED_METHODS
from fullgraph.minifier.reduce.source.proposals import Propose
from fullgraph.minifier.reduce.source.source_tree import SourceTree, TreeEdit
from fullgraph.minifier.reduce.subsets import take_most

Begin = Callable[[str], Callable[[], bool]]
"""Starts a trial of a text, and returns a function that waits for its verdict."""


class ScriptProblem(Problem[str]):
    """A failing script to simplify, which remembers verdicts so that no text is tried twice."""

    def __init__(
        self, text: str, begin: Begin, *, oracle: Oracle | None = None, seconds: float = math.inf
    ) -> None:
        """`oracle` gives the budget and the number of jobs, and counts the trials.

        After `seconds`, no text is tried any more.
        """
        self._deadline = time.monotonic() + seconds
        self.start = self.current = text
        self._begin, self._of_reduction = begin, oracle
        self._known: dict[str, bool] = {text: True}

    def first(self, candidates: Iterable[str]) -> bool:
        drawn = iter(candidates)
        ahead: deque[tuple[str, Callable[[], bool]]] = deque()
        accepted = ""
        while True:
            room = 0 if accepted else self._jobs - len(ahead)
            for text in islice(drawn, room):
                ahead.append((text, self._verdict_of(text)))
            if not ahead:
                break
            text, wait = ahead.popleft()
            self._known[text] = wait()
            if self._known[text] and not accepted:
                accepted = self.current = text
        return bool(accepted)

    def fails(self, candidate: str) -> bool:
        self._known[candidate] = self._verdict_of(candidate)()
        return self._known[candidate]

    def _verdict_of(self, text: str) -> Callable[[], bool]:
        """Start a trial of `text` unless it was tried; return a function that gives the verdict."""
        if text in self._known:
            return lambda: self._known[text]
        oracle = self._of_reduction
        if time.monotonic() > self._deadline:
            return lambda: False
        if oracle is not None:
            if oracle.is_out_of_budget():
                return lambda: False
            oracle.counts.calls += 1
            oracle.counts.candidates += 1
        return self._begin(text)

    @property
    def _jobs(self) -> int:
        return max(1, self._of_reduction.sandbox.jobs) if self._of_reduction is not None else 1


class ScriptSearch:
    """Search that applies proposed edits to a script and keeps those with which it fails."""

    def __init__(self, problem: Problem[str]) -> None:
        self.problem = problem

    def apply(self, *proposers: Propose) -> bool:
        """Apply as many of the proposed edits as possible; return whether any was applied."""
        start = self.problem.current
        tree = SourceTree(start)
        edits = [edit for propose in proposers for edit in propose(tree)]

        def build(chosen: Sequence[TreeEdit]) -> Iterator[str]:
            """Yield the text after these edits; nothing if it is invalid or unchanged."""
            try:
                text = _without_unused(tree.with_edits(chosen))
            except (cst.CSTValidationError, SyntaxError, ValueError):
                return
            if text != self.problem.current:
                yield text

        take_most(self.problem, edits, build)
        return self.problem.current != start

    def drop_unused(self) -> bool:
        """Remove definitions that nothing mentions; return whether any was removed."""
        text = _without_unused(self.problem.current)
        return text != self.problem.current and self.problem.first([text])


def _without_unused(text: str) -> str:
    """Return `text` without definitions, imports and names that nothing mentions.

    Raises SyntaxError.
    """
    while True:
        tree = ast.parse(text)
        compile(text, "<candidate>", "exec", dont_inherit=True)
        gone = [statement for statement in tree.body if _is_unused(statement, tree)]
        gone = gone or list(_unused_methods(tree))
        if not gone:
            return text
        lines = text.split("\n")
        for statement in reversed(gone):
            first = min((d.lineno for d in getattr(statement, "decorator_list", [])), default=0)
            del lines[(first or statement.lineno) - 1 : statement.end_lineno]
        text = "\n".join(lines)


def _unused_methods(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the methods that nothing mentions and torch does not call, in text order."""
    nodes = list(ast.walk(tree))
    mentioned = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    mentioned |= {value for value in constants if isinstance(value, str)}
    methods = [
        method
        for kind in nodes
        if isinstance(kind, ast.ClassDef) and len(kind.body) > 1
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and method.name not in CALLED_METHODS | mentioned
    ]
    yield from sorted(methods, key=lambda method: method.lineno)


def _is_unused(statement: ast.stmt, tree: ast.Module) -> bool:
    """Return whether a statement only binds names that no other statement mentions."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            names = [] if statement.decorator_list else [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            names = [alias.asname or alias.name.partition(".")[0] for alias in aliases]
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_plain(value):
            names = [name]
        case _:
            return False
    if not names or "torch" in names:
        return False
    others = [other for other in tree.body if other is not statement]
    return not any(_mentions(other, name) for other in others for name in names)


def _mentions(node: ast.AST, name: str) -> bool:
    """Return whether `node` mentions the name, other than as a local variable of a function."""
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, ast.FunctionDef) and name in _local_names(node):
        return any(_mentions(one, name) for one in (*node.args.defaults, *node.decorator_list))
    return any(_mentions(child, name) for child in ast.iter_child_nodes(node))


def _is_plain(value: ast.expr) -> bool:
    """Return whether an expression is a constant, a name, or a call such as `torch.ones(3)`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func).startswith("torch."):
        return all(isinstance(arg, ast.Constant) for arg in value.args)
    return isinstance(value, ast.Constant | ast.Name)


def _local_names(function: ast.FunctionDef) -> set[str]:
    """Return the parameters of a function and the variables that it assigns."""
    stored = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    shared = {
        name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names
    }
    return ({arg.arg for arg in function.args.args} | stored) - shared
