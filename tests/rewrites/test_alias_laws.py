"""Each rule's own example with its tensors in other places: a caller sees no difference.

The tensors lie in a list, tuple, dict or object, ask for gradients, are views of larger ones, or
are one tensor. What is compared in eager is what the caller gets, what was written, what shares
memory with what, and the gradients.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torch.utils import _pytree

from benchmarks.golden_cases import PROGRAMS
from benchmarks.golden_programs.program import Program

from .harness import imported, offered_at

Tensors = tuple[Any, ...]
Place = tuple[Callable[[Tensors], Any], Callable[[int], str]]
"""What holds the arguments, and the expression of each."""

GOLDEN = Path(__file__).parents[2] / "benchmarks" / "golden" / "rules.json"


def _named(given: Tensors) -> dict[str, Any]:
    return {f"t{number}": x for number, x in enumerate(given)}


PLACES: dict[str, Place] = {
    "list": (list, "box[{}]".format),
    "tuple": (tuple, "box[{}]".format),
    "dict": (_named, "box['t{}']".format),
    "attribute": (lambda given: SimpleNamespace(**_named(given)), "box.t{}".format),
}
DIFFERS = {
    ("FG200", "leaf"): "no gradient is asked for where a number is twice in",
    ("FG202", ""): "the caller accepts a tensor in place of the number",
    ("FG801", "leaf"): "no tensor in it asks for a gradient",
}
"""Rules whose edits a caller can see, with the calls ("" for all), and the clause that says so."""


def _leaves(given: Tensors) -> Tensors:
    return tuple(
        x.detach().clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x
        for x in given
    )


def _views(given: Tensors) -> Tensors:
    return tuple(torch.stack([x, x])[0] if torch.is_tensor(x) else x for x in given)


def _strided(given: Tensors) -> Tensors:
    return tuple(torch.stack([x, x], -1)[..., 0] if torch.is_tensor(x) else x for x in given)


def _twice(given: Tensors) -> Tensors:
    """The same tensor wherever shape and dtype allow it."""
    first: dict[Any, Any] = {}
    keys = [(x.shape, x.dtype) if torch.is_tensor(x) else n for n, x in enumerate(given)]
    return tuple(first.setdefault(key, x) for key, x in zip(keys, given, strict=True))


def _overlapping(given: Tensors) -> Tensors:
    return tuple(x.view_as(x) if torch.is_tensor(x) else x for x in _twice(given))


CALLS = {
    "given": lambda given: given,
    "leaf": _leaves,
    "view": _views,
    "strided": _strided,
    "twice": _twice,
    "overlapping": _overlapping,
}


def _edits() -> Iterator[Any]:
    """Yield the edits of each rule in its own example, as recorded."""
    golden = json.loads(GOLDEN.read_text())
    for program in PROGRAMS.values():
        for one in golden[program.key]["fix"]["suggestions"]:
            if one["rule"] == program.rule and one["applicability"] != "display":
                yield pytest.param(program, one, id=f"{program.key} {one['cause']}")


class _Move(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, places: dict[str, str]) -> None:
        self._places = places

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._places:
            return node
        place = ast.parse(self._places[node.id], mode="eval").body
        place.ctx = node.ctx
        return place


def _moved(
    program: Program, cause: dict[str, Any], place: str | None
) -> tuple[str, list[tuple[int, int, int, int]]]:
    """Return the example with its arguments elsewhere, and where the cause may be in it."""
    name = program.make.__name__
    tree = ast.parse(Path(inspect.getfile(program.make)).read_text())
    tree.body = [one for one in tree.body if not _is_of_benchmarks(one)]
    made = next(one for one in tree.body if getattr(one, "name", "") == name)
    entry, tail = made, f"f = {name}\n"
    if isinstance(made, ast.ClassDef):
        entry = next(one for one in made.body if getattr(one, "name", "") == "forward")
        tail = f"torch.manual_seed(0)\nf = {name}()\n"
    text = ast.unparse(ast.parse(cause["cause"], mode="eval"))
    found = [one for one in ast.walk(tree) if getattr(one, "lineno", 0) == cause["line"]]
    nodes = [one for one in found if isinstance(one, ast.expr) and ast.unparse(one) == text]
    if place is not None:
        given = [one.arg for one in entry.args.args if one.arg != "self"]
        named = {one: PLACES[place][1](number) for number, one in enumerate(given)}
        entry.args = ast.arguments(
            [],
            [one for one in entry.args.args if one.arg == "self"] + [ast.arg("box")],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        )
        entry.body = [_Move(named).visit(one) for one in entry.body]
    numbers = [number for number, one in enumerate(ast.walk(tree)) if one in nodes]
    source = ast.unparse(tree)
    every = [*ast.walk(ast.parse(source))]
    there = [every[number] for number in numbers]
    spans = [(one.lineno, one.col_offset, one.end_lineno, one.end_col_offset) for one in there]
    return f"{source}\n{tail}", spans


def _is_of_benchmarks(statement: ast.stmt) -> bool:
    match statement:
        case ast.ImportFrom(module=str(module)):
            return module.startswith("benchmarks")
        case ast.Assign(targets=[ast.Name("PROGRAMS")]):
            return True
    return False


def _seen(source: str, place: str | None, given: Tensors) -> dict[str, Any]:
    """Return what a caller can see of a call."""
    f = imported(source).f
    bases = [x if x._base is None else x._base for x in given if torch.is_tensor(x)]
    memory = {x.untyped_storage().data_ptr() for x in bases}
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    try:
        output = f(PLACES[place][0](given)) if place else f(*given)
        leaves = _pytree.tree_leaves(output)
        tensors = [x for x in leaves if torch.is_tensor(x)]
        if graded := [x.sum() for x in tensors if x.requires_grad]:
            sum(graded).backward()
    except Exception as error:
        return {"error": type(error).__name__}
    module = f if isinstance(f, torch.nn.Module) else torch.nn.Module()
    sources = [x for x in (*given, *module.parameters()) if torch.is_tensor(x) and x.is_leaf]
    return {
        "output": [x.detach() if torch.is_tensor(x) else x for x in leaves],
        "asks for a gradient": [x.requires_grad for x in tensors],
        "is an argument": [any(x is one for one in given) for x in tensors],
        "shares memory": [x.untyped_storage().data_ptr() in memory for x in tensors],
        "arguments": [x.detach() for x in bases],
        "gradients": [x.grad for x in sources],
        "state": [*module.state_dict().values()],
    }


@pytest.mark.parametrize("place", [None, *PLACES])
@pytest.mark.parametrize(("program", "cause"), _edits())
def test_a_caller_sees_no_difference(program: Program, cause: dict[str, Any], place: str | None):
    source, spans = _moved(program, cause, place)
    with program.within():
        _, given = program.build()
        args = (PLACES[place][0](given),) if place else given
        asked = (
            offered_at(source, span, cause["category"], *args, rule=program.rule) for span in spans
        )
        edited, rewrites, _ = next(filter(lambda answer: answer[0], asked), ("", [], []))
        assert edited or place, "the rule makes no edit of its own example"
        for name, change in CALLS.items() if edited else ():
            before, after = (
                _seen(text, place, change(copy.deepcopy(given))) for text in (source, edited)
            )
            clause = DIFFERS.get((program.rule, name)) or DIFFERS.get((program.rule, ""))
            if clause is not None and any(clause in one for one in rewrites[0].assumes):
                continue
            assert after.keys() == before.keys(), name
            if "error" in before:
                assert after == before, name
            else:
                assert_close(after, before, equal_nan=True, msg=lambda text: f"{name}: {text}")  # noqa: B023
