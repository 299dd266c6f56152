"""Mutations: small faults in the source of a checkout, each an edit of one line."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SWAPS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"} | {
    "is": "is not", "is not": "is", "in": "not in", "not in": "in", "and": "or", "or": "and",
}  # fmt: skip
_STATEMENTS = ast.Assign, ast.AugAssign, ast.Expr, ast.Continue, ast.Break, ast.Delete
_SKIPPED = ast.JoinedStr, ast.Raise, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef


def mutations(text: str) -> Iterator[tuple[str, int, str, str]]:
    """Yield kind, line number, and the line before and after, for each mutation of a module."""
    lines = text.splitlines()

    def edit(kind: str, start: ast.expr | ast.stmt, end: ast.AST, old: str, new: str) -> Any:
        """Replace `old`, or everything if it is empty, between two positions on one line."""
        (line, left), (last, right) = _start(start), _start(end)
        if line != last:
            return
        code = lines[line - 1].encode()
        part = code[left:right].decode()
        changed = part.replace(old, new, 1) if old else new
        if part and changed != part:
            after = code[:left] + changed.encode() + code[right:]
            yield kind, line, lines[line - 1].strip(), after.decode().strip()

    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in _nodes(function.body[ast.get_docstring(function, False) is not None :]):
            match node:
                case ast.Compare(left=left, comparators=[right]):
                    old = re.sub(r"[()]", "", _between(lines, _end(left), _start(right))).strip()
                    yield from edit("comparison", _end(left), right, old, SWAPS.get(old, old))
                case ast.BoolOp(op=op, values=[left, right, *_]):
                    old = "and" if isinstance(op, ast.And) else "or"
                    yield from edit("and/or", _end(left), right, old, SWAPS[old])
                case ast.UnaryOp(op=ast.Not()):
                    yield from edit("not", node, _end(node), "not ", "")
                case ast.Constant(value=int(value)) if not isinstance(value, bool):
                    yield from edit("constant", node, _end(node), "", str(value + 1))
                case ast.Return(value=ast.expr()):
                    yield from edit("return", node, _end(node), "", "return None")
                case ast.stmt() if isinstance(node, _STATEMENTS):
                    yield from edit("statement", node, _end(node), "", "pass")
            tests = [*getattr(node, "ifs", ()), getattr(node, "test", None)]
            for test in filter(None, tests):
                values = ("False",) if isinstance(node, ast.While) else ("True", "False")
                for value in values:
                    yield from edit(f"condition {value}", test, _end(test), "", value)


def _nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of statements, without messages, annotations, and functions inside."""
    todo: list[ast.AST] = [*body]
    while todo:
        node = todo.pop()
        if not isinstance(node, _SKIPPED):
            yield node
            hint = getattr(node, "annotation", None)
            todo += [child for child in ast.iter_child_nodes(node) if child is not hint]


def _start(at: Any) -> tuple[int, int]:
    return at if isinstance(at, tuple) else (at.lineno, at.col_offset)


def _end(node: Any) -> Any:
    return node.end_lineno, node.end_col_offset


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    return lines[start[0] - 1].encode()[start[1] : end[1]].decode() if start[0] == end[0] else ""


def single_lines(folder: Path) -> dict[str, tuple[Path, int]]:
    """Where each line is that occurs once in the Python files of a folder."""
    places = [
        (line.strip(), path, number)
        for path in sorted(folder.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines())
    ]
    counts = Counter(line for line, _, _ in places)
    return {line: (path, number) for line, path, number in places if counts[line] == 1}


def draw(tree: Path, folder: str, also: Path | None, count: int, seed: int) -> list[dict[str, Any]]:
    """Draw mutants of a folder, each kind as often as the others, at most two in a file."""
    top = folder.partition("/")[0]
    single = single_lines(tree / top)
    shared = single_lines(also / top) if also else single
    kinds = defaultdict(list)
    for path in sorted({at for at, _ in single.values() if at.is_relative_to(tree / folder)}):
        for kind, number, before, after in mutations(path.read_text()):
            if before in single and before in shared and _same_around(single, shared, before):
                file = str(path.relative_to(tree))
                edit = {"kind": kind, "before": before, "after": after}
                kinds[kind].append({"file": file, "line": number} | edit)
    chance, drawn, files, lines = random.Random(seed), [], Counter(), set()
    queues = [chance.sample(found, len(found)) for _, found in sorted(kinds.items())]
    while len(drawn) < count and any(queues):
        for queue in filter(None, queues):
            mutant = queue.pop()
            if files[mutant["file"]] < 2 and mutant["before"] not in lines and len(drawn) < count:
                drawn.append(mutant)
                files[mutant["file"]] += 1
                lines.add(mutant["before"])
    return drawn


def _same_around(single: dict, shared: dict, line: str) -> bool:
    """Whether a line has the line before or after it in both trees."""
    (path, number), (other, place) = single[line], shared[line]
    one, two = (["", *at.read_text().splitlines(), ""] for at in (path, other))
    pairs = ((one[number + step], two[place + step]) for step in (0, 2))
    return any(a.strip() == b.strip() != "" for a, b in pairs)
