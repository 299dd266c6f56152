"""Observe a run of a source text: its values, its calls, its executed lines."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from fullgraph.compiler.facts import ValueSummary
from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.observe import SummaryRecorder, recordable_expressions
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.extract.objects import Spelling
from fullgraph.minifier.reduce.source.entry_point import FILE, entry_call, load_module
from fullgraph.minifier.reduce.source.source_tree import Place

SECONDS = 60.0
"""Time limit of a run."""
_VALUE, _LINE, _CALL = "_fullgraph_value", "_fullgraph_line", "_fullgraph_call"
"""Names of the functions that instrumented code calls."""
Parameters = tuple[Sequence[str], Sequence[str], str, str]
"""Names of a function's positional and keyword-only parameters, of its *args and **kwargs."""
Arguments = tuple[list[str], dict[str, str]]
"""Positional and keyword arguments, as source."""


@dataclass(frozen=True)
class RecordedCall:
    """First call of a function of the text in an eager run, with its arguments as source."""

    name: str
    """Qualified name of the function."""
    caller: str
    """Qualified name of the text's function that made the call; "" for none."""
    model: str
    inputs: str
    """Source of the callable and of its inputs; "" if it cannot be written."""


@dataclass(frozen=True)
class ObservedRun:
    """What one eager run of a text showed: values of expressions, executed lines, calls.

    Empty if the text could not run.
    """

    values: Mapping[Place, ValueSummary] = field(default_factory=dict)
    """Values of expressions, by their position."""
    lines: frozenset[int] = frozenset()
    """First lines of the statements in functions that were executed."""
    calls: Sequence[RecordedCall] = ()


def observe_text(text: str) -> ObservedRun:
    """Run a text's program in eager, in a child process, and return what it showed.

    All functions are instrumented. If that fails, functions with decorators are left as they are,
    because some decorators read the source. The result is empty if that fails, too.
    """
    for decorated in (True, False):
        outcome = run_isolated(lambda say, d=decorated: _run(text, d), seconds=SECONDS)  # type: ignore[misc]
        if outcome.value is not None:
            return outcome.value
    return ObservedRun()


def _run(text: str, decorated: bool) -> ObservedRun:
    """Instrument a text, run it in this process, and return what it showed.

    `decorated` decides whether functions with decorators are instrumented, too.
    """
    torch.set_num_threads(1)
    watch = _RunRecorder(text)
    tree = ast.parse(text)
    instrumented = ast.fix_missing_locations(_Instrument(tree, decorated).visit(tree))
    code = compile(instrumented, FILE, "exec", dont_inherit=True)
    module = load_module(text, code, watch.hooks())
    watch.namespace = vars(module)
    model, args, kwargs = entry_call(module)
    model(*args, **kwargs)
    return watch.facts()


