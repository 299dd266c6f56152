"""Functions that run compiled, at which the interpreter starts."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from fullgraph.compiler.errors import FullgraphError
from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.check.project import ClassDefinition, FunctionDefinition, Module
from fullgraph.rewrites.check.syntax import dotted, functions_around, walk

COMPILERS = frozenset({"torch.compile", "torch._dynamo.optimize"})
"""Functions that compile their argument, and decorators."""
COMPILER_WORD = re.compile(r"\b(?:compile|optimize)\b")
"""Matches in every text that calls one of `COMPILERS`, also under another name."""
_MODULES = word_set("Module PreTrainedModel LightningModule ModelMixin PyTorchModelHubMixin _Loss")
EXCLUDED = frozenset(
    {
        *("torch.compiler.disable", "torch._dynamo.disable", "torch._dynamo.skip"),
        *("torch.jit.script", "torch.jit.ignore", "torch.jit.unused"),
    }
)


@dataclass(frozen=True)
class Entry:
    """A function that runs compiled, and at which the interpreter starts."""

    function: FunctionDefinition
    owner: ClassDefinition | None = None
    """The class of `self`; None for a function."""
    context: bool = False
    """Whether the first parameter is the `ctx` of an autograd.Function."""
    compiled: bool = False
    """Whether the code or the user says that this very function is compiled."""


def is_test(module: Module) -> bool:
    """Return whether a file holds tests, judged by its name."""
    name = PurePath(module.source.name).name
    return name.startswith(("test_", "conftest.")) or name.endswith("_test.py")


def find_entries(module: Module, named: Collection[str] = ()) -> Iterator[Entry]:
    """Yield the entries of a file: those that its code shows, and those among `named`.

    `named` are names that the user gave, such as "pkg.module:function".
    """
    seen: set[ast.AST] = set()
    for name in named:
        inside, _, function = name.partition(":")
        if inside == module.name:
            known = _named_entry(module, function)
            seen.add(known.function.node)
            yield known
    if "torch" not in module.source.text or is_test(module):
        return
    every = (*module.definitions.values(), *module.local_classes)
    shown = (entry for one in every for entry in _entries_of(one))
    for entry in (*_compiled_functions(module), *shown):
        wanted = entry.compiled or not _is_excluded(entry.function)
        if wanted and entry.function.node not in seen:
            seen.add(entry.function.node)
            yield entry


def _named_entry(module: Module, name: str) -> Entry:
    """Return the entry for a name such as "step" or "Trainer.step".

    Raises FullgraphError if the module does not define it.
    """
    outer, _, last = name.rpartition(".")
    known = module.definitions.get(outer or last)
    if isinstance(known, ClassDefinition) and outer and last in known.own_methods:
        return Entry(known.own_methods[last], known, compiled=True)
    if isinstance(known, FunctionDefinition) and not outer:
        return Entry(known, compiled=True)
    raise FullgraphError(f"{module.source.name} defines no function {name!r} to check as an entry.")


def _is_excluded(function: FunctionDefinition) -> bool:
    return any(name in EXCLUDED for name in function.decorators)


def _entries_of(definition: FunctionDefinition | ClassDefinition) -> Iterator[Entry]:
    if isinstance(definition, FunctionDefinition):
        return
    if definition.has_base(["torch.autograd.Function", "torch.autograd.function.Function"]):
        for name in ("forward", "backward", "setup_context"):
            if (step := definition.own_methods.get(name)) is not None:
                yield Entry(step, None, context=True)
    elif is_module_class(definition):
        forward = definition.own_methods.get("forward")
        if forward is not None:
            yield Entry(forward, definition)
        elif definition.own_methods.keys() - {"__init__"} or definition.assigned:
            inherited = definition.method("forward")
            if inherited is not None and inherited.module is definition.module:
                yield Entry(inherited, definition)


def is_module_class(kind: ClassDefinition) -> bool:
    """Return whether a class is likely a torch.nn.Module with a `forward`.

    This is judged by the names of its bases. False if neither the class nor one of its bases in the
    project defines `forward`.
    """
    if "forward" not in kind.own_methods and kind.method("forward") is None:
        return False
    names = [one for one in kind.order if isinstance(one, str)]
    for name in names:
        if name.startswith("torch.nn.") or name.rpartition(".")[2] in _MODULES:
            return True
    method = kind.method("forward")
    unknown = [name for name in names if name not in ("object", "abc.ABC", "typing.Generic")]
    return bool(unknown) and method is not None and bool(method.node.args.args[1:])


def _compiled_functions(module: Module) -> Iterator[Entry]:
    """Yield the functions that a module passes to torch.compile, or decorates with it."""
    if not COMPILER_WORD.search(module.source.text):
        return
    compilers = _Compilers(module)
    for node in walk(module.source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(map(compilers.includes, node.decorator_list)):
                yield _entry_of(module, node)
        elif isinstance(node, ast.Call) and node.args and compilers.includes(node.func):
            target = node.args[0]
            if isinstance(target, ast.Lambda):
                yield Entry(FunctionDefinition(target, module), compiled=True)
                continue
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Call):
                yield from _methods(module, dotted(target.value.func), target.attr)
                continue
            name = dotted(target)
            known = module.find(name)
            if isinstance(known, FunctionDefinition) and known.module is module:
                yield Entry(known, compiled=True)
            elif known is None and name:
                yield from _local_functions(module, name)


class _Compilers:
    """The expressions of a module that are torch.compile, with or without arguments bound."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._names: set[str] = set()
        assigned = [one for one in walk(module.source.tree) if isinstance(one, ast.Assign)]
        known = -1
        while len(self._names) > known:
            known = len(self._names)
            values = (one.targets for one in assigned if self.includes(one.value))
            self._names |= {dotted(target) for targets in values for target in targets}

    def includes(self, node: ast.expr) -> bool:
        """Whether `node` compiles what it is called with: `compile`, `compile(mode=…)`, a name or
        a `functools.partial` of these."""
        if not isinstance(node, ast.Call):
            name = dotted(node)
            return self._module.qualified(name) in COMPILERS or name in self._names
        if self._module.qualified(dotted(node.func)) == "functools.partial":
            return len(node.args) == 1 and self.includes(node.args[0])
        return not node.args and self.includes(node.func)


