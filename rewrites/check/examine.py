"""What the interpreter notes in the compiled code of each file, and what that depends on."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fullgraph.rewrites.check.constructs import Table
from fullgraph.rewrites.check.entries import find_entries, is_test
from fullgraph.rewrites.check.facts import NO_FACTS, Facts
from fullgraph.rewrites.check.finding import Fix
from fullgraph.rewrites.check.interpreter import Interpreter
from fullgraph.rewrites.check.interpreter.call_sites import changing_arguments
from fullgraph.rewrites.check.project import Module, Project
from fullgraph.rewrites.check.report import Found, Place, findings_of, places_of
from fullgraph.rewrites.check.sources import CannotRead, Source, no_garbage_collection, parse

RECURSION = 4000
"""Python's recursion limit while the interpreter follows nested calls."""


@dataclass(frozen=True)
class Record:
    """Result of interpreting the entries of a file."""

    name: str
    """Dotted name of the file as a module."""
    digest: str
    """Digest of the file's bytes."""
    uses: Mapping[str, str]
    """Digests of the modules that the result depends on, by name; "" for one without a file."""
    places: tuple[Place, ...]
    """Constructs that break or recompile, in this file and in files whose code it calls."""
    unreadable: str = ""
    """Why the file cannot be read; "" if it was read."""


class Examiner:
    """Checks files of a project one after the other; each file is read and parsed only once."""

    def __init__(
        self,
        files: Sequence[Path],
        table: Table,
        entries: Collection[str] = (),
        texts: Iterable[Source] = (),
        facts: Facts = NO_FACTS,
    ) -> None:
        self._project = Project(files, texts)
        self._facts = facts
        self._interpreter = Interpreter(self._project, facts)
        self._table = table
        self._entries = entries

    def examine(self, files: Iterable[Path]) -> list[Record]:
        """Interpret the entries of each file and return the records."""
        with no_garbage_collection(), _deep_recursion():
            return [self._examine(file) for file in files]

    def _examine(self, file: Path) -> Record:
        project = self._project
        name = project.files.name_of(file)
        try:
            module = project.checked(file)
        except CannotRead as error:
            return Record(name, project.files.digests.of(file.absolute()), {}, (), str(error))
        self._run(self._interpreter, module)
        places = places_of(self._interpreter.noted, self._table)
        uses = {used: project.files.digest(used) for used in sorted(used_names(module, project))}
        return Record(name, project.files.digests.of(file.absolute()), uses, places)

    def _run(self, interpreter: Interpreter, module: Module) -> None:
        """Interpret the entries of a file."""
        interpreter.start_file()
        for entry in find_entries(module, self._entries):
            interpreter.run_entry(entry)
        if not is_test(module):
            interpreter.noted |= set(changing_arguments(module))

    def find_fixes(
        self, file: Path, found: Sequence[Found], callers: Iterable[Path]
    ) -> list[Fix | None]:
        """Return the fix of each finding of a file; None for one without a fix.

        `callers` are the files with entries from which the findings were reached.
        """
        from fullgraph.rewrites.check.fixes import fixes_in, may_have_edit

        with no_garbage_collection(), _deep_recursion():
            module = self._project.checked(file)
            known = [one for one in found if may_have_edit(one, module)]
            if not known:
                return [None] * len(found)
            interpreter = Interpreter(self._project, self._facts)
            interpreter.values = {}
            for caller in callers:
                self._run(interpreter, self._project.checked(caller))
            fixes = fixes_in(module, known, interpreter.values, self._count)
        return [fixes.get(one.place) for one in found]

    def _count(self, module: Module, text: str) -> Mapping[tuple[str, str], int]:
        """Return the number of findings by code and function, if `text` were the file's text.

        One entry with a huge number if the text does not parse.
        """
        path = module.source.path
        try:
            source = Source(path, module.source.name, text, parse(text))
        except CannotRead:
            return {("", ""): 1_000_000}
        project = self._project.with_text(source)
        interpreter = Interpreter(project, self._facts)
        self._run(interpreter, project.checked(path))
        places = places_of(interpreter.noted, self._table)
        found = findings_of(places, self._table, {str(path.absolute()): source.name})
        return Counter((one.finding.code, one.finding.function) for one in found)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Context manager: a recursion limit that suffices for the interpreter's nested calls."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def used_names(module: Module, project: Project) -> set[str]:
    """Return the names of all modules on which the result for `module` depends.

    These are the modules whose names were looked up in `module`, the modules looked up in those,
    and so on. Names of modules that do not exist are included: the result changes if such a file
    appears.
    """
    found: set[str] = set()
    todo = [module]
    while todo:
        new = todo.pop().asked - found
        found |= new
        todo += [one for name in new if (one := project.module(name)) is not None]
    return found