class _RunRecorder:
    """Recorder of the values, lines and calls of an instrumented text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.namespace: dict[str, Any] = {}
        self.recorders: dict[Place, SummaryRecorder] = {}
        self.lines: set[int] = set()
        self.calls: dict[str, RecordedCall] = {}
        self.made: dict[int, tuple[object, str]] = {}
        """Constructor calls by object id; the object is kept alive so that its id stays unique."""

    def hooks(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that instrumented code calls, by name."""
        return {_VALUE: self.value, _LINE: self.lines.add, _CALL: self.call}

    def facts(self) -> ObservedRun:
        """Return everything recorded, in picklable form."""
        values = {place: recorder.summary() for place, recorder in self.recorders.items()}
        return ObservedRun(values, frozenset(self.lines), tuple(self.calls.values()))

    def value(self, place: Place, value: Any) -> Any:
        """Record and return the value of the expression at `place`."""
        return self.recorders.setdefault(place, SummaryRecorder())(value)

    def call(self, parameters: Parameters, values: Mapping[str, Any]) -> None:
        """Record the call of the function that calls this one; `values` are its locals."""
        names = parameters[0]
        frame = sys._getframe(1)
        name = frame.f_code.co_qualname
        if "<locals>" in name:
            return
        method = "." in name
        if name.endswith(".__init__") and names:
            given = self._arguments(parameters, values, skip=1)
            self._record_construction(values[names[0]], given)
            return
        if name in self.calls or name == "build":
            return
        model = name
        if method and names:
            held = self._source_of(values[names[0]])
            model = held if name.endswith(".forward") else held and held + name[name.index(".") :]
        given = self._arguments(parameters, values, skip=int(method))
        self.calls[name] = RecordedCall(
            name, _caller(frame), model if given else "", _inputs(given)
        )

    def _record_construction(self, thing: object, given: Arguments | None) -> None:
        """Record the constructor call of an object; nothing if its arguments are unknown."""
        if id(thing) not in self.made and given is not None:
            args, named = given
            called = ", ".join([*args, *(f"{key}={text}" for key, text in named.items())])
            self.made[id(thing)] = thing, f"{type(thing).__name__}({called})"

    def _arguments(
        self, parameters: Parameters, values: Mapping[str, Any], skip: int
    ) -> Arguments | None:
        """Return the arguments of a call, without the first `skip`, as source.

        None if one of them cannot be written.
        """
        names, keywords, star, stars = parameters
        args = [self._source_of(values[name]) for name in names[skip:]]
        args += [self._source_of(value) for value in (values[star] if star else ())]
        named = {name: self._source_of(values[name]) for name in keywords}
        named |= {name: self._source_of(v) for name, v in (values[stars] if stars else {}).items()}
        return None if "" in (*args, *named.values()) else (args, named)

    def _source_of(self, value: object) -> str:
        """Return a value as source; "" if it cannot be written."""
        try:
            return Spelling(self._name, self._construction_of).of(value)
        except Unwritable:
            return ""

    def _name(self, value: object) -> str | None:
        """Return the global name of an object; None if it has none."""
        for name, held in self.namespace.items():
            if held is value and not name.startswith("_fullgraph"):
                return name
        return None

    def _construction_of(self, value: object) -> str | None:
        """Return the recorded constructor call of an object; None if there is none."""
        known = self.made.get(id(value))
        return known[1] if known is not None else None


def _inputs(given: Arguments | None) -> str:
    """Return arguments as source for the inputs in `build()`: "(x, 1)", or a dict of keyword ones.

    "" for None, and if there are both positional and keyword arguments.
    """
    if given is None or (given[0] and given[1]):
        return ""
    args, named = given
    if named:
        return f"{{{', '.join(f'{key!r}: {text}' for key, text in named.items())}}}"
    return f"({', '.join(args)}{',' * (len(args) == 1)})"


def _caller(frame: FrameType) -> str:
    """Return the qualified name of the text's function that called `frame`; "" if there is none."""
    outer = frame.f_back
    while outer is not None and (
        outer.f_code.co_filename != FILE or outer.f_code.co_name.startswith("<")
    ):
        outer = outer.f_back
    return outer.f_code.co_qualname if outer is not None else ""


class _Instrument(ast.NodeTransformer):
    """Transformer that makes a module record its values, lines and calls when it runs."""

    def __init__(self, tree: ast.Module, decorated: bool) -> None:
        self.recordable = set(recordable_expressions(tree, callees=False))
        self.decorated = decorated
        self.in_function = False

    def visit(self, node: ast.AST) -> Any:
        new = super().visit(node)
        if isinstance(node, ast.expr) and node in self.recordable:
            place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            return _call(_VALUE, _constant(place), new)
        if self.in_function and isinstance(node, ast.stmt):
            return [ast.Expr(_call(_LINE, ast.Constant(node.lineno))), new]
        return new

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.decorator_list and not self.decorated:
            return node
        outer, self.in_function = self.in_function, True
        self.generic_visit(node)
        self.in_function = outer
        args = node.args
        parameters = (
            tuple(arg.arg for arg in (*args.posonlyargs, *args.args)),
            tuple(arg.arg for arg in args.kwonlyargs),
            args.vararg.arg if args.vararg else "",
            args.kwarg.arg if args.kwarg else "",
        )
        node.body.insert(0, ast.Expr(_call(_CALL, _constant(parameters), _call("locals"))))
        return node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _constant(value: object) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body
