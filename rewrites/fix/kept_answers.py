"""What was found out about a program, in a file that grows as answers come.

A later run for the same program continues where the last one stopped, even if that was killed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pickle
import re
import struct
import sys
import time
import zlib
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from fullgraph.compiler.isolation import (
    atom_text,
    portable_digest,
    process_states,
)
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import Owner, owner_of

DAYS = 30
"""Files that no run has used for so many days are removed."""
_FRAME = struct.Struct(">32sII")
"""Digest of a question, length of its pickled answer, checksum."""
_INNER_IMPORT = re.compile(r"^[ \t]+(?:from|import)[ \t]+(\.*)([\w.]*)", re.MULTILINE)
"""Finds the imports inside functions and other blocks; those at the top have run."""
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]+")
_SESSION = re.compile(
    r"(SSH|TERM|COLORTERM|XDG_SESSION|DBUS|TMUX|VSCODE|WINDOWID|SHLVL|DISPLAY|LINES|COLUMNS|PYTEST)"
    r"|(_|PWD|OLDPWD)$"
)
"""Environment variables of a terminal."""


class KeptAnswers:
    """Answers by question, in a file of `folder` that is named after a program.

    Raises OSError if the folder cannot be written, and TypeError or a pickling error for a program
    that cannot be told from others.
    """

    def __init__(self, folder: str | os.PathLike[str], program: Program) -> None:
        self.reused = 0
        """How many answers of earlier runs were taken from the file."""
        self._file = Path(folder) / f"{_digest_of(program)}.answers"
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._known = dict(self._read())
        for other in self._file.parent.glob("*.answers"):
            with suppress(OSError):
                if time.time() - other.stat().st_mtime > DAYS * 86400:
                    other.unlink()

    def find(self, question: Hashable) -> Any:
        """Return the answer to `question`; None if there is none.

        A question is made of values whose `repr` is the same in every process.
        """
        with suppress(Exception):  # of a class that has changed since
            answer = pickle.loads(self._known[_digest(question)])
            self.reused += 1
            return answer
        return None

    def keep(self, question: Hashable, answer: object) -> None:
        """Add an answer to the file, if it can be pickled."""
        with suppress(pickle.PicklingError, AttributeError, TypeError, OSError):
            content = pickle.dumps(answer)
            frame = _FRAME.pack(_digest(question), len(content), zlib.crc32(content))
            with self._file.open("ab") as file:  # one write, which a kill leaves whole or cut
                file.write(frame + content)

    def _read(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the questions and answers in the file, up to the first one that is cut."""
        try:
            data = self._file.read_bytes()
            os.utime(self._file)
        except OSError:
            return
        start = 0
        while start + _FRAME.size <= len(data):
            key, length, checksum = _FRAME.unpack_from(data, start)
            start += _FRAME.size + length
            content = data[start - length : start]
            if len(content) != length or zlib.crc32(content) != checksum:
                with suppress(OSError):
                    os.truncate(self._file, start - length - _FRAME.size)
                return
            yield key, content


def open_answers(folder: str | os.PathLike[str], program: Program) -> KeptAnswers | None:
    """Return the answers kept for a program; None where none can be kept."""
    try:
        return KeptAnswers(folder, program)
    except Exception:  # __reduce_ex__ and __getstate__ of the user's objects may raise anything
        return None


def _digest(question: Hashable) -> bytes:
    return hashlib.sha256(repr(question).encode()).digest()


def _digest_of(program: Program) -> str:
    """Return a digest of all that an answer may depend on, the same in every process.

    That is the program with its inputs and parameters, the code of the user's modules as it is
    loaded and the text of their files and of those that they import later, the packages and the
    settings of the process. Raises TypeError or a pickling error for a program that hides what it
    depends on.
    """
    roots = (*program.objects(), program.loss, program.backend)
    call = (program.mode, program.dynamic, program.options, program.eager_calls)
    packages = sorted({f"{one.name} {one.version}" for one in importlib.metadata.distributions()})
    states = [one for one in process_states() if "random numbers" not in one.name]
    shown = [(one.name, _show(one.read())) for one in states]
    parts = (call, portable_digest(roots), sys.version, packages, shown, _live_code())
    found = hashlib.sha256(repr(parts).encode())
    for file in sorted({*_own_files(), *_user_files()}):
        with suppress(OSError):
            found.update(f"{file}\0".encode() + Path(file).read_bytes())
    return found.hexdigest()


def _live_code() -> list[str]:
    """Return the functions and plain values of the user's modules, as they are loaded."""
    told = []
    for name, module in _user_modules():
        spaces = [(name, vars(module))]
        classes = [one for one in vars(module).values() if isinstance(one, type)]
        spaces += [(f"{name}.{one.__qualname__}", dict(vars(one))) for one in classes]
        for space, values in spaces:
            for key, value in sorted(values.items(), key=lambda pair: str(pair[0])):
                with suppress(Exception):  # of an object that loads something when asked
                    code = getattr(value, "__code__", value)
                    if isinstance(code, CodeType | int | float | str):
                        told.append(f"{space}.{key}: {atom_text(code)}")
    return told


def _user_modules() -> Iterator[tuple[str, ModuleType]]:
    """Yield the modules of the user's that are imported, by name; `__main__` may have no file."""
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or (file and owner_of(file) is Owner.USER):
            yield name, module


def _show(value: object) -> str:
    """Return a value of settings as a text without addresses, and with what has no order sorted."""
    if isinstance(value, Mapping):
        value = {key: one for key, one in value.items() if not _SESSION.match(str(key))}
        return f"{sorted(f'{_show(key)}: {_show(one)}' for key, one in value.items())}"
    if isinstance(value, tuple | list):
        return f"{[_show(one) for one in value]}"
    if isinstance(value, set | frozenset):
        return f"{sorted(map(_show, value))}"
    return _ADDRESS.sub("", repr(value))


def _own_files() -> Iterator[str]:
    """Yield the files of fullgraph itself, whose rules and proofs give the answers."""
    root = Path(__file__).parents[2]
    for room in ("compiler", "diagnose", "rewrites"):
        yield from map(str, (root / room).rglob("*.py"))


def _user_files() -> Iterator[str]:
    """Yield the files of the user's modules, and of those that their code would import later."""
    for _, module in _user_modules():
        file = getattr(module, "__file__", None) or ""
        yield file
        with suppress(OSError, UnicodeDecodeError):
            text = Path(file).read_text()
            yield from _imported_later(file, set(_INNER_IMPORT.findall(text)))


def _imported_later(file: str, names: Collection[tuple[str, str]]) -> Iterator[str]:
    """Yield the user's files that `file` may import by `names`, each with the dots before it.

    Of a package that is not imported yet, these are all its files.
    """
    for dots, name in names:
        if dots:
            root = Path(file).parents[len(dots) - 1]
        elif name in sys.modules:
            continue
        else:
            spec = PathFinder.find_spec(name.partition(".")[0])
            if spec is None or spec.origin is None or owner_of(spec.origin) is not Owner.USER:
                continue
            root = Path(spec.origin)
            root = root.parent if root.name == "__init__.py" else root
        files = map(str, root.rglob("*.py") if root.is_dir() else [root])
        yield from (one for one in files if owner_of(one) is Owner.USER)
