"""Calls of compiled functions in loops, with numbers that differ from call to call."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from fullgraph.rewrites.check.entries import COMPILER_WORD, COMPILERS
from fullgraph.rewrites.check.interpreter.inputs import is_constant_in_graph
from fullgraph.rewrites.check.interpreter.machine import Note
from fullgraph.rewrites.check.interpreter.recompiles import reads
from fullgraph.rewrites.check.project import ClassDefinition, FunctionDefinition, Module
from fullgraph.rewrites.check.syntax import dotted, walk


def changing_arguments(module: Module) -> Iterator[Note]:
    """Yield a note for each argument of a compiled function that is another number each time.

    These are calls in loops of functions and methods that are not compiled themselves.
    """
    compiled = compiled_names(module)
    for caller in _functions(module) if compiled else ():
        loops = [one for one in caller.nodes if isinstance(one, ast.For | ast.While)]
        for loop in loops if caller not in compiled.values() else ():
            numbers = _numbers_of(loop)
            calls = (one for part in loop.body for one in walk(part) if isinstance(one, ast.Call))
            for call in calls if numbers else ():
                if (function := compiled.get(dotted(call.func))) is None:
                    continue
                for arg, name in _pairs(call, function):
                    if _is_number(arg, numbers) and reads(function.node, name):
                        whole = "range_" if is_constant_in_graph(function, name) else ""
                        yield Note(f"recompile.int_{whole}argument", arg, caller, True)


def _functions(module: Module) -> Iterator[FunctionDefinition]:
    """Yield the functions and methods at the top level of a module."""
    for one in module.definitions.values():
        yield from one.own_methods.values() if isinstance(one, ClassDefinition) else [one]


def _pairs(call: ast.Call, function: FunctionDefinition) -> Iterator[tuple[ast.expr, str]]:
    """Yield the arguments of a call with the names of their parameters."""
    names = [one.arg for one in function.node.args.args][function.owner is not None :]
    yield from zip(call.args, names, strict=False)
    yield from ((one.value, one.arg) for one in call.keywords if one.arg)


def compiled_names(module: Module) -> Mapping[str, FunctionDefinition]:
    """Return the compiled functions of a module, by the name or path with which they are called."""
    if not COMPILER_WORD.search(module.source.text):
        return {}
    found: dict[str, FunctionDefinition] = {}
    for function in _functions(module):
        if any(name in COMPILERS for name in function.decorators):
            found[f"{'self.' if function.owner else ''}{function.name}"] = function
    instances = dict(_instances(module))
    for node in walk(module.source.tree):
        match node:
            case ast.Assign(targets=[target], value=ast.Call(func=called, args=[inner, *_])):
                if module.qualified(dotted(called)) in COMPILERS:
                    known = module.find(dotted(inner))
                    made = _class_of(inner, module) or instances.get(dotted(inner))
                    method = made.method("forward") if made is not None else None
                    compiled = known if isinstance(known, FunctionDefinition) else method
                    if compiled is not None and dotted(target):
                        found[dotted(target)] = compiled
            case ast.Call(func=ast.Attribute(value=owner, attr="compile")):
                made = instances.get(dotted(owner))
                if made is not None and (method := made.method("forward")) is not None:
                    found[dotted(owner)] = method
    return found


def _instances(module: Module) -> Iterator[tuple[str, ClassDefinition]]:
    """Yield each name that an instance of a class of the project is assigned to, and the class."""
    for node in walk(module.source.tree):
        if isinstance(node, ast.Assign) and (made := _class_of(node.value, module)) is not None:
            yield from ((dotted(one), made) for one in node.targets)


def _class_of(node: ast.expr, module: Module) -> ClassDefinition | None:
    """Return the class of which an expression makes an instance, as `Net(4)` and `Net().cuda()`."""
    while isinstance(node, ast.Call):
        known = module.find(dotted(node.func))
        if isinstance(known, ClassDefinition):
            return known
        node = node.func.value if isinstance(node.func, ast.Attribute) else ast.Constant(None)
    return None


def _numbers_of(loop: ast.For | ast.While) -> set[str]:
    """Return the variables that are another number in each iteration of a loop."""
    found: set[str] = set()
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=called)):
            if dotted(called).rpartition(".")[2] in ("range", "trange"):
                found.add(name)
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call(func=called)):
            if dotted(called) == "enumerate":
                found.add(name)
    for part in loop.body:
        for node in walk(part):
            match node:
                case ast.AugAssign(target=ast.Name(id=name), value=ast.Constant(value=int())):
                    found.add(name)
                case ast.AugAssign(target=ast.Name(id=name), value=ast.Constant(value=float())):
                    found.add(name)
    return found


def _is_number(node: ast.expr, numbers: set[str]) -> bool:
    """Return whether an expression is arithmetic on constants and at least one of the numbers."""
    match node:
        case ast.Name(id=name):
            return name in numbers
        case ast.BinOp(left=left, right=right):
            both = [one for one in (left, right) if not isinstance(one, ast.Constant)]
            return bool(both) and all(_is_number(one, numbers) for one in both)
    return False
