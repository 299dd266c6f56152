"""What a text does when it is run: the values of its expressions, its calls, its dead lines."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from fullgraph.compiler.isolation import run_isolated
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.extract.objects import Spelling
from fullgraph.minifier.reduce.source.entry_point import FILE, entry_call, load_module
from fullgraph.minifier.reduce.source.source_tree import Place

SECONDS = 60.0
_VALUE, _LINE, _CALL = "_fullgraph_value", "_fullgraph_line", "_fullgraph_call"
Parameters = tuple[Sequence[str], Sequence[str], str, str]
"""Names of a function's positional and keyword-only parameters, of its *args and **kwargs."""
Arguments = tuple[list[str], dict[str, str]]
_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Seen:
    """What an expression gave."""

    kind: str
    """The class; for tensors and arrays with dtype and shape."""
    literal: str = ""
    """The value as source, where it is a plain one and always the same."""
    tensor: bool = False
    """Whether it is a tensor or an array."""


@dataclass(frozen=True)
class Called:
    """A function of the text that was called, and how to call it alone."""

    name: str
    """Its qualified name."""
    caller: str
    """The qualified name of the text's function that called it; "" for none."""
    model: str
    inputs: str
    """Source of what is called and of its arguments; "" where there is none."""


@dataclass(frozen=True)
class Facts:
    """What one run showed; nothing where the text could not be run."""

    values: Mapping[Place, Seen] = field(default_factory=dict)
    lines: frozenset[int] = frozenset()
    """First lines of the statements inside functions that ran."""
    calls: Sequence[Called] = ()


def observe(text: str) -> Facts:
    """Run a text's model on its inputs in eager, in a child, and tell what was seen.

    Functions with decorators that need their own source are left alone if need be.
    """
    for decorated in (True, False):
        outcome = run_isolated(lambda say, d=decorated: _run(text, d), seconds=SECONDS)  # type: ignore[misc]
        if outcome.value is not None:
            return outcome.value
    return Facts()


def _run(text: str, decorated: bool) -> Facts:
    torch.set_num_threads(1)
    watch = _Watch(text)
    tree = ast.fix_missing_locations(_Instrument(decorated).visit(ast.parse(text)))
    code = compile(tree, FILE, "exec", dont_inherit=True)
    module = load_module(text, code, watch.hooks())
    watch.namespace = vars(module)
    model, args, kwargs = entry_call(module)
    model(*args, **kwargs)
    return watch.facts()


