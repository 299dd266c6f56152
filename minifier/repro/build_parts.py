"""Split source with a `build()` into the parts of a script: definitions, inputs, call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fullgraph.minifier.emit.program_text import ProgramText

_NAMES = ("x", "y", "z")
"""Preferred names of inputs."""


@dataclass(frozen=True)
class ProgramFacts:
    """Properties of a program that are found by running it."""

    form: str
    """What the inputs are: "tuple", "dict", or "one" for a single value."""
    tensor: bool
    """Whether the program returns one tensor."""
    random: bool
    """Whether a call draws random numbers."""
    mutates: bool = False
    """Whether a call changes the inputs or the program, or returns memory of either."""
    random_inputs: bool = False
    """Whether making the program and its inputs draws random numbers."""


UNKNOWN = ProgramFacts("tuple", tensor=False, random=True, mutates=True, random_inputs=True)
"""Facts that are assumed of a program that could not be run."""


def program(text: str, facts: ProgramFacts) -> ProgramText:
    """Return the parts of a program from which a script is written: definitions, inputs, call.

    `text` makes the program in `build()`, or in top-level names `model` and `inputs`.
    """
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    flat = _inline_build([node for node in tree.body if node not in imports])
    found = _split_parts(flat, facts) or _unsplit_parts(flat, facts)
    lines = sorted({line for node in imports for line in _split_import(node)} - {"import torch"})
    if facts.tensor:
        found = replace(found, outputs=1, loss="{}.sum()")
    return replace(
        found,
        imports=tuple(lines),
        random=facts.random,
        mutates=facts.mutates,
        random_inputs=facts.random_inputs,
    )


def _split_import(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return an import as one line for each module: `import os, re` gives two lines."""
    if isinstance(node, ast.ImportFrom):
        return [ast.unparse(node)]
    return [ast.unparse(ast.Import([name])) for name in node.names]


