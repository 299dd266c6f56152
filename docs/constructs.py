"""The constructs that break a graph on the running torch, from programs of one construct each.

python docs/constructs.py            writes the table of the running torch and Python
python docs/constructs.py --check    exit code 1 if it is out of date
python docs/constructs.py --missing  adds the rows of constructs that the table does not have
python docs/constructs.py KEY…       prints the rows of these constructs
python docs/constructs.py --page     writes docs/constructs.md from the tables, and traces nothing

Each program of `docs/construct_programs` is explained in a forked child: a row says in which modes
the construct is a cause, its category, what happens to the frame, and which expression is named.
The tables are in `rewrites/check/constructs`. That of the torch of development has all rows, the
others those that differ from it; a construct that is null there was not traced on that version, or
torch.compile fails on its program.
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
from fullgraph.rewrites.check.constructs import Row, Table, known_versions, load_table, read_rows

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "rewrites/check/constructs"
WHOLE = FOLDER / "torch-2.13-python-3.11.json"
"""The table from which the others differ."""
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


def row_of(key: str) -> dict[str, Any] | None:
    """Trace the program of a construct; return its row of the table.

    None if torch.compile fails on the program: what the construct does is not known then.
    """
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
        return None if explained.crashes else {"modes": []}
    first = causes[0]
    return {
        "modes": modes,
        "category": str(first.category),
        "frame": str(first.frame) if "default" in modes else "",
        "expression": " ".join(first.expression.split()),
    }


def row_of_changing(construct: Changing) -> dict[str, Any] | None:
    """Return the row of a construct that recompiles: with how many graphs all calls make."""
    from fullgraph.diagnose.explain import explain

    program, calls = construct.make()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        explained = explain(program, calls[0], calls=calls[1:], unmask=False)
    if explained.error:
        return {"modes": [], "error": explained.error}
    if not explained.recompiles:
        return None if explained.crashes else {"modes": []}
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


Rows = dict[str, dict[str, Any] | None]


def trace(keys: list[str], jobs: int = 2) -> Rows:
    """Return the rows of constructs, traced in `jobs` processes."""
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return dict(zip(keys, pool.map(row_of, keys, chunksize=4), strict=True))


def texts_with(path: Path, rows: Rows) -> dict[Path, str]:
    """Return the text of each table's file, when `rows` are those of the table at `path`."""
    tables = {one: read_rows(one) for one in FOLDER.glob("*.json")} | {path: rows}
    whole = tables[WHOLE]
    texts = {}
    for one, rows in tables.items():
        torch_version, python = one.stem.split("-")[1::2]
        data: dict[str, Any] = {"torch": torch_version, "python": python}
        if one != WHOLE:
            data["differs_from"] = WHOLE.stem
            rows = {key: rows.get(key) for key in whole if rows.get(key) != whole[key]}
        data["constructs"] = rows
        texts[one] = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    return texts


def page() -> str:
    """Return docs/constructs.md: what each construct does, and on which versions another thing."""
    versions = known_versions()
    main = load_table(*WHOLE.stem.split("-")[1::2])
    tables = [load_table(*version) for version in versions]
    names = [f"{table.torch} with Python {table.python}" for table in tables]
    lines = [
        "# What breaks a graph, construct by construct\n",
        "`fullgraph check` reads these tables. `python docs/constructs.py` traces a program of one "
        "construct for each row and stores what happened; the tests trace them again on the "
        f"running torch. There is a table for torch {', '.join(names[:-1])} and {names[-1]}; for "
        "another version, `check` takes the newest table that is older, and says so.\n",
        f"## On torch {main.torch}, Python {main.python}\n",
        "A construct that is traced without a break is left out.\n",
        "| construct | what happens | code |",
        "| --- | --- | --- |",
    ]
    for key in sorted(main.rows):
        if (row := main.find(key)) is not None:
            lines.append(f"| `{key}` | {_cell(row)} | {code_of(row.category)} |")
    lines += [
        "\n## Where versions differ\n",
        f"On Python {main.python}, unless another is named. A construct is unknown where "
        "torch.compile fails on its program; `check` is silent on it there.\n",
        "| construct | torch | what happens | code |",
        "| --- | --- | --- | --- |",
    ]
    for key in sorted({key for table in tables for key in table.rows}):
        lines += _differences(key, tables, main)
    return "\n".join(lines) + "\n"


def _differences(key: str, tables: list[Table], main: Table) -> list[str]:
    """Return a line for each thing that a construct does; none if it is the same on all versions.

    A version of torch stands for its table of the Python of `main`.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for table in tables:
        row = table.rows.get(key)
        code = code_of(row.category) if row is not None and row.modes else ""
        python = "" if table.python == main.python else f" with Python {table.python}"
        found.setdefault((_cell(row), code), []).append(f"{table.torch}{python}")
    if len(found) == 1:
        return []
    return [
        f"| `{key}` | {', '.join(versions)} | {cell} | {code} |"
        for (cell, code), versions in found.items()
    ]


def _cell(row: Row | None) -> str:
    """Return what a construct does on one version."""
    if row is None:
        return "unknown"
    if not row.modes:
        return "traced"
    if row.compiles:
        return f"{row.category}: {row.compiles} graphs in six calls"
    where = {
        ("default",): " (not with `fullgraph=True`)",
        ("fullgraph",): " (only with `fullgraph=True`)",
    }.get(row.modes, "")
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
    known: Rows = {}
    if "--missing" in arguments and path.exists():
        known = {key: row for key, row in read_rows(path).items() if row and key in keys}
    rows = known | trace([key for key in keys if key not in known])
    rows = {key: rows[key] for key in keys}
    if wrong := [f"{key}: {row['error']}" for key, row in rows.items() if row and "error" in row]:
        return "\n".join(wrong)
    if any(not one.startswith("-") for one in arguments):
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    elif "--check" in arguments:
        if not path.exists() or path.read_text(encoding="utf-8") != texts_with(path, rows)[path]:
            return f"{path.name}: run `python docs/constructs.py`."
    else:
        for one, text in texts_with(path, rows).items():
            one.write_text(text, encoding="utf-8")
        load_table.cache_clear()
        PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
