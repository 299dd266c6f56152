"""The tests that cover a source file, by imports and names, and a pytest plugin that picks them.

No coverage is measured, since the whole suite takes too long. Modules that import the file, or are
named after it or after a module that imports it, cover it; those with the fewest imports between
come first. A name that a room's `__init__.py` re-exports counts as imported from its own file.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

FAILED = "covering test fails: "
MODULES, MOST = 10, 40
"""Test modules looked at for one file, and tests run."""
_GOLDEN = "tests/test_golden.py"


class CoveringTests:
    """The tests of a checkout, and what they import."""

    def __init__(self, root: Path) -> None:
        self.root = root
        folders = "compiler", "diagnose", "rewrites", "minifier", "tests", "benchmarks"
        self.trees: dict[str, ast.Module] = {}
        for folder in folders:
            for path in sorted((root / folder).rglob("*.py")):
                name = ".".join(path.relative_to(root).with_suffix("").parts)
                self.trees[name.removesuffix(".__init__")] = ast.parse(path.read_text())
        face = root / "fullgraph" / "__init__.py"
        self.trees["fullgraph"] = ast.parse(face.read_text())
        self.importers: dict[str, set[str]] = defaultdict(set)
        for module in self.trees:
            for imported in self._imports(module):
                self.importers[imported].add(module)

    def covering(self, file: str) -> list[str]:
        """The test modules that cover a file, nearest first, then its rules' golden cases."""
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        distances = {module: 0}
        for near in (todo := [module]):
            for importer in self.importers[near] - distances.keys():
                distances[importer] = distances[near] + 1
                todo.append(importer)
        away: dict[str, int] = {}
        for test in self.trees:
            if test.startswith("tests.") and test.rpartition(".")[2].startswith("test_"):
                near_by = [d for m, d in distances.items() if m == test or _is_named_after(test, m)]
                away |= {test: min(near_by)} if near_by else {}
        nearest = sorted(away, key=lambda test: (away[test], *self._cost(test, module)))
        files = [f"{test.replace('.', '/')}.py" for test in nearest]
        tests = [file for file in files if file != _GOLDEN]
        rules = [m for m, distance in distances.items() if ".rules." in m and distance <= 1]
        return [*tests[:MODULES], *self._golden(rules)]

    def _imports(self, module: str) -> set[str]:
        """The modules of the project whose names a module imports."""
        found = set()
        for node in ast.walk(self.trees[module]):
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                base = _plain(node.module)
                found |= {self._home(base, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {_plain(alias.name) for alias in node.names}
        return found - {module}

    def _home(self, base: str, name: str) -> str:
        """The module that defines what `from base import name` imports."""
        if f"{base}.{name}" in self.trees:
            return f"{base}.{name}"
        for node in ast.walk(self.trees.get(base, ast.Module([], []))):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                for alias in node.names:
                    if name == (alias.asname or alias.name) and _plain(node.module) != base:
                        return self._home(_plain(node.module), alias.name)
        return base

    def _cost(self, test: str, module: str) -> tuple[bool, int]:
        """Tests of the module's own folder come first, then short ones."""
        return not _same_folder(test, module), len(ast.unparse(self.trees[test]))

    def _golden(self, modules: list[str]) -> list[str]:
        data = self.root / "benchmarks" / "golden" / "rules.json"
        if not data.exists() or not (self.root / _GOLDEN).exists():
            return []
        text = "".join(ast.unparse(self.trees[module]) for module in modules)
        codes = set(re.findall(r"Rule\(\s*'(FG\d+)'", text))
        keys = [key for key in json.loads(data.read_text()) if key.partition("-")[0] in codes]
        keys = [key for key in keys if " " not in key]  # pytest leaves "FG102-assert all" out
        return [f"{_GOLDEN}::test_a_case_is_as_recorded[rules-{key}]" for key in keys[:6]]


def _plain(module: str) -> str:
    """The name of a module by its folder, as `fullgraph.compiler` is the folder `compiler`."""
    return module.removeprefix("fullgraph.") if module != "fullgraph" else module


def _is_named_after(test: str, module: str) -> bool:
    """Whether a test module bears a module's name, in the same top folder's tests."""
    stem = module.rpartition(".")[2]
    return _same_folder(test, module) and test.rpartition(".")[2] == f"test_{stem}"


def _same_folder(test: str, module: str) -> bool:
    return test.split(".")[1] == module.split(".")[0]


@pytest.hookimpl(trylast=True)  # `tests/conftest.py` sorts, too
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Run the first `MOST` in the order of the command line; in a file, quick ones first."""

    def place(item: Any) -> tuple[int, int]:
        slow = sum(item.get_closest_marker(name) is not None for name in ("compiles", "slow"))
        named = [item.nodeid.startswith(argument) for argument in config.invocation_params.args]
        return named.index(True) if True in named else 0, slow

    items.sort(key=place)
    config.hook.pytest_deselected(items=items[MOST:])
    del items[MOST:]


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        print(f"\n{FAILED}{report.nodeid}")


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        print(f"\n{FAILED}{report.nodeid}")
