"""Values, operators and names as Python syntax trees."""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import io
import itertools
import keyword
import math
import operator
import re
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from fullgraph.compiler.private import public_name
from fullgraph.minifier.emit.program_text import Unwritable

_WIDTH = 100
"""Maximum number of characters of a line."""

BINARY: Mapping[str, type[ast.operator]] = {
    "add": ast.Add,
    "sub": ast.Sub,
    "mul": ast.Mult,
    "truediv": ast.Div,
    "floordiv": ast.FloorDiv,
    "mod": ast.Mod,
    "pow": ast.Pow,
    "matmul": ast.MatMult,
    "and_": ast.BitAnd,
    "or_": ast.BitOr,
    "xor": ast.BitXor,
    "lshift": ast.LShift,
    "rshift": ast.RShift,
}
"""Syntax of binary operators, by the name of the function in module `operator`."""
IN_PLACE = {f"i{name.rstrip('_')}": kind for name, kind in BINARY.items()}
COMPARISONS: Mapping[str, type[ast.cmpop]] = {
    "eq": ast.Eq,
    "ne": ast.NotEq,
    "lt": ast.Lt,
    "le": ast.LtE,
    "gt": ast.Gt,
    "ge": ast.GtE,
    "is_": ast.Is,
    "is_not": ast.IsNot,
}
_UNARY: Mapping[str, type[ast.unaryop]] = {
    "neg": ast.USub,
    "pos": ast.UAdd,
    "invert": ast.Invert,
    "inv": ast.Invert,
    "not_": ast.Not,
}
RESERVED = (
    frozenset(keyword.kwlist)
    | (frozenset(dir(builtins)) - {"input"})
    | {
        *("torch", "math", "operator", "np", "copy", "base64", "zlib", "resource", "faulthandler"),
        *("expected", "got", "compiled", "f", "make_inputs"),
    }
)
"""Names that generated variables must not have."""


def names(source: str, context: type[ast.expr_context]) -> list[str]:
    """Return the names that `source` loads or stores, once per occurrence.

    `context` is ast.Load or ast.Store. Names bound by comprehensions are left out.
    """
    nodes = [*ast.walk(ast.parse(source))]
    targets = [node.target for node in nodes if isinstance(node, ast.comprehension)]
    own = {node for target in targets for node in ast.walk(target)}
    found = [node for node in nodes if isinstance(node, ast.Name) and node not in own]
    return [node.id for node in found if isinstance(node.ctx, context)]


def name(text: str) -> ast.Name:
    return ast.Name(text, ast.Load())


def path(dotted: str) -> ast.expr:
    """Return a dotted name, `torch.nn.functional.gelu`, as an expression."""
    head, *rest = dotted.split(".")
    made: ast.expr = name(head)
    for attribute in rest:
        made = ast.Attribute(made, attribute, ast.Load())
    return made


