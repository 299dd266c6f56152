"""What code reads of its surroundings: the frames that call it, and variables that others write."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis.flow import names_bound, parameter_names
from fullgraph.rewrites.source import Document, walk

_FRAMES = frozenset(
    {
        "inspect.currentframe",
        "inspect.stack",
        "inspect.getouterframes",
        "sys._getframe",
        "sys._getframemodulename",
        "sys._current_frames",
        "traceback.extract_stack",
        "traceback.format_stack",
        "traceback.print_stack",
        "traceback.walk_stack",
    }
)
_MODES = frozenset(
    {
        "torch.is_grad_enabled",
        "torch.is_inference_mode_enabled",
        "torch.is_autocast_enabled",
        "torch.get_autocast_dtype",
        "torch.get_autocast_gpu_dtype",
        "torch.get_autocast_cpu_dtype",
        "torch.is_autocast_cpu_enabled",
    }
)
"""Calls that ask for a mode, which is another inside an operator."""
_OF_CALLER = m.Call(
    args=[m.ZeroOrMore(), m.Arg(~m.Integer("1"), keyword=m.Name("stacklevel")), m.ZeroOrMore()]
) | m.Call(func=m.Attribute(attr=m.Name("findCaller")))
"""Calls that look for the frame of their caller: warnings and logs with a level, and a logger."""
_MUTATING = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update"}
    | {"setdefault", "add", "discard", "popitem", "appendleft", "popleft"}
)


def frame_lookup(document: Document, nodes: Iterable[cst.CSTNode]) -> str:
    """Return the code of a call that looks at the frames around it: "inspect.stack()".

    "" if neither `nodes` nor the functions of the file that they call have one. One more function
    around such code changes what it finds.
    """
    for node in _reached(document, nodes):
        if isinstance(node, cst.Call) and (
            document.qualified_name(node.func) in _FRAMES or m.matches(node, _OF_CALLER)
        ):
            return document.code(node)
    return ""


def difference_in_operator(document: Document, nodes: Sequence[cst.CSTNode]) -> str:
    """Return why code does otherwise inside an operator, as a clause; "" if no reason is known."""
    if lookup := frame_lookup(document, nodes):
        return f"`{lookup}` looks at the frames around it, and an operator adds some"
    for node in _reached(document, nodes):
        if isinstance(node, cst.Call) and document.qualified_name(node.func) in _MODES:
            return f"`{document.code(node)}` is another inside an operator, below autograd"
    return ""


def written_variable(document: Document, nodes: Iterable[cst.CSTNode]) -> tuple[str, int] | None:
    """Return a global variable that code reads and a function of the file writes, with the line.

    The functions of the file that `nodes` call count, too. None if there is no such variable.
    """
    written = _written_globals(document.text)
    for node in _reached(document, nodes) if written else ():
        if isinstance(node, cst.Name) and node.value in written:
            parent, function = document.parent(node), document.function(node)
            is_attribute = isinstance(parent, cst.Attribute) and parent.value is not node
            if not is_attribute and (function is None or node.value not in _own(function)):
                return node.value, written[node.value]
    return None


def _own(function: cst.FunctionDef | cst.Lambda) -> set[str]:
    """Return the names that are variables of a function itself."""
    declared = {one.name.value for one in walk(function) if isinstance(one, cst.NameItem)}
    return {*names_bound(function), *parameter_names(function)} - declared


def _reached(document: Document, nodes: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Yield the parts of `nodes`, and of the functions of the file that they call by a name."""
    functions = _functions(document)
    left, entered = [*nodes], set[str]()
    for root in left:
        for node in walk(root):
            yield node
            match node:
                case cst.Call(
                    cst.Name(name) | cst.Attribute(cst.Name("self" | "cls"), cst.Name(name))
                ):
                    if name in functions and name not in entered:
                        entered.add(name)
                        left += functions[name]


@lru_cache(maxsize=8)
def _functions(document: Document) -> Mapping[str, list[cst.FunctionDef]]:
    """Return the functions and methods of a file by their names."""
    functions: dict[str, list[cst.FunctionDef]] = {}
    for one in walk(document.module):
        if isinstance(one, cst.FunctionDef):
            functions.setdefault(one.name.value, []).append(one)
    return functions


@lru_cache(maxsize=64)
def _written_globals(text: str) -> Mapping[str, int]:
    """Return the module's variables that its functions assign or change in place, with the line."""
    tree = ast.parse(text)
    known = {
        name.id
        for statement in tree.body
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for name in ast.walk(statement)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    written: dict[str, int] = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for name, line in _writes(function):
                if name in known:
                    written.setdefault(name, line)
    return written


def _writes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, int]]:
    """Yield the names that are no locals of a function and that it writes, with the line."""
    nodes = list(ast.walk(function))
    declared = {name for one in nodes if isinstance(one, ast.Global) for name in one.names}
    stored = [n for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    own = {one.id for one in stored} | {one.arg for one in nodes if isinstance(one, ast.arg)}
    yield from ((one.id, one.lineno) for one in stored if one.id in declared)
    for one in nodes:
        match one:
            case ast.Attribute(value=base, ctx=ast.Store() | ast.Del()):
                pass
            case ast.Subscript(value=base, ctx=ast.Store() | ast.Del()):
                pass
            case ast.Call(ast.Attribute(base, name)) if name in _MUTATING:
                pass
            case _:
                continue
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        if isinstance(base, ast.Name) and (base.id not in own or base.id in declared):
            yield base.id, one.lineno
