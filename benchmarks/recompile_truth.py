"""The recompiles of programs that are called several times, compared with the findings of `check`.

`check_truth.py --recompiles` runs this. The programs are those of `benchmarks/recompiling`, and the
situations of `benchmarks/field` that recompile. The truth of one is the recompiles that `explain`
finds over all its calls, each with the value whose guard failed, and the lines that ran. The
first call is made twice: of several guards that fail Dynamo names one, and in the second call that
is one of what the first has changed.

A finding lies at a recompile if it is on a line, among those that ran, that writes the value or
declares it as a parameter, or that reads it and the finding names it. "Once" marks a size or number
that recompiles one time and is dynamic from then on.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

SOURCES = ("recompiling", "field")
SETTLED = frozenset(
    {
        "recompile: size",
        "recompile: number argument",
        "recompile: number attribute",
        "recompile: closure",
    }
)
"""Kinds of values of which a second one makes the graph dynamic."""
Program = tuple[Callable[..., Any], list[tuple[Any, ...]]]


def names_of(source: str) -> list[str]:
    """Return the names of the programs of a source; held-out situations are left out."""
    if source == "field":
        from benchmarks.field import SITUATIONS

        chosen = [n for n, s in SITUATIONS.items() if s.kind == "recompile" and not s.held_out]
        return [f"field:{name}" for name in chosen]
    from benchmarks.recompiling import ENTRIES

    return [f"recompiling:{name}" for name in ENTRIES]


def build(name: str) -> Program:
    """Build a program by its name; return it with the arguments of all calls."""
    import torch

    torch.manual_seed(0)
    source, _, key = name.partition(":")
    if source == "field":
        from benchmarks.field import SITUATIONS

        program, inputs, further = SITUATIONS[key].build()
        return program, [inputs, *further]
    from benchmarks.recompiling import ENTRIES

    return ENTRIES[key]()


def truth_of(name: str, executed_lines: Callable[..., Mapping[str, set[int]]]) -> dict[str, Any]:
    """Explain all calls of a program; return its recompiles and the lines that ran, as JSON data.

    `executed_lines` takes the program and its calls. It runs last, because a program may write
    globals.
    """
    from fullgraph.diagnose.explain import explain

    program, calls = build(name)
    calls = [calls[0], *calls]
    explained = explain(program, calls[0], calls=calls[1:], unmask=False, seconds=90)
    found = [
        {
            "category": one.category,
            "root": one.root,
            "count": one.count,
            "guards": list(one.guards),
            "places": [
                [p.file, p.line, p.end_line or p.line]
                for p in (*([one.where] if one.where else []), *one.positions)
            ],
        }
        for one in explained.recompiles
    ]
    lines = executed_lines(program, calls)
    return {
        "name": name,
        "target": target_of(program, lines),
        "error": explained.error,
        "causes": found,
        "lines": {file: sorted(numbers) for file, numbers in lines.items()},
    }


def target_of(program: Callable[..., Any], lines: Mapping[str, set[int]]) -> list[str]:
    """Return the file and the name of the compiled function; empty if it is none of the file's."""
    function = getattr(program, "forward", program)
    code = getattr(function, "__code__", None)
    known = code is not None and code.co_filename in lines and "<" not in function.__qualname__
    return [code.co_filename, function.__qualname__] if known else []


def kind_of(cause: Mapping[str, Any]) -> str:
    """Return the category of a recompile, with ", once" if the graph is dynamic afterwards."""
    settled = cause["count"] == 1 and cause["category"] in SETTLED
    return f"{cause['category']}, once" if settled else str(cause["category"])


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def name_of(root: str) -> str:
    """Return the last name of a changed value: "count" for "self.states[0].count"."""
    root = re.sub(r"\.shape\[.*|\.__\w+__.*", "", root)
    return re.sub(r"\[.*?\]", "", root).rpartition(".")[2]


def places_of(
    root: str, lines: Mapping[str, Sequence[int]]
) -> Iterator[tuple[tuple[str, int], bool]]:
    """Yield the lines, among those that ran, that have a value; and whether they write it.

    A parameter counts as written.
    """
    name = name_of(root)
    for file, ran in lines.items() if name else ():
        for node in ast.walk(_tree(file)):
            if getattr(node, "lineno", 0) in set(ran):
                if name in _written(node):
                    yield (file, node.lineno), True
                elif isinstance(node, ast.Attribute | ast.Name) and _last(node) == name:
                    yield (file, node.lineno), False


def _written(node: ast.AST) -> Iterator[str]:
    """Yield the names of the attributes and variables that a node writes, changes or declares."""
    match node:
        case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            yield _last(value)
        case ast.Call(func=ast.Attribute(value=value)):
            yield _last(value)


def _last(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def compare(
    rows: Sequence[dict[str, Any]], findings: Sequence[Any], verbose: bool
) -> tuple[Counter[str], Counter[str], Counter[str], Counter[str], int]:
    """Return the findings that are right and wrong, and the recompiles found and missed, by kind.

    The last number is that of findings on lines that did not run.
    """
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    at: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for one in findings:
        if one.category.startswith("recompile"):
            for line in range(one.line, one.end_line + 1):
                at[one.file, line].append(one)
    good: dict[int, str] = {}
    for row in rows:
        for cause in row["causes"]:
            found = list(_findings_at(cause, row["lines"], at))
            good |= {id(one): kind_of(cause) for one in found}
            (hit if found else missed)[kind_of(cause)] += 1
            if verbose and not found:
                print(
                    f"  missed  {row['name']}: {kind_of(cause)}: {cause['root']} ×{cause['count']}"
                )
    ran = {(file, n) for row in rows for file, lines in row["lines"].items() for n in lines}
    idle = 0
    for one in {id(one): one for several in at.values() for one in several}.values():
        if id(one) in good:
            right[good[id(one)]] += 1
        elif any((one.file, line) in ran for line in range(one.line, one.end_line + 1)):
            wrong[one.category] += 1
            if verbose:
                print(f"  wrong   {one.file}:{one.line}: {one.category}: {one.message[:70]}")
        else:
            idle += 1
    return right, wrong, hit, missed, idle


def _findings_at(
    cause: Mapping[str, Any],
    lines: Mapping[str, Sequence[int]],
    at: Mapping[tuple[str, int], Sequence[Any]],
) -> Iterator[Any]:
    """Yield the findings that lie at a recompile."""
    root = cause["root"]
    named = rf"\b{re.escape(name_of(root))}\b"
    if ".shape[" in root:
        named = (
            rf"\b{re.escape(name_of(root))}\.(?:shape|size)\b|\blen\({re.escape(name_of(root))}\)"
        )
    for place, written in places_of(root, lines):
        for one in at.get(place, ()):
            if written or re.search(named, one.message):
                yield one
