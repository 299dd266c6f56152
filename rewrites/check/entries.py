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
from fullgraph.rewrites.check.syntax import dotted, walk

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
    seen: set[FunctionDefinition] = set()
    for name in named:
        inside, _, function = name.partition(":")
        if inside == module.name:
            known = _named_entry(module, function)
            seen.add(known.function)
            yield known
    if "torch" not in module.source.text or is_test(module):
        return
    for definition in module.definitions.values():
        for entry in _entries_of(definition):
            if entry.function not in seen and not _is_excluded(entry.function):
                seen.add(entry.function)
                yield entry
    for entry in _compiled_functions(module):
        if entry.function not in seen:
            seen.add(entry.function)
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
        if any(name in COMPILERS for name in definition.decorators):
            yield Entry(definition, compiled=True)
        return
    for method in definition.own_methods.values():
        if any(name in COMPILERS for name in method.decorators):
            yield Entry(method, definition, compiled=True)
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
    """Yield the functions and lambdas that a module passes to torch.compile."""
    if not COMPILER_WORD.search(module.source.text):
        return
    for node in walk(module.source.tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        if module.qualified(dotted(node.func)) not in COMPILERS:
            continue
        target = node.args[0]
        if isinstance(target, ast.Lambda):
            yield Entry(FunctionDefinition(target, module), compiled=True)
            continue
        name = dotted(target)
        known = module.find(name)
        if isinstance(known, FunctionDefinition) and known.module is module:
            yield Entry(known, compiled=True)
        elif known is None and name:
            yield from _local_functions(module, name)


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
            outer = _function_around(module, node)
            if outer is not None:
                inside = f"{outer}."
                yield Entry(FunctionDefinition(node, module, None, inside), compiled=True)


def _function_around(module: Module, node: ast.FunctionDef) -> str | None:
    """Return the name of the function whose body contains `node`; None at the top level."""
    for one in walk(module.source.tree):
        if isinstance(one, ast.FunctionDef) and any(inner is node for inner in one.body):
            return one.name
    return None
