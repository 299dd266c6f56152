"""Parts of advice that are made of the user's expression."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial

from fullgraph.diagnose.taxonomy import needed_numbers, random_draws
from fullgraph.diagnose.taxonomy.known_functions import callee_of
from fullgraph.diagnose.taxonomy.sentences import quote
from fullgraph.diagnose.taxonomy.usage import TENSOR, Usage, parse

_METHODS = {"sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "floor", "ceil"}
"""Functions of `math` that tensors have as methods of the same name and meaning."""
_FUNCTIONAL = {
    "jacobian": "torch.func.jacrev",
    "hessian": "torch.func.hessian",
    "vjp": "torch.func.vjp",
    "jvp": "torch.func.jvp",
}


def call_method(node: ast.AST | None) -> str:
    """Return `x.sum().sqrt()` for `math.sqrt(x.sum())`; "" for other code."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=[tensor], keywords=[]
        ) if name in _METHODS:
            simple = isinstance(tensor, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
            text = ast.unparse(tensor)
            return f"{text if simple else f'({text})'}.{name}()"
    return ""


def clone(node: ast.AST | None) -> str:
    """Return `x.clone()` for `copy.deepcopy(x)`; "" for other code."""
    match node:
        case ast.Call(args=[ast.Name() | ast.Attribute() as tensor], keywords=[]):
            return f"{ast.unparse(tensor)}.clone()"
    return ""


def _code(usage: Usage) -> str:
    return quote(usage.expression).strip("`") if usage.expression else ""


def _condition(usage: Usage) -> str:
    """Return `torch.logical_not(m)` for `not m`, `n != 0` for a number, and a mask as it is.

    Return "" for conditions of Python, such as `a and b`: none of them gives a tensor.
    """
    match parse(usage.expression):
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"torch.logical_not({ast.unparse(operand)})"
        case ast.Call(func=ast.Name(id="bool"), args=[tensor]):
            return ast.unparse(tensor)
        case ast.BoolOp() | ast.Compare(ops=[_, _, *_]) | ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return ""
    code = _code(usage)
    is_bool = not usage.is_tensor or (usage.value or "").startswith("bool")
    return code if is_bool or not code else f"{code} != 0"


def _condition_of_exit(usage: Usage, *, holds: bool = True) -> str:
    """Return the condition with which the branch exits, or that with which it does not.

    Return "" if the expression alone does not say it.
    """
    condition = _condition(usage)
    if not condition or usage.exits_if is None or usage.exits_if is holds:
        return condition if usage.exits_if is not None else ""
    match parse(condition):
        case ast.Call(func=ast.Attribute(attr="logical_not"), args=[operand]):
            return ast.unparse(operand)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ast.unparse(operand)
    return f"~({condition})"


def _membership(usage: Usage) -> str:
    """Return `torch.isin(x, torch.tensor([1, 2]))` for `x in [1, 2]`; "" for other code."""
    match parse(usage.expression):
        case ast.Compare(
            left=left, ops=[ast.In()], comparators=[ast.List() | ast.Tuple() as among]
        ):
            return f"torch.isin({ast.unparse(left)}, torch.tensor({ast.unparse(among)}))"
    return ""


def _reduction(usage: Usage) -> str:
    """Return `(x[0] > 0).any()` for `any(v > 0 for v in x[0])`; "" for other code."""
    match parse(usage.expression):
        case ast.Call(
            func=ast.Name(id="any" | "all" as name),
            args=[
                ast.GeneratorExp(
                    elt=elt,
                    generators=[ast.comprehension(target=ast.Name(id=target), iter=rows, ifs=[])],
                )
            ],
        ):
            whole = re.sub(rf"\b{target}\b", lambda _: ast.unparse(rows), ast.unparse(elt))
            return f"({whole}).{name}()"
    return ""


def _container(usage: Usage) -> str:
    """Return `table` for `table[i]`, unless it is a tensor; "" for other code."""
    match parse(usage.expression):
        case ast.Subscript(value=ast.Name() | ast.Attribute() as container, slice=index):
            code = ast.unparse(container)
            is_tensor = TENSOR.match(usage.parts.get(code, ""))
            return "" if isinstance(index, ast.Slice | ast.Tuple) or is_tensor else code
    return ""


def _window(usage: Usage) -> str:
    """Return `a + torch.arange(n)` for the slice `a:a + n`; "" for other code."""
    match parse(f"_[{usage.expression}]"):
        case ast.Subscript(
            slice=ast.Slice(
                lower=ast.AST() as low,
                upper=ast.BinOp(left=start, op=ast.Add(), right=length),
                step=None,
            )
        ) if ast.unparse(low) == ast.unparse(start):
            return f"{ast.unparse(low)} + torch.arange({ast.unparse(length)})"
    return ""


def _filled(usage: Usage) -> str:
    """Return `torch.where(mask, x, 0)` for `x[mask]`; "" for other code."""
    match parse(usage.expression):
        case ast.Subscript(value=tensor, slice=mask) if not isinstance(mask, ast.Tuple | ast.Slice):
            return f"torch.where({ast.unparse(mask)}, {ast.unparse(tensor)}, 0)"
    return ""


def _first(usage: Usage) -> str:
    """Return `m.int().argmax()` for `m.nonzero()[0]`, in the statement of `m.nonzero()`.

    Return "" for other code, and unless `m` was seen to have one dimension.
    """
    if not re.search(r", 1\]\Z|\Atuple of (ndarray )?\w+\[\d+\]\Z", usage.value or ""):
        return ""
    taken = re.escape(ast.unparse(node)) if (node := parse(usage.expression)) else ""
    match node:
        case ast.Call(func=ast.Attribute(value=mask, attr="nonzero"), args=[], keywords=[]):
            first = r"\[0\]"
        case ast.Call(func=ast.Attribute(attr="where" | "nonzero" as name), args=[mask]):
            pairs = name == "where" or ast.unparse(node).startswith("np.")
            first = r"\[0\]\[0\]" if pairs else r"\[0\]"
        case _:
            return ""
    statement = parse(usage.statement)
    text = "" if statement is None else ast.unparse(statement)
    if not re.search(taken + first, text):
        return ""
    code = ast.unparse(mask)
    is_mask = isinstance(mask, ast.Compare) or usage.parts.get(code, "").startswith("bool")
    code = code if is_mask else f"{code} != 0"
    if usage.is_of_numpy:
        return f"np.argmax({code})"
    is_name = re.fullmatch(r"[\w.]+", code)
    return f"{code if is_name else f'({code})'}.int().argmax()"


def _count(usage: Usage) -> str:
    """Return "3", the last size, for a value described as "i64[2, 3]"; "" if it has no size."""
    found = re.search(r"(\d+)\]\Z", usage.value or "")
    return found[1] if found else ""


def _classes(usage: Usage) -> str:
    """Return `one_hot(x, 5)` for `one_hot(x)` if the result had 5 classes; "" for other code."""
    node = parse(usage.expression)
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return ""
    return f"{ast.unparse(node.func)}({ast.unparse(node.args[0])}, {_count(usage)})"


def _func(usage: Usage) -> str:
    return _FUNCTIONAL.get(callee_of(usage.expression).rpartition(".")[2], "")


def _outside(usage: Usage) -> str:
    """Return where to do what the compiled function need not do; "" if it needs what is inside."""
    if usage.is_computed or usage.is_manager or usage.is_target:
        return ""
    return "outside the compiled function and pass the result in"


PARTS: dict[str, Callable[[Usage], str]] = {
    "code": _code,
    "condition": _condition,
    "exit": _condition_of_exit,
    "stay": partial(_condition_of_exit, holds=False),
    "callee": lambda usage: callee_of(usage.expression),
    "member": _membership,
    "reduction": _reduction,
    "container": _container,
    "method": lambda usage: call_method(parse(usage.expression)),
    "window": _window,
    "filled": _filled,
    "first": _first,
    "count": _count,
    "classes": _classes,
    "func": _func,
    "clone": lambda usage: clone(parse(usage.expression)) if usage.is_tensor else "",
    "outer": lambda usage: usage.outer_function,
    "outside": _outside,
    **needed_numbers.PARTS,
    **random_draws.PARTS,
}
"""By name in the braces of a remedy, what to fill in; "" if the code has no such part."""
