"""Source of operators that a user registered in Python."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, ModuleType

import torch

from fullgraph.compiler.private import custom_op_functions, triton_function
from fullgraph.minifier.emit import syntax
from fullgraph.minifier.emit.program_text import Unwritable


def collect_operator_sources(name: str) -> tuple[dict[str, str], set[str]]:
    """Return (definitions, import lines) that a script needs for the operator "mylib::f".

    The definitions are texts, each by a key that is unique to it. Raises Unwritable unless Python
    code defined the operator by torch.library.custom_op.
    """
    functions = custom_op_functions(name)
    if not functions:
        raise Unwritable(
            f"The operator {name} is not defined in Python by torch.library.custom_op."
        )
    texts: dict[str, str] = {}
    imports: set[str] = set()
    for function in functions:
        _collect_function(function, texts, imports)
    return texts, imports


def collect_kernel_sources(function: Callable[..., object]) -> tuple[dict[str, str], set[str]]:
    """Return (definitions, import lines) that a script needs for a Triton kernel.

    The definitions are texts, each by a key that is unique to it. Raises Unwritable if a source
    cannot be read.
    """
    texts: dict[str, str] = {}
    imports = {"import triton"}
    _collect_function(function, texts, imports)
    return texts, imports


def _collect_function(
    function: Callable[..., object], texts: dict[str, str], imports: set[str]
) -> None:
    """Add a function's source to `texts`, after the sources of the globals that it uses.

    For a global that can be imported, adds an import line to `imports` instead. Raises Unwritable
    if a source cannot be read.
    """
    try:
        text = textwrap.dedent(inspect.getsource(function)).strip()
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError) as error:
        raise Unwritable(f"The source of {function.__qualname__} cannot be read.") from error
    found = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    for used in sorted(_free_names(tree.body[0], function.__code__) - {function.__name__}):
        if used in found and found[used] is not function:
            _collect_named(used, found[used], texts, imports)
    texts.setdefault(f"{function.__module__}.{function.__qualname__}.{id(function)}", text)


def _free_names(tree: ast.AST, code: CodeType) -> set[str]:
    """Return the names of globals, closure variables and attributes that a function uses.

    `tree` is its definition, whose decorators, defaults and annotations count too; `code` is its
    compiled body.
    """
    names = set(code.co_names) | set(code.co_freevars)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= set(inner.co_names)
    if isinstance(tree, ast.FunctionDef):
        outside = [*tree.decorator_list, tree.args, *([tree.returns] if tree.returns else [])]
        nodes = (node for part in outside for node in ast.walk(part))
        names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return names


def _collect_named(used: str, thing: object, texts: dict[str, str], imports: set[str]) -> None:
    """Add the source of the global called `used` to `texts`, or its import line to `imports`.

    `thing` is the global's value. Raises Unwritable if it cannot be written as source.
    """
    if isinstance(thing, ModuleType):
        if thing is not torch:
            tail = "" if thing.__name__ == used else f" as {used}"
            imports.add(f"import {thing.__name__}{tail}")
    elif type(thing).__name__ == "CustomOpDef":
        return  # its definition is collected with the operator
    elif (inner := triton_function(thing)) is not None:
        _collect_function(inner, texts, imports)
    elif inspect.isfunction(thing) and f"{thing.__module__}.{thing.__qualname__}" not in texts:
        _collect_function(thing, texts, imports)
    elif isinstance(thing, type) or getattr(thing, "__module__", "") == "typing":
        name = getattr(thing, "__qualname__", used)
        tail = "" if name == used else f" as {used}"
        if thing.__module__ != "builtins":
            imports.add(f"from {thing.__module__} import {name}{tail}")
    elif not callable(thing):
        texts[used] = f"{used} = {syntax.text(syntax.constant(thing))}"
