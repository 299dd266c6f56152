"""Where the value of an expression comes from, and what its function does with it, by syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fullgraph.compiler.sources import FunctionNode, Source

NOTHING, INPUTS, COMPUTED = "nothing", "inputs", "computed"
"""What an expression reads: no local variable, arguments of the compiled function, other values."""

_REDUCES = {"sum", "mean", "nansum", "nanmean", "max", "min", "amax", "amin", "any", "all"}
_MEAN = {"mean", "nanmean"}
_KEEPS = {"float", "double", "long", "int", "to", "abs", "square", "clone", "detach", "contiguous"}
"""Methods and functions whose result is used as their argument would be."""
_SIZES = {"range", "arange", "zeros", "ones", "empty", "full", "eye", "linspace", "reshape", "view"}
_SIZES |= {"expand", "repeat", "narrow", "split", "chunk", "topk", "new_zeros", "new_ones", "pad"}
_SHOWS = {"print", "format", "debug", "info", "warning", "error", "log", "write", "add_scalar"}
_STEPS = 3
"""Number of assignments over which a value is followed."""


def what_is_read(node: ast.AST, function: FunctionNode, file: Source, is_entry: bool) -> str:
    """Return what local variables of `function` an expression reads, as the constants above say.

    `is_entry` says whether `function` is the one that is compiled, and not one that it calls.
    """
    read = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    read -= {name.id for name in _stores(node)}
    around = [one for one in file.ancestors(function) if isinstance(one, FunctionNode)]
    if any(read & ({*_arguments(one)} | {name.id for name in _stores(one)}) for one in around):
        return COMPUTED
    arguments = [name for name in _arguments(function) if name not in ("self", "cls")]
    statement = next((one for one in file.ancestors(node) if isinstance(one, ast.stmt)), node)
    inside = {*ast.walk(statement)} if isinstance(statement, ast.Assign) else set()
    loops = (one for one in file.ancestors(node) if isinstance(one, ast.For | ast.While))
    before = {name.id for loop in loops for name in _stores(loop)} | {
        name.id for name in _stores(function) if name not in inside and _start(name) < _start(node)
    }
    if read & before:
        return COMPUTED
    if not read & {*arguments}:
        return NOTHING
    return INPUTS if is_entry else COMPUTED


def origins_of(node: ast.AST, function: FunctionNode) -> dict[str, str]:
    """Return, by name, the code of the only assignment to each variable that `node` reads."""
    found: dict[str, str] = {}
    for name in {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}:
        values = [
            one.value
            for one in ast.walk(function)
            if isinstance(one, ast.Assign)
            and [ast.unparse(target) for target in one.targets] == [name]
        ]
        if len(values) == sum(store.id == name for store in _stores(function)) == 1:
            found[name] = ast.unparse(values[0])
    return found


def uses_of(
    node: ast.AST, function: FunctionNode, file: Source, steps: int = _STEPS
) -> frozenset[str]:
    """Return what is done with the value of an expression.

    "reduced" and "averaged" (by a sum, a mean), "branch" (it decides one), "asserted", "size" (it
    is one, or the bound of a slice), "index", "iterated", "arithmetic", "shown" (in a text or a
    log), "returned", "other".
    """
    below = node
    for parent in file.ancestors(node):
        match parent:
            case ast.Attribute() | ast.keyword() | ast.Compare() | ast.BoolOp() | ast.UnaryOp():
                pass
            case ast.Tuple() | ast.List() if isinstance(getattr(parent, "ctx", None), ast.Load):
                pass
            case ast.Call(func=callee):
                name = ast.unparse(callee).rpartition(".")[2]
                if name in _MEAN:
                    return frozenset({"averaged"})
                if name in _REDUCES:
                    return frozenset({"reduced"})
                if name in _SHOWS and callee is not below:
                    return frozenset({"shown"})
                if name in _SIZES and callee is not below:
                    return frozenset({"size"})
                if name not in _KEEPS | {"bool"}:
                    return frozenset({"other"})
            case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
                return frozenset({"shown"})
            case ast.BinOp(left=left, right=right):
                if not isinstance(right if left is below else left, ast.Constant):
                    return frozenset({"arithmetic"})
            case ast.AugAssign():
                return frozenset({"arithmetic"})
            case ast.Slice():
                return frozenset({"size"})
            case ast.Subscript(slice=index):
                return frozenset({"index" if index is below else "other"})
            case ast.If(test=test) if test is below and raises(parent):
                return frozenset({"asserted"})
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                return frozenset({"branch" if test is below else "other"})
            case ast.Assert(test=test):
                return frozenset({"asserted" if test is below else "shown"})
            case ast.FormattedValue():
                return frozenset({"shown"})
            case ast.For(iter=rows) | ast.comprehension(iter=rows):
                return frozenset({"iterated" if rows is below else "other"})
            case ast.Return():
                return frozenset({"returned"})
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                later = _loads(function, name, after=_end(parent)) if steps else ()
                return frozenset().union(
                    *(uses_of(load, function, file, steps - 1) for load in later)
                ) or frozenset({"other"})
            case _:
                return frozenset({"other"})
        below = parent
    return frozenset({"other"})


def raises(branch: ast.If) -> bool:
    """Return whether one side of a branch ends with a `raise`."""
    return any(side and isinstance(side[-1], ast.Raise) for side in (branch.body, branch.orelse))


def _arguments(function: FunctionNode) -> list[str]:
    parts = function.args
    named = [*parts.posonlyargs, *parts.args, *parts.kwonlyargs]
    return [one.arg for one in (*named, parts.vararg, parts.kwarg) if one is not None]


def _stores(node: ast.AST) -> Iterator[ast.Name]:
    return (
        one
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store | ast.Del)
    )


def _loads(function: FunctionNode, name: str, after: tuple[int, int]) -> Iterator[ast.Name]:
    return (
        one
        for one in ast.walk(function)
        if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)
        if _start(one) > after
    )


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
