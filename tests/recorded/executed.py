"""The source files that a test executed when it last passed: unchanged, it need not run again.

`executed.json`, and `executed-2.15.json` for that torch, have for each test the files of the
project whose functions it called, in children too, with the files from which those import names,
the data that it read ("FILE#KEY"), and one digest of all these and of `constraints.txt`. `make
test` leaves out the golden cases and the slow tests whose digest is still the same, and under
another torch the modules; `make nightly` runs all and records them anew.
"""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.mutation.covering_tests import CoveringTests

ROOT = Path(__file__).resolve().parents[2]
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
    root, hidden = f"{ROOT}{os.sep}", f"{ROOT}{os.sep}."
    file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code not in seen:
            seen.add(code)
            name = code.co_filename
            if name not in seen:
                seen.add(name)
                if name.startswith(root) and not name.startswith(hidden):
                    os.write(file, f"{os.path.relpath(os.path.realpath(name), ROOT)}\n".encode())

    def stop() -> None:
        threading.settrace(None)  # type: ignore[arg-type]
        os.close(file)

    threading.settrace(note)
    sys.settrace(note)
    return stop


def note_data(path: Path, key: str = "") -> None:
    """Note a file of data that the test reads, or one key of it, if executed files are noted."""
    if notes := os.environ.get("FULLGRAPH_EXECUTED"):
        with open(notes, "a") as file:
            file.write(f"{path.relative_to(ROOT)}#{key}\n")


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
    file, _, key = name.partition("#")
    if not (path := ROOT / file).exists():
        return ""
    text = path.read_bytes()
    if key:
        text = json.dumps(json.loads(text).get(key)).encode()
    return hashlib.sha256(text).hexdigest()


def _with_imports(files: Iterable[str]) -> set[str]:
    """Return files of the project with those from which they import names: their constants count
    although nothing in them is called."""
    project = _project()
    modules = {file: module for module, file in project.files.items()}
    found = {name for name in files if (ROOT / name.partition("#")[0]).exists()}
    imported = {m for name in found if name in modules for m in project.imports(modules[name])}
    return found | {project.files[module] for module in imported if module in project.files}


@lru_cache
def _project() -> CoveringTests:
    from benchmarks.mutation.covering_tests import CoveringTests  # not in started interpreters

    return CoveringTests(ROOT)