def call(function: ast.expr, args: Iterable[ast.expr], kwargs: Mapping[str, ast.expr]) -> ast.Call:
    return ast.Call(function, list(args), [ast.keyword(k, v) for k, v in kwargs.items()])


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def function(name: str, arguments: Iterable[str], body: list[ast.stmt]) -> ast.FunctionDef:
    """Return `def name(arguments): body` as a syntax tree that is valid for this Python version."""
    made = ast.parse(f"def {name}({', '.join(arguments)}): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.body = body
    return made


def operation(function: Callable[..., object], args: list[ast.expr]) -> ast.expr | None:
    """Return `a + b` for `operator.add` and the `args` a, b; None for other functions."""
    title = function.__name__
    if len(args) == 2 and title in BINARY:
        return ast.BinOp(args[0], BINARY[title](), args[1])
    if len(args) == 2 and title in COMPARISONS:
        return ast.Compare(args[0], [COMPARISONS[title]()], [args[1]])
    if len(args) == 2 and title == "contains":
        return ast.Compare(args[1], [ast.In()], [args[0]])
    if len(args) == 2 and title == "getitem":
        return ast.Subscript(args[0], args[1], ast.Load())
    if len(args) == 1 and title in _UNARY:
        return ast.UnaryOp(_UNARY[title](), args[0])
    return None


def value(thing: object, of: Callable[[object], ast.expr | None]) -> ast.expr:
    """Return an argument of a graph's node as an expression.

    `of` returns the expression of a node or tensor, and None for other values. Raises Unwritable
    for a value that no expression gives.
    """
    made = of(thing)
    if made is not None:
        return made
    inner = functools.partial(value, of=of)
    match thing:
        case torch.Size():
            return ast.Tuple([inner(item) for item in thing], ast.Load())
        case tuple():
            items = [inner(item) for item in thing]
            if hasattr(thing, "_fields") or type(thing).__module__ == "torch.return_types":
                items = [inner(item) for item in tuple(thing)]
            return ast.Tuple(items, ast.Load())
        case list():
            return ast.List([inner(item) for item in thing], ast.Load())
        case dict():
            return ast.Dict([inner(key) for key in thing], [inner(v) for v in thing.values()])
        case set() | frozenset():
            return ast.Set([inner(item) for item in thing])
        case slice():
            return _slice_expression(thing, inner)
        case range():
            return expression(repr(thing))
        case functools.partial():
            return call(
                path("functools.partial"),
                [inner(thing.func), *map(inner, thing.args)],
                {key: inner(item) for key, item in thing.keywords.items()},
            )
    return constant(thing)


def constant(thing: object) -> ast.expr:
    """Return a value other than a container as an expression: `3`, `torch.float32`, `math.sqrt`.

    Raises Unwritable for a value that no expression gives.
    """
    match thing:
        case enum.Enum():
            return _enum_member(thing)
        case None | bool() | str() | bytes():
            return ast.Constant(thing)
        case int() | float() if type(thing) in (int, float):
            return _number_expression(thing)
        case complex():
            return _complex_expression(thing)
        case _ if thing is Ellipsis:
            return ast.Constant(...)
        case torch.dtype() | torch.layout() | torch.memory_format():
            return path(str(thing))
        case torch.device():
            return ast.Constant(str(thing))
        case torch.SymInt() | torch.SymFloat() | torch.SymBool():
            return constant(thing.node.hint)
        case type() if thing.__module__ in ("builtins", "torch"):
            return path(
                thing.__name__ if thing.__module__ == "builtins" else f"torch.{thing.__name__}"
            )
    if callable(thing):
        known = public_name(thing) or _function_path(thing)
        if known is not None:
            return path(known)
    raise Unwritable(f"A {type(thing).__name__} in the graph cannot be written as Python source.")


def _function_path(thing: Callable[..., object]) -> str | None:
    """Return the dotted name of a function: "len", "math.sqrt", "operator.add".

    None for functions outside builtins, `math` and `operator`.
    """
    title = getattr(thing, "__name__", "")
    for module in (builtins, math, operator):
        if getattr(module, title, None) is thing:
            return title if module is builtins else f"{module.__name__}.{title}"
    return None


def _enum_member(thing: enum.Enum) -> ast.expr:
    """Return a member of a torch enum as an expression. Raises Unwritable for other enums."""
    kind = type(thing)
    if not kind.__module__.startswith("torch"):
        raise Unwritable(f"{thing} in the graph cannot be written as Python source.")
    return path(f"{kind.__module__}.{kind.__qualname__}.{thing.name}")


def _slice_expression(thing: slice, inner: Callable[[object], ast.expr]) -> ast.expr:
    """Return a slice as an expression; `inner` gives the expressions of its bounds."""
    parts = [
        None if part is None else inner(part) for part in (thing.start, thing.stop, thing.step)
    ]
    return ast.Slice(*parts)


def _number_expression(thing: int | float) -> ast.expr:
    """Return an int or float as an expression; NaN and infinities as `float("nan")`."""
    if isinstance(thing, float) and not math.isfinite(thing):
        return expression(f'float("{thing}")')
    if math.copysign(1, thing) < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-thing))
    return ast.Constant(thing)


def _complex_expression(thing: complex) -> ast.expr:
    """Return a complex number as an expression."""
    if math.isfinite(thing.real) and math.isfinite(thing.imag):
        return expression(repr(thing))
    return call(
        name("complex"), [_number_expression(thing.real), _number_expression(thing.imag)], {}
    )


