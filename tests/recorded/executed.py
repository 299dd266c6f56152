"""The functions that a test executed when it last passed: unchanged, it need not run again.

`executed.json`, and `executed-2.15.json` for that torch, have for each test the functions of the
project that it called, in children too, the files from which theirs import names, the data that it
read ("FILE#KEY"), and one digest of all these and of `constraints.txt`. Of a file counts the code
outside of functions, and those that were called or that an import calls ("imported"); of tests and
benchmarks all. `make test` leaves out the golden cases and the slow tests whose digest is still the
same, and under another torch the modules; `make nightly` runs all and records them anew.
"""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.mutation.covering_tests import CoveringTests

ROOT = Path(__file__).resolve().parents[2]
_PIN = "constraints.txt"
_OURS = ("fullgraph.", "tests.", "benchmarks.")
_WHOLE = ("tests/", "benchmarks/")
"""Folders of which a file counts as a whole: fixtures run for several tests."""
Executed = Mapping[str, Collection[str]]
"""Functions by their file: {"rewrites/rule.py": {"Rule.answer"}}."""


class ExecutedFiles:
    """Executed functions by test, as one file of data has them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = (
            json.loads(path.read_text())
            if path.exists()
            else {"files": {}, "imported": {}, "tests": {}}
        )
        self._files: dict[str, list[str]] = data["files"]
        self._imported: dict[str, list[str]] = data["imported"]
        self._tests: dict[str, dict[str, str]] = data["tests"]

    def are_unchanged(self, test: str) -> bool:
        """Return whether the functions that a test executed have the text that they had."""
        if (row := self._tests.get(test)) is None:
            return False
        return row["digest"] == self._digest_of(self._executed(test))

    def update(self, executed: Mapping[str, Executed]) -> None:
        """Replace the rows of these tests, and write the file."""
        imported = _with_bodies(_called_on_import())
        self._imported = {file: sorted(some) for file, some in sorted(imported.items()) if some}
        every = {test: self._executed(test) for test in self._tests}
        every |= {test: _with_imports(_with_bodies(some)) for test, some in executed.items()}
        called = defaultdict[str, set[str]](set)
        for some in every.values():
            for file, functions in some.items():
                called[file].update(functions)
        files = {file: sorted(called[file]) for file in sorted(called)}
        self._tests = {
            test: {
                "digest": self._digest_of(some)
                if test in executed
                else self._tests[test]["digest"],
                "functions": _pack(files, some),
            }
            for test, some in sorted(every.items())
        }
        self._files = files
        lists = (
            ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
            for rows in (files, self._imported, self._tests)
        )
        form = '{{"files": {{\n{}\n}},\n"imported": {{\n{}\n}},\n"tests": {{\n{}\n}}}}\n'
        self.path.write_text(form.format(*lists))

    def _executed(self, test: str) -> dict[str, set[str]]:
        """Return the functions that a test executed."""
        files, found = [*self._files.items()], dict[str, set[str]]()
        for part in self._tests[test]["functions"].split():
            number, _, bits = part.partition(":")
            file, functions = files[int(number)]
            mask = int(bits or "0", 16)
            found[file] = {one for n, one in enumerate(functions) if mask >> n & 1}
        return found

    def _digest_of(self, executed: Executed) -> str:
        told = hashlib.sha256(f"{_PIN} {_digest_of_file(_PIN)}".encode())
        for file, functions in sorted(executed.items()):
            told.update(f"{file} {_digest_of_file(file)}\n".encode())
            counted = {*functions, *self._imported.get(file, ())}
            bodies = _bodies_in(file) if counted else {}
            told.update("".join(f"{one} {bodies.get(one)}\n" for one in sorted(counted)).encode())
        return told.hexdigest()[:16]


def _pack(files: Mapping[str, list[str]], executed: Executed) -> str:
    """Return functions as numbers of files, each with the bits of its functions: "0:1f 3"."""
    numbers = {file: number for number, file in enumerate(files)}
    parts = []
    for file, functions in sorted(executed.items()):
        bits = sum(1 << files[file].index(one) for one in functions)
        parts.append(f"{numbers[file]}:{bits:x}" if bits else f"{numbers[file]}")
    return " ".join(parts)


@contextmanager
def noting_executed_files(notes: Path) -> Iterator[None]:
    """Inside the block, and in processes started there, append what is executed to `notes`.

    What the project's functions remember is forgotten first: they compute it again.
    """
    for one in gc.get_objects():
        if type(one) is functools._lru_cache_wrapper and one.__module__.startswith(_OURS):
            one.cache_clear()
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
    """Append "FILE:FUNCTION" for each function of the project that is called from now on.

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
            if name.startswith(root) and not name.startswith(hidden):
                path = os.path.relpath(os.path.realpath(name), ROOT)
                function = code.co_qualname.partition(".<locals>")[0]
                if path.startswith(_WHOLE) or function.endswith(">"):
                    function = ""
                if (path, function) not in seen:
                    seen.add((path, function))
                    os.write(file, f"{path}:{function}\n".encode())

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
            file.write(f"{path.relative_to(ROOT)}#{key}:\n")


