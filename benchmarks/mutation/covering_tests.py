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
FOLDERS = (
    "fullgraph",
    "compiler",
    "diagnose",
    "rewrites",
    "minifier",
    "tests",
    "benchmarks",
    "examples",
)
_GOLDEN = "tests/test_golden.py"


class CoveringTests:
    """The tests of a checkout, and what they import."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, str] = {}
        """The file of each module, relative to `root`."""
        for folder in FOLDERS:
            for path in (root / folder).rglob("*.py"):
                file = str(path.relative_to(root))
                self.files[_module_of(file)] = file
        self._statements = {module: self._imports_in(file) for module, file in self.files.items()}
        self.importers: dict[str, set[str]] = defaultdict(set)
        for module in self.files:
            for imported in self.imports(module):
                self.importers[imported].add(module)

    def covering(self, file: str) -> list[str]:
        """The test modules that cover a file, nearest first, then its rules' golden cases."""
        module = _module_of(file)
        distances = {module: 0}
        for near in (todo := [module]):
            for importer in self.importers[near] - distances.keys():
                distances[importer] = distances[near] + 1
                todo.append(importer)
        away: dict[str, int] = {}
        for test in self.files:
            if test.startswith("tests.") and test.rpartition(".")[2].startswith("test_"):
                near_by = [d for m, d in distances.items() if m == test or _is_named_after(test, m)]
                away |= {test: min(near_by)} if near_by else {}
        nearest = sorted(away, key=lambda test: (away[test], *self._cost(test, module)))
        files = [self.files[test] for test in nearest]
        tests = [file for file in files if file != _GOLDEN]
        rules = [m for m, distance in distances.items() if ".rules." in m and distance <= 1]
        return [*tests[:MODULES], *self._golden(rules)]

    def imports(self, module: str) -> set[str]:
        """The modules of the project whose names a module imports."""
        found = set()
        for node in self._statements[module]:
            if isinstance(node, ast.ImportFrom):
                found |= {self._home(_base(node), alias.name) for alias in node.names}
            else:
                found |= {_plain(alias.name) for alias in node.names}
        return (found & self.files.keys()) - {module}

    def _home(self, base: str, name: str) -> str:
        """The module that defines what `from base import name` imports."""
        if f"{base}.{name}" in self.files:
            return f"{base}.{name}"
        for node in self._statements.get(base, ()):
            if isinstance(node, ast.ImportFrom) and _base(node) != base:
                for alias in node.names:
                    if name == (alias.asname or alias.name):
                        return self._home(_base(node), alias.name)
        return base

    def _imports_in(self, file: str) -> list[ast.ImportFrom | ast.Import]:
        """The statements of a file that import, those inside functions too."""
        found, todo = [], [*ast.parse(self._text(file)).body]
        for node in todo:
            if isinstance(node, ast.Import) or (
                isinstance(node, ast.ImportFrom) and not node.level
            ):
                found.append(node)
            todo += (
                child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)
            )
        return found

    def _text(self, file: str) -> str:
        return (self.root / file).read_text()

    def _cost(self, test: str, module: str) -> tuple[bool, int]:
        """Tests of the module's own folder come first, then short ones."""
        return not _same_folder(test, module), len(self._text(self.files[test]))

    def _golden(self, modules: list[str]) -> list[str]:
        data = self.root / "benchmarks" / "golden" / "rules.json"
        if not data.exists() or not (self.root / _GOLDEN).exists():
            return []
        text = "".join(self._text(self.files[module]) for module in modules)
        codes = set(re.findall(r"Rule\(\s*\"(FG\d+)\"", text))
        keys = [key for key in json.loads(data.read_text()) if key.partition("-")[0] in codes]
        keys = [key for key in keys if " " not in key]  # pytest leaves "FG102-assert all" out
        return [f"{_GOLDEN}::test_a_case_is_as_recorded[rules-{key}]" for key in keys[:6]]


def _module_of(file: str) -> str:
    return _plain(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))


def _base(node: ast.ImportFrom) -> str:
    return _plain(node.module or "")


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