def _inline_build(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a module's statements with the body of `build()` in place of its definition.

    Its `return f, x` becomes `model = f` and `inputs = x`. If `build()` does not end with such a
    pair, or returns early, `model, inputs = build()` is added instead.
    """
    found: list[ast.stmt] = []
    for node in body:
        if not isinstance(node, ast.FunctionDef) or node.name != "build":
            found.append(node)
            continue
        last = node.body[-1]
        inner = [n for n in node.body[:-1] if not isinstance(n, ast.Pass)]
        value = last.value if isinstance(last, ast.Return) else None
        if not isinstance(value, ast.Tuple) or len(value.elts) != 2 or _returns_early(inner):
            return [*body, *ast.parse("model, inputs = build()").body]
        pair = zip(("model", "inputs"), value.elts, strict=True)
        found += [*inner, *(_make_assignment(name, value) for name, value in pair)]
    return found


def _returns_early(body: list[ast.stmt]) -> bool:
    """Return whether the statements `body` of a function contain one of its `return`s."""
    for node in body:
        if isinstance(node, ast.Return):
            return True
        inner = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
        scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not scope and _returns_early(inner):
            return True
    return False


def _split_parts(body: list[ast.stmt], facts: ProgramFacts) -> ProgramText | None:
    """Return the parts of a program, in which each input has a statement of its own.

    None unless `body` assigns `model` and `inputs` once each and does not use them otherwise.
    """
    given = {name: node.value for node in body for name, node in _single_assignment(node)}
    if "model" not in given or "inputs" not in given:
        return None
    model, inputs = given["model"], given["inputs"]
    rest = [
        n for n in body if not any(name in ("model", "inputs") for name, _ in _single_assignment(n))
    ]
    used = {n.id for node in rest for n in ast.walk(node) if isinstance(n, ast.Name)}
    if {"model", "inputs"} & used:
        return None
    names = {name for node in rest for name in _names_assigned(node)}
    target = model.id if isinstance(model, ast.Name) else "model"
    if isinstance(model, ast.Lambda):
        rest.append(_lambda_to_def(model))
        target = "f"
    elif target == "model":
        rest.append(_make_assignment("model", model))
    lines: list[str] = []
    calls: list[tuple[str, ...]] = []
    for one in _inputs_of_calls(inputs):
        more, arguments, places = _input_statements(one, facts, names)
        names |= {name for line in more for name in _names_assigned(ast.parse(line).body[0])}
        lines += more
        calls.append(tuple(arguments))
    function, assigned = _split_at_definitions(rest)
    text = "\n".join([*assigned, *lines])
    return ProgramText(function, text, target, calls[-1], tuple(calls[:-1]), places=places)


def _inputs_of_calls(inputs: ast.expr) -> list[ast.expr]:
    """Return the expression of the inputs of each call."""
    items = inputs.elts if isinstance(inputs, ast.List) else []
    is_list = items and all(isinstance(one, ast.Tuple | ast.Dict) for one in items)
    return items if is_list else [inputs]


def _split_at_definitions(body: list[ast.stmt]) -> tuple[str, list[str]]:
    """Return the source up to the last function or class, and each statement after it as source."""
    definitions = [n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    last = max((body.index(n) for n in definitions), default=-1)
    return _join_statements(body[: last + 1]), [*map(ast.unparse, body[last + 1 :])]


def _unsplit_parts(body: list[ast.stmt], facts: ProgramFacts) -> ProgramText:
    """Return the parts of a program in which the inputs keep their one statement.

    The call is `model(*inputs)`, `model(**inputs)` or `model(inputs)`.
    """
    star = {"tuple": "*inputs", "dict": "**inputs"}.get(facts.form, "inputs")
    places = {"input" if star.startswith("*") else "input[0]": "inputs"}
    function, assigned = _split_at_definitions(body)
    return ProgramText(function, "\n".join(assigned), "model", (star,), places=places)


def _single_assignment(node: ast.stmt) -> Iterator[tuple[str, ast.Assign]]:
    """Yield the name and statement of an assignment to one name; nothing for other statements."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Name):
            yield target.id, node


def _names_assigned(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement assigns or defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id


def _make_assignment(name: str, value: ast.expr) -> ast.stmt:
    return ast.parse(f"{name} = {ast.unparse(value)}").body[0]


def _lambda_to_def(function: ast.Lambda) -> ast.stmt:
    """Return a lambda as a function: `def f(x): return x + 1` for `lambda x: x + 1`."""
    text = f"def f({ast.unparse(function.args)}):\n    return {ast.unparse(function.body)}"
    return ast.parse(text).body[0]


def _input_statements(
    inputs: ast.expr, facts: ProgramFacts, taken: set[str]
) -> tuple[list[str], list[str], dict[str, str]]:
    """Return (statements that assign the inputs, arguments of the call, variables by input).

    For `(torch.ones(3), y)`: ["x = torch.ones(3)"], ["x", "y"], {"input[0]": "x", "input[1]": "y"}.
    `taken` are names that are in use.
    """
    keys: list[object]
    match inputs:
        case ast.Tuple(elts=items) if not any(isinstance(i, ast.Starred) for i in items):
            keys = [*range(len(items))]
        case ast.Dict(keys=given, values=items) if all(isinstance(k, ast.Constant) for k in given):
            keys = [k.value for k in given if isinstance(k, ast.Constant)]
        case _ if facts.form == "one":
            items, keys = [inputs], [0]
        case _:
            star = "**inputs" if facts.form == "dict" else "*inputs"
            return [f"inputs = {ast.unparse(inputs)}"], [star], {"input": "inputs"}
    free = _unused_names(taken)
    lines, arguments, places = [], [], {}
    for key, item in zip(keys, items, strict=True):
        name = ast.unparse(item)
        if not isinstance(item, ast.Name | ast.Constant):
            name = next(free)
            lines.append(f"{name} = {ast.unparse(item)}")
        arguments.append(name if isinstance(key, int) else f"{key}={name}")
        places[f"input[{key!r}]"] = name
    return lines, arguments, places


def _unused_names(taken: set[str]) -> Iterator[str]:
    """Yield variable names (x, y, …) that are not in `taken`."""
    yield from (name for name in _NAMES if name not in taken)
    number = 0
    while True:
        if f"x{number}" not in taken:
            yield f"x{number}"
        number += 1


def _join_statements(body: list[ast.stmt]) -> str:
    """Return statements as source, with blank lines around definitions."""
    text, after = "", False
    for node in body:
        scope = isinstance(node, ast.FunctionDef | ast.ClassDef)
        if text:
            text += "\n\n\n" if scope or after else "\n"
        text, after = text + ast.unparse(node), scope
    return text
