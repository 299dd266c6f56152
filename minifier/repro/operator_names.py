"""Public names of the operators that a script calls."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import torch

_FACTORIES = {
    "is_compiling",
    "ones",
    "zeros",
    "empty",
    "full",
    "tensor",
    "arange",
    "randn",
    "rand",
    "randint",
}
"""Functions of torch that compute nothing; a title names them only if nothing else is called."""
_FUNCTION = "torch.autograd.Function"
_TRANSFORMS = (_FUNCTION, "torch.func.", "torch.vmap", "a custom")
"""Beginnings of names that come first, because what they apply to is rarely at fault."""
_SHORT = 60
"""Maximum number of characters of an expression that is named instead of operators."""
_BREAK = "torch._dynamo.graph_break"
_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


def operators(text: str) -> tuple[str, ...]:
    """Return the names of the operators that a script's functions and classes call, each once.

    "torch.cat", "Tensor.exp", "numpy.percentile", "torch.autograd.Function.apply". They are in
    order, but transforms, autograd functions and custom operators come first. An operator that the
    script registers is "a custom operator". Graph breaks and containers that the script builds are
    left out.

    If nothing is called: the short expression that the only function returns, or Python's
    operators, such as "*".
    """
    tree = ast.parse(text)
    modules = dict(_imported_names(tree))
    functions = {
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith("Function") for base in node.bases)
    }
    custom = dict(_custom_operators(tree))
    scopes = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and node.name not in {"make_inputs", *custom, *functions}
    ]
    nodes = [node for scope in scopes for node in ast.walk(scope)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    built = _containers(nodes)
    writes = any(
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and not isinstance(node.value, ast.Dict)
        and ast.unparse(node.value).rpartition(".")[2] not in built
        for node in nodes
    )
    calls.sort(key=lambda call: (call.end_lineno, call.end_col_offset))
    names = [name for call in calls if (name := _public_name(call.func, modules, functions))]
    own = [custom.get(ast.unparse(call.func).removesuffix(".default"), "") for call in calls]
    named = [
        name
        for name in names
        if name.rpartition(".")[2] not in _FACTORIES
        and name != _BREAK
        and not name.startswith("collections.")
        and name.removesuffix(".default") not in custom
    ]
    named += ["Tensor.__setitem__"] if writes else []
    named += filter(None, own)
    signs = [_SIGNS[type(node.op)] for node in nodes if isinstance(node, ast.BinOp)]
    named.sort(key=lambda name: not is_transform(name))
    named = named or [*_short_result(scopes)] or signs
    return tuple(dict.fromkeys(named or (names if len(names) == len(calls) else ())))


def is_transform(name: str) -> bool:
    """Return whether `name` is a transform, an autograd function or a custom operator.

    "torch.vmap", "torch.autograd.Function.apply" and "a custom operator" are.
    """
    return name.startswith(_TRANSFORMS)


def _short_result(scopes: list[ast.FunctionDef | ast.ClassDef]) -> Iterator[str]:
    """Yield the expression that the script's only function returns, if it is short: "`x + 1`"."""
    match scopes:
        case [ast.FunctionDef(body=[ast.Return(value=ast.BinOp() as value)])]:
            code = ast.unparse(value)
            if len(code) <= _SHORT:
                yield f"`{code}`"


def _custom_operators(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (name, description) of each operator that a script registers.

    `@custom_op("lib::f")` on `f` gives the names "f" and "torch.ops.lib.f"; the description is
    "a custom operator", possibly with "that mutates its arguments".
    """
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    pairs = [(node, made) for node in functions for made in node.decorator_list]
    for node, made in pairs:
        match made:
            case ast.Call(args=[ast.Constant(value=str(name)), *_], keywords=keywords):
                if ast.unparse(made.func).rpartition(".")[2] != "custom_op":
                    continue
                given = {one.arg: ast.unparse(one.value) for one in keywords}
                writes = given.get("mutates_args", "()") not in ("()", "[]")
                what = f"a custom operator{' that mutates its arguments' if writes else ''}"
                yield node.name, what
                yield f"torch.ops.{name.replace('::', '.')}", what


def _containers(nodes: list[ast.AST]) -> set[str]:
    """Return the variables and attributes that are dicts or lists: {"xs"} for `xs = []`."""
    kinds = ("dict", "OrderedDict", "defaultdict", "list", "Counter", "ChainMap")
    return {
        ast.unparse(target).rpartition(".")[2]
        for one in nodes
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(one.value, ast.Dict | ast.DictComp | ast.List | ast.ListComp)
        or (
            isinstance(one.value, ast.Call)
            and ast.unparse(one.value.func).rpartition(".")[2] in kinds
        )
    }


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return {name in the script: full name} for its imports: {"F": "torch.nn.functional"}."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                found[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _public_name(function: ast.expr, modules: dict[str, str], functions: set[str]) -> str:
    """Return the public name of the function that a call calls: "torch.cat", "Tensor.exp".

    "" for a function of the script. `modules` maps imported names to full names; `functions` are
    the script's autograd functions.
    """
    root = function
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(function, ast.Call):
        return ""
    head, *rest = ast.unparse(function).split(".")
    if isinstance(root, ast.Name) and head in modules:
        return ".".join([modules[head], *rest])
    if head in functions and rest == ["apply"]:
        return f"{_FUNCTION}.apply"
    if head == "self" and len(rest) > 1:
        return next(_methods_named(rest[-1], modules), "")
    if isinstance(function, ast.Attribute) and head not in ("self", "ctx", "super()"):
        if hasattr(torch.Tensor, function.attr):
            return f"Tensor.{function.attr}"
        return next(_methods_named(function.attr, modules), "")
    return ""


def _methods_named(name: str, modules: dict[str, str]) -> Iterator[str]:
    """Yield "OrderedDict.name" if a script imports `OrderedDict` and it has the method `name`.

    Likewise for each other class of the standard library. `modules` maps imported names to full
    names.
    """
    for whole in modules.values():
        module, _, kind = whole.rpartition(".")
        found = getattr(sys.modules.get(module), kind, None) if module else None
        if isinstance(found, type) and module in sys.stdlib_module_names and hasattr(found, name):
            yield f"{found.__name__}.{name}"