def _methods(module: Module, name: str, method: str) -> Iterator[Entry]:
    """Yield the method that `torch.compile(Name(…).method)` compiles."""
    for one in (module.find(name), *module.local_classes):
        if isinstance(one, ClassDefinition) and one.name == name and method in one.own_methods:
            yield Entry(one.own_methods[method], one, compiled=True)


def _entry_of(module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Entry:
    """Return the entry for a compiled function, method or nested function."""
    for definition in (*module.definitions.values(), *module.local_classes):
        if isinstance(definition, FunctionDefinition) and definition.node is node:
            return Entry(definition, compiled=True)
        if isinstance(definition, ClassDefinition):
            for method in definition.own_methods.values():
                if method.node is node:
                    return Entry(method, definition, compiled=True)
    return Entry(_nested_function(module, node), compiled=True)


def _local_functions(module: Module, name: str) -> Iterator[Entry]:
    """Yield the functions in a module that `torch.compile(name)` may compile.

    "step" means nested functions called `step`; "self.step" means the methods of that name.
    """
    last = name.rpartition(".")[2]
    if name.startswith("self."):
        for one in module.definitions.values():
            if isinstance(one, ClassDefinition) and last in one.own_methods:
                yield Entry(one.own_methods[last], one, compiled=True)
        return
    if "." in name:
        return
    for node in walk(module.source.tree):
        if isinstance(node, ast.FunctionDef) and node.name == last:
            nested = _nested_function(module, node)
            if nested.prefix:
                yield Entry(nested, compiled=True)


def _nested_function(
    module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> FunctionDefinition:
    outer = functions_around(module.source.tree, node)
    return FunctionDefinition(node, module, None, f"{outer[0].name}." if outer else "")