def is_update(body: Sequence[ast.stmt], place: ast.Subscript, name: ast.Name) -> bool:
    """Return whether `body` is `name = place; name += …`, where `place` is like `x[0]`.

    If `place = name` follows, the three statements can be written as `x[0] += …`.
    """
    match body:
        case [
            ast.Assign(targets=[ast.Name(id=taken)], value=ast.Subscript() as source),
            ast.AugAssign(target=ast.Name(id=changed)),
        ]:
            same = ast.dump(source.value) == ast.dump(place.value)
            same &= ast.dump(source.slice) == ast.dump(place.slice)
            return same and taken == changed == name.id
    return False


def text(tree: ast.AST) -> str:
    """Return a syntax tree as formatted source: double quotes, `return a, b`, blank lines."""
    lines = ast.unparse(ast.fix_missing_locations(tree)).splitlines()
    return "\n".join(
        _space_nested_functions(
            [fold_line(_drop_tuple_parentheses(_use_double_quotes(line))) for line in lines]
        )
    )


def fold_line(line: str) -> str:
    """Return a line as several lines if it has more than 100 characters.

    It is broken after the bracket that opens its longest call, and between the arguments.
    """
    if len(line) <= _WIDTH:
        return line
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line.strip()).readline))
    except (tokenize.TokenError, IndentationError):  # a string of several lines
        return line
    margin = len(line) - len(line.lstrip())
    opened: list[int] = []
    commas: dict[int, list[int]] = {}
    calls: list[tuple[int, int]] = []
    for token in tokens:
        if token.string in "([{" and token.type == tokenize.OP:
            opened.append(margin + token.end[1])
        elif token.string in ")]}" and token.type == tokenize.OP:
            calls.append((opened.pop(), margin + token.start[1]))
        elif token.string == "," and opened:
            commas.setdefault(opened[-1], []).append(margin + token.end[1])
        elif token.string == "," and tokens[0].string == "return":
            keyword = margin + len("return ")
            return fold_line(f"{line[:keyword]}({line[keyword:]})")
    begin, end = max(calls, key=lambda call: call[1] - call[0], default=(0, 0))
    if not commas.get(begin):
        return line
    cuts = [begin, *commas[begin], end]
    lines = [line[:begin]]
    for one, other in itertools.pairwise(cuts):
        part = line[one:other].strip()
        if len(lines) > 1 and len(lines[-1]) + len(part) < _WIDTH:
            lines[-1] += f" {part}"
        elif part:
            lines.append(f"{' ' * (margin + 4)}{part}")
    return "\n".join([*lines, " " * margin + line[end:]])


def _use_double_quotes(line: str) -> str:
    """Return a line with its strings in double quotes, where that needs no escapes."""
    if "'" not in line:
        return line
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line.strip()).readline))
    except (tokenize.TokenError, IndentationError):  # a string of several lines
        return line
    indent = len(line) - len(line.lstrip())
    for token in reversed(tokens):
        plain = re.fullmatch(r"(\w*)'([^'\"\\]*)'", token.string)
        if token.type == tokenize.STRING and plain:
            begin, end = indent + token.start[1], indent + token.end[1]
            line = f'{line[:begin]}{plain[1]}"{plain[2]}"{line[end:]}'
    return line


def _drop_tuple_parentheses(line: str) -> str:
    """Return `return a, b` for `return (a, b)`, and any other line unchanged."""
    found = re.fullmatch(r"(\s*return )\((.+, .+)\)", line)
    if found is None:
        return line
    try:
        inner = ast.parse(found[2], mode="eval").body
    except SyntaxError:
        return line
    return found[1] + found[2] if isinstance(inner, ast.Tuple) else line


def _space_nested_functions(lines: list[str]) -> list[str]:
    """Return `lines` with a blank line after each nested function, and none at a block's start."""
    aired: list[str] = []
    nested: list[int] = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not line and aired and aired[-1].endswith(":"):
            continue
        if line and nested and depth <= nested[-1]:
            while nested and depth <= nested[-1]:
                nested.pop()
            if aired[-1]:
                aired.append("")
        if depth and line.lstrip().startswith(("def ", "class ")):
            nested.append(depth)
        aired.append(line)
    return aired
