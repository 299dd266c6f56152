"""The source files that a test executed when it last passed: unchanged, it need not run again.

`executed.json`, and `executed-2.15.json` for that torch, have for each test the files of the
project whose functions it called, in children too, with the files from which those import names,
and one digest of all their texts and of `constraints.txt`. `make test` leaves out the golden cases
and the slow tests whose digest is still the same, and under another torch the modules;
`make nightly` runs all and records them anew.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "compiler",
    "diagnose",
    "rewrites",
    "minifier",
    "fullgraph",
    "tests",
    "benchmarks",
    "examples",
)
_PIN = "constraints.txt"


class ExecutedFiles:
    """Executed files by test, as one file of data has them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = json.loads(path.read_text()) if path.exists() else {"files": [], "tests": {}}
        self._files: list[str] = data["files"]
        self._tests: dict[str, dict[str, Any]] = data["tests"]

    def are_unchanged(self, test: str) -> bool:
        """Return whether the files that a test executed have the text that they had."""
        if (row := self._tests.get(test)) is None:
            return False
        return bool(row["digest"] == _digest_of(self._files[number] for number in row["files"]))

    def update(self, executed: dict[str, set[str]]) -> None:
        """Replace the rows of these tests, and write the file."""
        files = {test: [self._files[n] for n in row["files"]] for test, row in self._tests.items()}
        files |= {test: sorted(_with_imports(names)) for test, names in executed.items()}
        names = sorted({name for some in files.values() for name in some})
        numbers = {name: number for number, name in enumerate(names)}
        self._tests = {
            test: {
                "digest": _digest_of(some) if test in executed else self._tests[test]["digest"],
                "files": [numbers[name] for name in some],
            }
            for test, some in sorted(files.items())
        }
        self._files = names
        told = (f"{json.dumps(test)}: {json.dumps(row)}" for test, row in self._tests.items())
        rows = ",\n".join(told)
        self.path.write_text(f'{{"files": {json.dumps(names)},\n"tests": {{\n{rows}\n}}}}\n')


@contextmanager
def noting_executed_files(notes: Path) -> Iterator[None]:
    """Inside the block, and in processes started there, append each executed file to `notes`."""
    traced, environment = sys.gettrace(), dict(os.environ)
    os.environ["FULLGRAPH_EXECUTED"] = str(notes)
    paths = str(Path(__file__).parent / "site"), environment.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    stop = start_noting(str(notes))
    try:
        yield
    finally:
        sys.settrace(traced)
        stop()
        for name in ("FULLGRAPH_EXECUTED", "PYTHONPATH"):
            os.environ.pop(name, None)
            os.environ |= {name: environment[name]} if name in environment else {}


def start_noting(notes: str) -> Callable[[], None]:
    """Append each file of the project whose functions are called from now on, also in children.

    Returns a function that ends it in this thread's successors and closes the file.
    """
    seen: set[object] = set()
    folders = tuple(f"{ROOT / folder}{os.sep}" for folder in FOLDERS)
    file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code not in seen:
            seen.add(code)
            name = code.co_filename
            if name not in seen:
                seen.add(name)
                if name.startswith(folders):
                    os.write(file, f"{os.path.relpath(os.path.realpath(name), ROOT)}\n".encode())

    def stop() -> None:
        threading.settrace(None)  # type: ignore[arg-type]
        os.close(file)

    threading.settrace(note)
    sys.settrace(note)
    return stop


def read_notes(notes: Path) -> set[str]:
    """Return the files that `noting_executed_files` appended after the first line."""
    return set(notes.read_text().splitlines()[1:])


def _digest_of(files: Iterable[str]) -> str:
    told = hashlib.sha256()
    for name in (_PIN, *files):
        told.update(f"{name} {_digest_of_file(name)}\n".encode())
    return told.hexdigest()[:16]


@lru_cache(None)
def _digest_of_file(name: str) -> str:
    path = ROOT / name
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _with_imports(files: Iterable[str]) -> set[str]:
    """Return files of the project with those from which they import names: their constants count
    although nothing in them is called."""
    found = {name for name in files if (ROOT / name).exists()}
    return found | {home for name in found for home in _imported_files(name)}


@lru_cache(None)
def _imported_files(name: str) -> frozenset[str]:
    found = set()
    for node in ast.walk(ast.parse((ROOT / name).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {home for alias in node.names for home in _home_of(node.module, alias.name)}
    return frozenset(found)


@lru_cache(None)
def _home_of(module: str, name: str) -> tuple[str, ...]:
    """Return the file that defines what `from module import name` gives; () outside the project."""
    base = module.removeprefix("fullgraph.").replace(".", "/")
    if (ROOT / base / f"{name}.py").exists():
        return (f"{base}/{name}.py",)
    if (ROOT / f"{base}.py").exists():
        return (f"{base}.py",)
    face = ROOT / base / "__init__.py"
    if base.partition("/")[0] not in FOLDERS or not face.exists():
        return ()
    for node in ast.parse(face.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _home_of(node.module, alias.name)
    return (f"{base}/__init__.py",)
