"""Where a text says what is called, and with what."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fullgraph.compiler.sources import first_line


@dataclass(frozen=True, eq=False)
class Entry:
    """A `build()` that returns (model, inputs), or the top-level names `model` and `inputs`."""

    statements: tuple[ast.stmt, ...]
    """What must stay: `build` and its return, or the two assignments."""
    model: ast.expr
    inputs: ast.expr | None
    """None where `build` does not return a tuple that can be read."""


def entry(tree: ast.Module) -> Entry | None:
    """The entry of a text; None if it has none that can be read."""
    for statement in reversed(tree.body):
        if isinstance(statement, ast.FunctionDef) and statement.name == "build":
            last = statement.body[-1]
            if not isinstance(last, ast.Return) or last.value is None:
                return None
            value = last.value
            if isinstance(value, ast.Tuple) and len(value.elts) == 2:
                return Entry((statement, last), *value.elts)
            return Entry((statement, last), value, None)
    found = {
        target.id: statement
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id in ("model", "inputs")
    }
    if len(found) < 2:
        return None
    return Entry(tuple(found.values()), found["model"].value, found["inputs"].value)


def entered(text: str, model: str, inputs: str) -> str | None:
    """`text` with another entry, in the form of its own; None if it has none."""
    tree = ast.parse(text)
    found = entry(tree)
    if found is None:
        return None
    lines = text.split("\n")
    build = isinstance(found.statements[0], ast.FunctionDef)
    for statement in sorted(found.statements, key=lambda s: -s.lineno):
        if statement in tree.body:
            del lines[first_line(statement) - 1 : statement.end_lineno]
    new = f"def build():\n    return {model}, {inputs}"
    if not build:
        new = f"model = {model}\ninputs = {inputs}"
    return "\n".join(lines).rstrip("\n") + f"\n{new}\n"
