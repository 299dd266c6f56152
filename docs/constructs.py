"""The constructs that break a graph on the running torch, from programs of one construct each.

python docs/constructs.py            writes rewrites/check/constructs/torch-2.13-python-3.11.json
python docs/constructs.py --check    exit code 1 if it is out of date
python docs/constructs.py --missing  adds the rows of constructs that the table does not have
python docs/constructs.py KEY…       prints the rows of these constructs
python docs/constructs.py --page     writes docs/constructs.md from the tables, and traces nothing

Each program of `docs/construct_programs` is explained in a forked child: a row says in which modes
the construct is a cause, its category, what happens to the frame, and which expression is named.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from docs.construct_programs.program import Changing, Construct
from fullgraph.rewrites.check.codes import code_of
from fullgraph.rewrites.check.constructs import Row, known_versions, load_table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "rewrites/check/constructs"
PAGE = ROOT / "docs/constructs.md"
MARK = "# here"


def all_constructs() -> dict[str, Construct | Changing]:
    """Return the constructs by key. Starts a process group of one rank, for the collectives."""
    from docs.construct_programs import collectives, conditions, recompiles, tensors, world

    every: list[Construct | Changing] = list(recompiles.constructs)
    every += [
        one
        for module in (collectives, conditions, tensors, world)
        for one in module.construct.constructs
    ]
    found = {one.key: one for one in every}
    assert len(found) == len(every), "two programs have the same key"
    return found


def row_of(key: str) -> dict[str, Any]:
    """Trace the program of a construct; return its row of the table."""
    from fullgraph.diagnose.explain import explain

    warnings.simplefilter("ignore")
    construct = all_constructs()[key]
    if isinstance(construct, Changing):
        return row_of_changing(construct)
    code = construct.program.__code__
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        explained = explain(construct.program, torch.tensor([1.0, 2.0, 3.0, 4.0]), unmask=False)
    if explained.error:
        return {"modes": [], "error": explained.error}
    lines = Path(code.co_filename).read_text(encoding="utf-8").splitlines()
    marked = _marked_lines(lines, code.co_firstlineno)
    causes = [one for one in explained.causes if not marked or one.position.line in marked]
    modes = sorted({mode for one in causes for mode in one.modes})
    if not modes:
        return {"modes": []}
    first = causes[0]
    return {
        "modes": modes,
        "category": str(first.category),
        "frame": str(first.frame) if first.frame is not None else "",
        "expression": " ".join(first.expression.split()),
    }


def row_of_changing(construct: Changing) -> dict[str, Any]:
    """Return the row of a construct that recompiles: with how many graphs all calls make."""
    from fullgraph.diagnose.explain import explain

    program, calls = construct.make()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        explained = explain(program, calls[0], calls=calls[1:], unmask=False)
    if explained.error:
        return {"modes": [], "error": explained.error}
    if not explained.recompiles:
        return {"modes": []}
    return {
        "modes": ["default", "fullgraph"],
        "category": explained.recompiles[0].category,
        "expression": explained.recompiles[0].message,
        "compiles": len(explained.graphs),
    }


def _marked_lines(lines: list[str], first: int) -> set[int]:
    """Return the lines of a program that are marked as its construct."""
    tree = ast.parse("\n".join(lines))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            if start == first:
                end = node.end_lineno or first
                return {n for n in range(first, end + 1) if lines[n - 1].endswith(MARK)}
    return set()


def table_path() -> Path:
    """Return the table's file for the running torch and Python."""
    version = ".".join(torch.__version__.split(".")[:2])
    return FOLDER / f"torch-{version}-python-{sys.version_info[0]}.{sys.version_info[1]}.json"


def table(keys: list[str], jobs: int = 2) -> dict[str, dict[str, Any]]:
    """Return the rows of constructs, traced in `jobs` processes."""
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return dict(zip(keys, pool.map(row_of, keys, chunksize=4), strict=True))


def page() -> str:
    """Return docs/constructs.md: for each construct that breaks, what it does."""
    versions = known_versions()
    tables = [load_table(*version) for version in versions]
    heads = [f"torch {torch}, Python {python}" for torch, python in versions]
    lines = [
        "# What breaks a graph, construct by construct\n",
        "`fullgraph check` reads these tables. `python docs/constructs.py` traces a program of one "
        "construct for each row and stores what happened; the tests trace them again on the "
        "running torch. A construct that no version breaks on is left out.\n",
        f"| construct | {' | '.join(heads)} | code |",
        f"| --- |{' --- |' * len(heads)} --- |",
    ]
    for key in sorted({key for table in tables for key in table.rows}):
        rows = [table.find(key) for table in tables]
        known = next((row for row in rows if row is not None), None)
        if known is not None:
            cells = " | ".join(_cell(row) for row in rows)
            lines.append(f"| `{key}` | {cells} | {code_of(known.category)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row | None) -> str:
    """Return what a construct does on one version."""
    if row is None:
        return "traced"
    if row.compiles:
        return f"{row.category}: {row.compiles} graphs in six calls"
    where = "" if "default" in row.modes else " (only with `fullgraph=True`)"
    frame = f", frame {row.frame}" if row.frame else ""
    return f"{row.category}{frame}{where}"


def main(arguments: list[str]) -> str | int:
    """Write, check or print the table."""
    if "--page" in arguments:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if "--check" in arguments and PAGE.read_text(encoding="utf-8") != page():
        return f"{PAGE.name}: run `python docs/constructs.py --page`."
    keys = [one for one in arguments if not one.startswith("-")] or sorted(all_constructs())
    path = table_path()
    known: dict[str, Any] = {}
    if "--missing" in arguments and path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))["constructs"]
        known = {key: row for key, row in known.items() if key in keys}
    rows = known | table([key for key in keys if key not in known])
    rows = {key: rows[key] for key in keys}
    if wrong := [f"{key}: {row['error']}" for key, row in rows.items() if "error" in row]:
        return "\n".join(wrong)
    version, python = path.stem.split("-")[1::2]
    whole = {"torch": version, "python": python, "constructs": rows}
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    if any(not one.startswith("-") for one in arguments):
        print(text, end="")
    elif "--check" in arguments:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            return f"{path.name}: run `python docs/constructs.py`."
    else:
        path.write_text(text, encoding="utf-8")
        load_table.cache_clear()
        PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