class _Watch:
    """Takes down what instrumented code tells."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.namespace: dict[str, Any] = {}
        self.values: dict[Place, Seen] = {}
        self.lines: set[int] = set()
        self.calls: dict[str, Called] = {}
        self.made: dict[int, tuple[object, str]] = {}
        """How objects were constructed, by id; the object is held so that the id stays its own."""

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {_VALUE: self.value, _LINE: self.lines.add, _CALL: self.call}

    def facts(self) -> Facts:
        return Facts(self.values, frozenset(self.lines), tuple(self.calls.values()))

    def value(self, place: Place, value: Any) -> Any:
        seen = _seen(value)
        known = self.values.get(place)
        if known is None:
            self.values[place] = seen
        elif known.literal and known.literal != seen.literal:
            self.values[place] = Seen(seen.kind)
        return value

    def call(self, parameters: Parameters, values: Mapping[str, Any]) -> None:
        """Take down a call of the function that calls this, whose locals are `values`."""
        names = parameters[0]
        frame = sys._getframe(1)
        name = frame.f_code.co_qualname
        if "<locals>" in name:
            return
        method = "." in name
        if name.endswith(".__init__") and names:
            given = self._arguments(parameters, values, skip=1)
            self._constructed(values[names[0]], given)
            return
        if name in self.calls or name == "build":
            return
        model = name
        if method and names:
            held = self._spelled(values[names[0]])
            model = held if name.endswith(".forward") else held and held + name[name.index(".") :]
        given = self._arguments(parameters, values, skip=int(method))
        self.calls[name] = Called(name, _caller(frame), model if given else "", _inputs(given))

    def _constructed(self, thing: object, given: Arguments | None) -> None:
        if id(thing) not in self.made and given is not None:
            args, named = given
            called = ", ".join([*args, *(f"{key}={text}" for key, text in named.items())])
            self.made[id(thing)] = thing, f"{type(thing).__name__}({called})"

    def _arguments(
        self, parameters: Parameters, values: Mapping[str, Any], skip: int
    ) -> Arguments | None:
        """The arguments of a call as source; None where one cannot be written."""
        names, keywords, star, stars = parameters
        args = [self._spelled(values[name]) for name in names[skip:]]
        args += [self._spelled(value) for value in (values[star] if star else ())]
        named = {name: self._spelled(values[name]) for name in keywords}
        named |= {name: self._spelled(v) for name, v in (values[stars] if stars else {}).items()}
        return None if "" in (*args, *named.values()) else (args, named)

    def _spelled(self, value: object) -> str:
        try:
            return Spelling(self._name, self._construction).of(value)
        except Unwritable:
            return ""

    def _name(self, value: object) -> str | None:
        for name, held in self.namespace.items():
            if held is value and not name.startswith("_fullgraph"):
                return name
        return None

    def _construction(self, value: object) -> str | None:
        known = self.made.get(id(value))
        return known[1] if known is not None else None


def _inputs(given: Arguments | None) -> str:
    """Arguments as the second thing that `build` returns; "" where there is no way."""
    if given is None or (given[0] and given[1]):
        return ""
    args, named = given
    if named:
        return f"{{{', '.join(f'{key!r}: {text}' for key, text in named.items())}}}"
    return f"({', '.join(args)}{',' * (len(args) == 1)})"


def _caller(frame: FrameType) -> str:
    outer = frame.f_back
    while outer is not None and (
        outer.f_code.co_filename != FILE or outer.f_code.co_name.startswith("<")
    ):
        outer = outer.f_back
    return outer.f_code.co_qualname if outer is not None else ""


def _seen(value: Any) -> Seen:
    if isinstance(value, torch.Tensor):
        kind = f"{type(value).__name__} {value.dtype} {tuple(value.shape)} {value.device}"
        return Seen(kind.replace("Parameter", "Tensor"), tensor=True)
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return Seen(f"{type(value).__name__} {value.dtype} {value.shape}", tensor=True)
    if type(value) in _PLAIN:
        literal = repr(value)
        plain = len(literal) <= 30 and not literal.strip("-").startswith(("inf", "nan"))
        return Seen(type(value).__name__, literal if plain else "")
    return Seen(type(value).__name__)


class _Instrument(ast.NodeTransformer):
    """Makes a module tell its values, lines and calls."""

    def __init__(self, decorated: bool) -> None:
        self.decorated = decorated

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant | ast.Starred):
            context = getattr(node, "ctx", None)
            new = super().visit(node)
            if isinstance(context, ast.Store | ast.Del) or isinstance(node, ast.Slice):
                return new
            if isinstance(node, ast.Tuple) and any(isinstance(e, ast.Slice) for e in node.elts):
                return new
            where = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            call = ast.Call(ast.Name(_VALUE, ast.Load()), [_constant(where), new], [])
            return ast.copy_location(call, node)
        return super().visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", "vars"):
            return node
        if isinstance(node.func, ast.Attribute):  # the method itself is of no interest
            node.func.value = self.visit(node.func.value)
        elif not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(arg) for arg in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.decorator_list and not self.decorated:
            return node
        node.body = self._told(node.body)
        args = node.args
        parameters = (
            tuple(arg.arg for arg in (*args.posonlyargs, *args.args)),
            tuple(arg.arg for arg in args.kwonlyargs),
            args.vararg.arg if args.vararg else "",
            args.kwarg.arg if args.kwarg else "",
        )
        values = ast.Call(ast.Name("locals", ast.Load()), [], [])
        call = ast.Call(ast.Name(_CALL, ast.Load()), [_constant(parameters), values], [])
        node.body.insert(_docstring(node), ast.Expr(call))
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def _told(self, body: list[ast.stmt]) -> list[ast.stmt]:
        new: list[ast.stmt] = []
        for statement in body:
            declares = isinstance(statement, ast.Global | ast.Nonlocal)
            line = statement.lineno
            for field_ in ("body", "orelse", "finalbody"):
                block = getattr(statement, field_, None)
                if isinstance(block, list) and not isinstance(
                    statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
                ):
                    setattr(statement, field_, self._told(block))
            if isinstance(statement, ast.Try):
                for handler in statement.handlers:
                    handler.body = self._told(handler.body)
            done = self._headed(statement)
            if not declares:
                call = ast.Call(ast.Name(_LINE, ast.Load()), [ast.Constant(line)], [])
                new.append(ast.copy_location(ast.Expr(call), statement))
            new.append(done)
        return new

    def _headed(self, statement: ast.stmt) -> ast.stmt:
        """`statement` with its own expressions told; what its blocks hold was told before."""
        match statement:
            case ast.If() | ast.While():
                statement.test = self.visit(statement.test)
            case ast.For():
                statement.iter = self.visit(statement.iter)
            case ast.With():
                for item in statement.items:
                    item.context_expr = self.visit(item.context_expr)
            case ast.Try() | ast.TryStar() | ast.AsyncFor() | ast.AsyncWith():
                pass
            case _:
                return self.visit(statement)
        return statement


def _constant(value: object) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body


def _docstring(node: ast.FunctionDef) -> int:
    """Where the first statement after a docstring and declarations stands."""
    index = 0
    for index, statement in enumerate(node.body):
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            return index
    return index
