"""Cells of the running notebook: their names, and the imports of earlier cells."""

from __future__ import annotations

import ast
import re
import sys
from typing import Any

_FILE = re.compile(r"[^\s\"'(),:]+\.py\b|<ipython-input[^>\n]*>")


def cell_name(file: str) -> str | None:
    """Return "In[3]" for the temporary file name of a notebook cell; None for any other file."""
    compiler = getattr(running_shell(), "compile", None)
    describe = getattr(compiler, "format_code_name", None)  # IPython 8.0 or newer
    named = describe(file) if describe is not None else None
    return named[1] if named is not None else None


def name_cells(text: str) -> str:
    """Return `text` with "In[3]" in place of the temporary file name of a notebook cell."""
    if running_shell() is None:
        return text
    return _FILE.sub(lambda match: cell_name(match[0]) or match[0], text)


def imports_of_cells(file: str) -> str:
    """Return the top-level imports of all cells run so far, if `file` is a cell; else "".

    Imports of names that no longer exist are left out.
    """
    if cell_name(file) is None:
        return ""
    shell = running_shell()
    found: dict[str, None] = {}
    for text in shell.history_manager.input_hist_parsed:
        try:
            statements = ast.parse(text).body
        except (SyntaxError, ValueError):
            continue
        for one in statements:
            if isinstance(one, ast.Import | ast.ImportFrom):
                names = [a for a in one.names if _bound_name(a) in shell.user_ns]
                found.update(dict.fromkeys(_with_names(one, [a]) for a in names))
    return "\n".join(found)


def running_shell() -> Any:
    """Return IPython's shell; None if this process does not run in one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _bound_name(alias: ast.alias) -> str:
    """Return the name that one part of an import binds: "c" for `a.b as c`, "a" for `a.b`."""
    return alias.asname or alias.name.partition(".")[0]


def _with_names(statement: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> str:
    """Return the source code of an import statement reduced to `names`.

    For example, `from a import b, c` → "from a import b".
    """
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(names))
    return ast.unparse(ast.ImportFrom(statement.module, names, statement.level))