def read_notes(notes: Path) -> dict[str, set[str]]:
    """Return what `noting_executed_files` appended after the first line."""
    found = defaultdict[str, set[str]](set)
    for line in notes.read_text().splitlines()[1:]:
        file, _, function = line.rpartition(":")
        found[file].update(filter(None, [function]))
    return found


@lru_cache(None)
def _digest_of_file(name: str) -> str:
    """Return a digest of data, of a whole file, or of a source file's code outside of functions."""
    file, _, key = name.partition("#")
    if not (path := ROOT / file).exists():
        return ""
    if key:
        text = json.dumps(json.loads(path.read_bytes()).get(key)).encode()
    elif file.endswith(".py") and not file.startswith(_WHOLE):
        return _bodies_in(file)[""]
    else:
        text = path.read_bytes()
    return hashlib.sha256(text).hexdigest()


@lru_cache(None)
def _bodies_in(file: str) -> dict[str, str]:
    """Return a digest of the body of each function of a file; of all other code by the name ""."""
    if not (path := ROOT / file).exists():
        return {}
    text = path.read_text()
    if path.suffix != ".py":  # a template, whose code has its name
        return {"": hashlib.sha256(text.encode()).hexdigest()}
    lines, bodies, cut = text.splitlines(), defaultdict[str, str](str), set[int]()
    for name, node in _functions_in(ast.parse(text)):
        span = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        if node.body[0].lineno > node.lineno:
            bodies[name] += "\n".join(lines[number - 1] for number in span)
            cut.update(span)
    bodies[""] = "\n".join(line for number, line in enumerate(lines, 1) if number not in cut)
    return {name: hashlib.sha256(body.encode()).hexdigest() for name, body in bodies.items()}


def _functions_in(
    node: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions and methods that lie in no other function, by their qualified names."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{prefix}{child.name}", child
            case ast.ClassDef():
                yield from _functions_in(child, f"{prefix}{child.name}.")
            case ast.stmt():
                yield from _functions_in(child, prefix)


def _called_on_import() -> dict[str, set[str]]:
    """Import every module of the package in an interpreter of its own; return what that calls."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder, "notes")
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.recorded import executed"
        code += f"; executed.import_all({str(notes)!r})"
        subprocess.run([sys.executable, "-c", code], check=True)
        return read_notes(notes)


def import_all(notes: str) -> None:
    """Import every module of the package, and note the functions that this calls."""
    with open(notes, "w") as file:
        file.write("on import\n")
    project = [one for one in _project().files.items() if not one[1].startswith(_WHOLE)]
    stop = start_noting(notes)
    for module, _ in project:
        with suppress(Exception):  # a part that only another installation has
            import_module(module)
    sys.settrace(None)
    stop()


def _with_bodies(executed: Executed) -> dict[str, set[str]]:
    """Return executed functions without what is none, such as the body of a class."""
    return {
        file: some & _bodies_in(file).keys() if (some := set(functions)) else some
        for file, functions in executed.items()
    }


def _with_imports(executed: Executed) -> dict[str, set[str]]:
    """Return executed functions, with the files from which theirs import names: what runs on
    import counts although nothing in them is called."""
    project = _project()
    modules = {file: module for module, file in project.files.items()}
    found = {f: set(some) for f, some in executed.items() if (ROOT / f.partition("#")[0]).exists()}
    imported = {m for name in found if name in modules for m in project.imports(modules[name])}
    for module in imported & project.files.keys():
        found.setdefault(project.files[module], set())
    return found


@lru_cache
def _project() -> CoveringTests:
    from benchmarks.mutation.covering_tests import CoveringTests  # not in started interpreters

    return CoveringTests(ROOT)
