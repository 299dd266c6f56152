"""Values of all expressions of the functions around given positions, from one eager run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType

from fullgraph.compiler.events import Position
from fullgraph.compiler.facts import Term, ValueSummary
from fullgraph.compiler.observe.meta_tensors import evaluate_on_meta
from fullgraph.compiler.observe.summaries import SummaryRecorder
from fullgraph.compiler.observe.values import run_without_compiling
from fullgraph.compiler.sources import (
    ORIGINAL,
    FunctionEdit,
    FunctionNode,
    Source,
    edit_functions,
    first_line,
    is_user_code,
    read_source,
)


@dataclass(frozen=True)
class FunctionValues:
    """What one run recorded: a summary of each expression's values, by position.

    It can be pickled.
    """

    values: dict[Position, ValueSummary] = field(default_factory=dict)
    raised: str | None = None
    """Exception that ended the run early, as "ValueError: text"."""

    def at(self, position: Position) -> ValueSummary | None:
        """Return the values of the expression at `position`; None if none were recorded."""
        return self.values.get(replace(position, function=""))

    def at_other_sizes(self, position: Position) -> tuple[ValueSummary | None, ...]:
        """Return (): there was one run."""
        return ()

    def evaluate(self, term: Term) -> ValueSummary | None:
        """Return the facts of a term, computed on meta tensors; None if they are unknown."""
        return evaluate_on_meta(term)


def observe_functions(run: Callable[[], object], places: Iterable[Position]) -> FunctionValues:
    """Run the user's code once in eager, and record the values of its expressions.

    This records the outermost function around each of `places`, and the functions of the same file
    that it calls. Evaluation order, results and exceptions stay those of the original code. Call
    this in isolation: the run has side effects.
    """
    recorders: dict[Position, SummaryRecorder] = {}
    edits: list[FunctionEdit] = []
    for source, function in _functions_around(places):
        for node in recordable_expressions(function):
            position = source.position(node)
            if position not in recorders:
                name = f"_fullgraph_values_{len(recorders)}"
                recorder = recorders[position] = SummaryRecorder()
                edits.append(FunctionEdit(position, f"{name}({ORIGINAL})", {name: recorder}))
    with edit_functions(edits):
        raised = run_without_compiling(run)
    return FunctionValues({at: one.summary() for at, one in recorders.items() if one.count}, raised)


def observe_called_functions(run: Callable[[], object]) -> FunctionValues:
    """Run the user's code twice in eager, and record the values in all functions that it calls.

    The first run finds the functions; those of torch and Python are left out. Call this in
    isolation: the runs have side effects.
    """
    called: dict[CodeType, None] = {}

    def note_call(frame: FrameType, event: str, _argument: object) -> None:
        """Add the code object of a called function to `called`."""
        if event == "call":
            called[frame.f_code] = None

    before = sys.getprofile()
    sys.setprofile(note_call)
    try:
        run_without_compiling(run)
    finally:
        sys.setprofile(before)
    places = [Position(one.co_filename, one.co_firstlineno) for one in called]
    return observe_functions(run, [one for one in places if is_user_code(one.file)])


def _functions_around(places: Iterable[Position]) -> Iterator[tuple[Source, FunctionNode]]:
    """Yield (source, function): the outermost function around each place, and those it calls.

    A called function is included only if it is in the same file.
    """
    done: set[tuple[str, int]] = set()
    for place in places:
        source = read_source(place.file)
        if source is None:
            continue
        around = [
            node
            for node in source.parents
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and first_line(node) <= place.line <= (node.end_lineno or 0)
        ]
        for function in (*around[:1], *(_called_functions(source, around[0]) if around else ())):
            if (place.file, function.lineno) not in done:
                done.add((place.file, function.lineno))
                yield source, function


def _called_functions(source: Source, function: FunctionNode) -> Iterator[FunctionNode]:
    """Yield functions of this file that `function` calls as `helper(x)` or `self.helper(x)`."""
    names, methods = set[str](), set[str]()
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                names.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                methods.add(name)
    owner = source.parents.get(function)
    for node, parent in source.parents.items():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            beside = node.name in methods and parent is owner and isinstance(owner, ast.ClassDef)
            if beside or (node.name in names and isinstance(parent, ast.Module)):
                yield node


def recordable_expressions(node: ast.AST, callees: bool = True) -> Iterator[ast.expr]:
    """Yield the expressions inside a function or module that can be wrapped in a recording call.

    If `callees` is False, leave out the `f` of `f(x)` and the `a.f` of `a.f(x)`.
    """
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            inner: list[ast.AST] = list(node.body)
        case ast.Lambda():
            inner = [node.body]
        case ast.AnnAssign():
            inner = [child for child in (node.target, node.value) if child]
        case ast.Match():
            parts = (part for case in node.cases for part in (case.guard, *case.body))
            inner = [node.subject, *(part for part in parts if part)]
        case ast.JoinedStr() | ast.Constant() | ast.Call(func=ast.Name(id="super")):
            inner = []
        case ast.Call():
            inner = [*node.args, *(keyword.value for keyword in node.keywords)]
            if callees or not isinstance(node.func, ast.Name | ast.Attribute):
                inner.insert(0, node.func)
            elif isinstance(node.func, ast.Attribute):
                inner.insert(0, node.func.value)
        case _:
            inner = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.expr) and _can_wrap(node):
        yield node
    for child in inner:
        yield from recordable_expressions(child, callees)


def _can_wrap(node: ast.expr) -> bool:
    """Return whether `node` can be replaced by a call `f(node)` that returns its argument."""
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    if isinstance(node, ast.Tuple) and any(isinstance(item, ast.Slice) for item in node.elts):
        return False
    bare = ast.Constant | ast.Slice | ast.Starred | ast.NamedExpr
    return not isinstance(node, bare | ast.Yield | ast.YieldFrom | ast.Await)
