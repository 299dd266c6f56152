"""Import statements, put where a person would: among those of their kind, in order."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence

import libcst as cst
from libcst.helpers import get_full_name_for_node

Body = Sequence[cst.SimpleStatementLine | cst.BaseCompoundStatement]
_BLANK = cst.EmptyLine(indent=False)


def imported_names(nodes: Iterable[cst.CSTNode]) -> dict[str, str]:
    """Return qualified names by the names that the imports among `nodes` bind."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = alias.evaluated_name
                bound = alias.evaluated_alias or name.partition(".")[0]
                found[bound] = name if alias.evaluated_alias else bound
        elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            module = get_full_name_for_node(node.module) if node.module else ""
            for alias in node.names:
                name = alias.evaluated_name
                found[alias.evaluated_alias or name] = f"{module}.{name}".lstrip(".")
    return found


def add_imports(module: cst.Module, names: Sequence[str]) -> cst.Module:
    """Return a module that imports `names`: "torch", "torch.nn as nn"."""
    for name in names:
        line = cst.ensure_type(cst.parse_statement(f"import {name}"), cst.SimpleStatementLine)
        module = module.with_changes(body=_insert(module.body, name.partition(" ")[0], line))
    return module


def _insert(
    body: Body, name: str, line: cst.SimpleStatementLine
) -> list[cst.SimpleStatementLine | cst.BaseCompoundStatement]:
    """Return the statements of a file with the import `line` of the module `name` among them."""
    start = len(list(itertools.takewhile(_stays_first, body)))
    imports = list(itertools.takewhile(lambda one: bool(_module_of(one)), body[start:]))
    standard = _is_standard(name)
    same = [n for n, one in enumerate(imports) if _is_standard(_module_of(one)) is standard]
    later = [
        n
        for n in same
        if isinstance(_import_of(imports[n]), cst.ImportFrom) or _module_of(imports[n]) > name
    ]
    alone = not same and bool(imports)
    place = later[0] if later else same[-1] + 1 if same else 0 if standard else len(imports)
    at = start + place
    before, after = [*body[:at]], [*body[at:]]
    ends = bool(later) and place - 1 in same and bool(after[0].leading_lines)  # its section
    if after and place < len(imports) and (later or alone) and not ends:
        above = after[0].leading_lines
        own = [*itertools.takewhile(lambda one: bool(one.comment), reversed(above))][::-1]
        line = line.with_changes(leading_lines=above[: len(above) - len(own)])
        after[0] = after[0].with_changes(leading_lines=[*([_BLANK] if alone else []), *own])
    elif before and (alone or not imports):
        line = line.with_changes(leading_lines=[_BLANK])
    return [*before, line, *after]


def _stays_first(statement: cst.BaseStatement) -> bool:
    """Return whether a statement is the docstring of a file, or imports from `__future__`."""
    match statement:
        case cst.SimpleStatementLine(
            body=[cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()), *_]
        ):
            return True
        case cst.SimpleStatementLine(
            body=[cst.ImportFrom(module=cst.Name(value="__future__"), relative=[]), *_]
        ):
            return True
    return False


def _import_of(statement: cst.BaseStatement) -> cst.Import | cst.ImportFrom | None:
    """Return the import that is the whole statement, or None."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Import() | cst.ImportFrom() as one]):
            return one
    return None


def _module_of(statement: cst.BaseStatement) -> str:
    """Return the name of the first module that a statement imports; "" if it imports none."""
    match _import_of(statement):
        case cst.Import(names=[first, *_]):
            return cst.Module([]).code_for_node(first.name)
        case cst.ImportFrom(module=module, relative=dots):
            return "." * len(dots) + (cst.Module([]).code_for_node(module) if module else "")
    return ""


def _is_standard(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names
