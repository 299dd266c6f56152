"""Defaults of flags from `[tool.fullgraph]` in the pyproject.toml of the working directory."""

from __future__ import annotations

import argparse
import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fullgraph.compiler.errors import FullgraphError

NO_FLAGS = frozenset({"entries"})
"""Keys of `[tool.fullgraph]` that are not flags: "entries" names programs for pull requests."""


def apply_project_defaults(commands: Mapping[str, argparse.ArgumentParser]) -> bool:
    """Set defaults of flags from pyproject.toml; return whether it has `[tool.fullgraph]` keys.

    A key of `[tool.fullgraph]` is the long name of a flag; it sets the flag of all commands that
    have it. A key of `[tool.fullgraph.fix]` sets a flag of the command `fix` only. The file
    is the nearest pyproject.toml at or above the working directory. Raises FullgraphError for a key
    that is not a flag, or a wrong value.
    """
    path = _find_pyproject()
    if path is None:
        return False
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("fullgraph", {})
    except (OSError, ValueError) as error:
        raise FullgraphError(f"{path} cannot be read: {error}.") from None
    for key, value in table.items():
        if key in NO_FLAGS:
            continue
        if key in commands and isinstance(value, dict):
            for name, own in value.items():
                _set_default(name, own, {key: commands[key]}, f"{path}: [tool.fullgraph.{key}]")
        else:
            _set_default(key, value, commands, f"{path}: [tool.fullgraph]")
    return bool(table)


def _find_pyproject() -> Path | None:
    """Return the nearest pyproject.toml at or above the working directory."""
    here = Path.cwd()
    return next((p for f in (here, *here.parents) if (p := f / "pyproject.toml").is_file()), None)


def _set_default(
    key: str, value: Any, commands: Mapping[str, argparse.ArgumentParser], where: str
) -> None:
    """Set the default of the flag `key` in every one of `commands` that has it.

    `where` names the file and table, for errors. Raises FullgraphError if no command has the flag,
    or if the value is wrong.
    """
    known: dict[str, None] = {}
    found = False
    for parser in commands.values():
        for action in parser._actions:
            names = [s[2:] for s in action.option_strings if s.startswith("--") and s != "--help"]
            known |= dict.fromkeys(names)
            if key.replace("_", "-") in names:
                parser.set_defaults(**{action.dest: _parse_default(action, key, value, where)})
                found = True
    if not found:
        close = difflib.get_close_matches(key, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
        raise FullgraphError(f"{where} has the key {key!r}, which is no flag: {hint}")


def _parse_default(action: argparse.Action, key: str, value: Any, where: str) -> Any:
    """Return a value of pyproject.toml as the default of a flag; raise FullgraphError if wrong."""
    kind: type | tuple[type, ...]
    if action.nargs == 0:
        kind, expected = bool, "true or false"
    elif isinstance(action, argparse._AppendAction):
        kind, expected = list, "a list of strings"
    elif action.type is int:
        kind, expected = int, "a whole number"
    elif action.type is float:
        kind, expected = (int, float), "a number"
    else:
        kind, expected = str, "a string"
    wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
    if kind is list and not wrong:
        wrong = not all(isinstance(item, str) for item in value)
    if action.choices is not None and value not in action.choices:
        wrong, expected = True, f"one of {', '.join(map(str, action.choices))}"
    if wrong:
        raise FullgraphError(f"{where}: {key} is {value!r}, and must be {expected}.")
    if action.nargs == 0:
        return action.const if value else (not action.const or None)
    return value
