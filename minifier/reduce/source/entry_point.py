"""Entry point of a source text: the program that it makes, and its inputs."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, ModuleType

from fullgraph.compiler.sources import first_line

FILE = "candidate.py"


@dataclass(frozen=True, eq=False)
class EntryPoint:
    """The part of a source text that makes the model and its inputs.

    Either a `build()` that returns (model, inputs), or the top-level names `model` and `inputs`.
    """

    statements: tuple[ast.stmt, ...]
    """Statements that must stay: `build` and its return, or the two assignments."""
    model: ast.expr
    inputs: ast.expr | None
    """None if `build` does not return a tuple of two expressions."""


def find_entry(tree: ast.Module) -> EntryPoint | None:
    """Return the entry point of a module: `build()`, or the top-level names `model` and `inputs`.

    None if it has neither, or if `build()` does not end with `return` and a value.
    """
    for statement in reversed(tree.body):
        if isinstance(statement, ast.FunctionDef) and statement.name == "build":
            last = statement.body[-1]
            if not isinstance(last, ast.Return) or last.value is None:
                return None
            value = last.value
            if isinstance(value, ast.Tuple) and len(value.elts) == 2:
                return EntryPoint((statement, last), *value.elts)
            return EntryPoint((statement, last), value, None)
    found = {
        target.id: statement
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id in ("model", "inputs")
    }
    if len(found) < 2:
        return None
    return EntryPoint(tuple(found.values()), found["model"].value, found["inputs"].value)


def replace_entry(text: str, model: str, inputs: str) -> str | None:
    """Return `text` with an entry point that makes another model and other inputs.

    Both are source: "f" and "(torch.ones(3),)". None if `text` has no entry point.
    """
    tree = ast.parse(text)
    found = find_entry(tree)
    if found is None:
        return None
    lines = text.split("\n")
    for statement in sorted(found.statements, key=lambda s: -s.lineno):
        if statement in tree.body:
            del lines[first_line(statement) - 1 : statement.end_lineno]
    if isinstance(found.statements[0], ast.FunctionDef):
        new = f"def build():\n    return {model}, {inputs}"
    else:
        new = f"model = {model}\ninputs = {inputs}"
    return "\n".join(lines).rstrip("\n") + f"\n{new}\n"


def load_module(
    text: str, code: CodeType | None = None, names: Mapping[str, object] | None = None
) -> ModuleType:
    """Execute `text` as a module and return it.

    The module is in `sys.modules` and `linecache`, where decorators that read source look for it.
    If `code` is given, it is executed instead of `text`, with `names` among its globals. Raises
    what the text raises.
    """
    module = ModuleType(FILE.removesuffix(".py"))
    module.__file__ = FILE
    sys.modules[module.__name__] = module
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    if code is None:
        code = compile(text, FILE, "exec", dont_inherit=True)
    module.__dict__.update(names or {})
    exec(code, module.__dict__)
    return module


def entry_calls(
    module: ModuleType,
) -> tuple[Callable[..., object], list[tuple[tuple[object, ...], dict[str, object]]]]:
    """Return the model and (args, kwargs) of each call that a module's entry point describes.

    Inputs are a tuple, a dict, one value, or a list of tuples and dicts.
    """
    if hasattr(module, "build"):
        model, inputs = module.build()[:2]
    else:
        model, inputs = module.model, module.inputs
    return model, [_call_of(one) for one in calls_in(inputs)]


def entry_call(
    module: ModuleType,
) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
    """Return (model, args, kwargs) of the last call that a module's entry point describes."""
    model, calls = entry_calls(module)
    return model, *calls[-1]


def calls_in(inputs: object) -> list[object]:
    """Return the inputs of each call: those of a list of tuples and dicts, else the inputs."""
    if isinstance(inputs, list) and inputs and all(isinstance(x, tuple | dict) for x in inputs):
        return inputs
    return [inputs]


def _call_of(inputs: object) -> tuple[tuple[object, ...], dict[str, object]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}
