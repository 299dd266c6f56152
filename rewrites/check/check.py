"""The static check: from paths to findings, with nothing run."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from fullgraph.rewrites.check.constructs import Table, known_versions, load_table
from fullgraph.rewrites.check.entries import find_entries
from fullgraph.rewrites.check.finding import CheckResult, Finding, Unreadable
from fullgraph.rewrites.check.interpreter import Interpreter
from fullgraph.rewrites.check.project import Module, Project
from fullgraph.rewrites.check.report import Found, findings_of
from fullgraph.rewrites.check.selection import is_selected, is_silenced
from fullgraph.rewrites.check.sources import (
    CannotRead,
    Source,
    find_files,
    no_garbage_collection,
    parse,
    read_source,
)
from fullgraph.rewrites.check.versions import running_python, short_version, torch_version

RECURSION = 4000
"""Python's recursion limit while the interpreter follows nested calls."""


def check(
    paths: Iterable[str | os.PathLike[str]],
    *,
    torch: str | None = None,
    python: str | None = None,
    strict: bool = False,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    exclude: Collection[str] = (),
    entries: Collection[str] = (),
    fixes: bool = True,
) -> CheckResult:
    """Return the graph breaks and recompiles that the source under `paths` shows.

    Nothing is imported or run. `torch` and `python` are the versions to check for, such as "2.13"
    and "3.11"; by default the installed torch, else the one that the project requires. `strict`
    adds findings that are likely, not proved. `select` and `ignore` are prefixes of codes,
    `exclude` patterns of paths. `entries` name functions that run compiled though the source does
    not show it, such as "pkg.module:step". With `fixes=False` no edit is looked for, which is
    faster.
    """
    found = find_files(paths, exclude)
    unreadable, sources = list(found.unreadable), []
    with no_garbage_collection():
        for path in found.files:
            try:
                sources.append(read_source(path))
            except CannotRead as error:
                unreadable.append(Unreadable(str(path), str(error)))
        known = [one for one, _ in known_versions()]
        version = torch_version(torch, found.files[:1], known)
        table = load_table(version, short_version(python) if python else running_python())
        findings = _check_sources(sources, table, entries, fixes)
    shown = [one for one in findings if is_selected(one, select, ignore, strict)]
    return CheckResult(
        findings=tuple(sorted(shown, key=lambda one: one.place)),
        unreadable=tuple(unreadable),
        files=len(sources),
        torch=version,
        python=short_version(python) if python else running_python(),
        strict=strict,
    )


def _check_sources(
    sources: Iterable[Source], table: Table, entries: Collection[str], fixes: bool
) -> list[Finding]:
    """Return the findings of files that are checked together."""
    interpreter, found = _interpret(Project(sources), table, entries, fixes)
    if interpreter.values is not None and found:
        from fullgraph.rewrites.check.fixes import with_fixes

        def count(module: Module, text: str) -> Mapping[tuple[str, str], int]:
            """Count the findings of a file with another text."""
            try:
                source = replace(module.source, text=text, tree=parse(text))
            except CannotRead:
                return {("", ""): 1_000_000}
            project = Project([source], around=interpreter.project)
            _, again = _interpret(project, table, entries, fixes=False)
            return Counter((one.finding.code, one.finding.function) for one in again)

        found = with_fixes(found, interpreter.values, count)
    return [
        one.finding
        for one in found
        if not is_silenced(one.finding, one.module.lines, one.node.lineno)
    ]


def _interpret(
    project: Project, table: Table, entries: Collection[str], fixes: bool
) -> tuple[Interpreter, list[Found]]:
    """Run the interpreter over a project; return it, and what it found."""
    interpreter = Interpreter(project)
    interpreter.values = {} if fixes else None
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION))
    try:
        for module in project.checked:
            for entry in find_entries(module, entries):
                interpreter.run_entry(entry.function, entry.owner, entry.context)
    finally:
        sys.setrecursionlimit(limit)
    return interpreter, findings_of(interpreter.notes.values(), table, project.checked)


def check_text(
    text: str,
    path: Path,
    *,
    torch: str | None = None,
    python: str | None = None,
    strict: bool = False,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    entries: Collection[str] = (),
    fixes: bool = True,
) -> CheckResult:
    """Return the findings of a text that is not saved yet, as if it stood in the file at `path`.

    What it imports is read from disk. Raises CannotRead if it does not parse.
    """
    source = Source(path, str(path), text, parse(text))
    version = torch_version(torch, [path], [one for one, _ in known_versions()])
    running = short_version(python) if python else running_python()
    findings = _check_sources([source], load_table(version, running), entries, fixes)
    shown = [one for one in findings if is_selected(one, select, ignore, strict)]
    return CheckResult(
        tuple(sorted(shown, key=lambda one: one.place)), (), 1, version, running, strict
    )
