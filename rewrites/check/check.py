"""The static check: from paths to findings, with nothing run."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from fullgraph.compiler.errors import FullgraphError
from fullgraph.rewrites.check.cache import Cache, key_of_fixes
from fullgraph.rewrites.check.constructs import Table, known_versions, load_table
from fullgraph.rewrites.check.examine import Examiner, Record
from fullgraph.rewrites.check.facts import NO_FACTS, read_facts
from fullgraph.rewrites.check.finding import CheckResult, Finding, Unreadable
from fullgraph.rewrites.check.project import Project
from fullgraph.rewrites.check.report import Found, findings_of
from fullgraph.rewrites.check.selection import is_selected, is_silenced
from fullgraph.rewrites.check.sources import Source, find_files, parse
from fullgraph.rewrites.check.versions import running_python, short_version, torch_version
from fullgraph.rewrites.check.workers import FILES_PER_WORKER, Workers, split_by_size


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
    facts: str | os.PathLike[str] | None = None,
    fixes: bool = True,
    jobs: int = 1,
    cache: str | os.PathLike[str] | None = None,
) -> CheckResult:
    """Return the graph breaks and recompiles that the source under `paths` shows.

    Nothing is imported or run. `torch` and `python` are the versions to check for, such as
    "2.13" and "3.11"; by default the installed torch, else the one that the project requires.
    `strict` adds findings that are likely and not proved. `select` and `ignore` are prefixes of
    codes, `exclude` patterns of paths. `entries` name functions that run compiled though the
    source does not show it, such as "pkg.module:step" or "pkg.module:Trainer.step". `facts` is
    a file of `fullgraph explain --facts`: expressions that were tensors in that run count as
    tensors where the source does not show it. With `fixes=False` the findings have no fix, which
    is faster. `jobs` is the number of processes. `cache` is a folder for results; the result of a
    file is reused while neither the file nor any file that it depends on has changed.
    """
    for entry in entries:
        if not all(entry.partition(":")):
            raise FullgraphError(f"The entry {entry!r} must be written as pkg.module:function.")
    found = find_files(paths, exclude)
    table, version, running = _versions(torch, python, found.files[:1])
    names = {str(file.absolute()): str(file) for file in found.files}
    known_facts = read_facts(facts) if facts is not None else NO_FACTS
    settings = [*sorted(entries), known_facts.digest]
    store = Cache(Path(cache) if cache is not None else None, table, settings)
    project = Project(found.files)
    records = {file: store.load_record(file, project) for file in found.files}
    missing = [file for file, record in records.items() if record is None]
    make = partial(Examiner, found.files, table, tuple(entries), facts=known_facts)
    count = max(1, min(jobs, len(missing) // FILES_PER_WORKER))
    with Workers(make, count) as workers:
        parts = split_by_size(missing, count)
        for part, (made,) in zip(
            parts, workers.call("examine", [[(p,)] for p in parts]), strict=True
        ):
            for file, record in zip(part, made, strict=True):
                records[file] = record
                store.store_record(file, record)
        known = {file: record for file, record in records.items() if record is not None}
        places = (place for record in known.values() for place in record.places)
        every = findings_of(places, table, names)
        if fixes:
            every = _with_fixes(every, known, parts, workers, store)
    store.close()
    unreadable = [
        Unreadable(str(file), record.unreadable)
        for file, record in known.items()
        if record.unreadable
    ]
    return CheckResult(
        findings=_reported_findings(every, select, ignore, strict),
        unreadable=(*found.unreadable, *unreadable),
        files=len(known) - len(unreadable),
        torch=version,
        python=running,
        strict=strict,
    )


def _with_fixes(
    found: list[Found],
    records: Mapping[Path, Record],
    parts: Sequence[Sequence[Path]],
    workers: Workers,
    store: Cache,
) -> list[Found]:
    """Return the findings with their fixes; a finding that no rule can edit stays without one.

    `records` are the results of the check by file. `parts` are the files that each worker checked,
    in the workers' order. `store` provides known fixes and takes the new ones.
    """
    groups: dict[str, list[Found]] = {}
    for one in found:
        groups.setdefault(one.finding.file, []).append(one)
    noted: dict[str, list[Path]] = {}
    for file, record in records.items():
        for name in {place.file for place in record.places}:
            noted.setdefault(name, []).append(file)
    owner = {file: number for number, part in enumerate(parts) for file in part}
    todo: list[list[tuple[Path, str, list[Found], list[Path]]]] = [[] for _ in parts]
    done: list[Found] = []
    for name, group in groups.items():
        callers = noted[group[0].place.file]
        key = key_of_fixes(group, (records[file] for file in callers))
        if (known := store.load_fixes(Path(name), key)) is not None:
            done += [one.with_fix(fix) for one, fix in zip(group, known, strict=True)]
        else:
            number = owner.get(Path(name), len(done) % len(parts))
            todo[number].append((Path(name), key, group, callers))
    if any(todo):
        calls = [[(file, group, callers) for file, _, group, callers in part] for part in todo]
        for part, results in zip(todo, workers.call("find_fixes", calls), strict=True):
            for (file, key, group, _), made in zip(part, results, strict=True):
                store.store_fixes(file, key, made)
                done += [one.with_fix(fix) for one, fix in zip(group, made, strict=True)]
    return done


def _versions(
    torch: str | None, python: str | None, paths: Iterable[Path]
) -> tuple[Table, str, str]:
    """Return the table of constructs, and the versions of torch and Python to check for.

    `torch` and `python` are the versions that the user gave, such as "2.13" and "3.11". If None,
    they are the installed or required torch and the running Python.
    """
    version = torch_version(torch, paths, [one for one, _ in known_versions()])
    running = short_version(python) if python else running_python()
    return load_table(version, running), version, running


def _reported_findings(
    found: Iterable[Found], select: Collection[str], ignore: Collection[str], strict: bool
) -> tuple[Finding, ...]:
    """Return the findings to report, sorted by file and line.

    `select` and `ignore` are prefixes of codes; an empty `select` selects all. A finding that is
    only likely is left out unless `strict`; one that a `# noqa` comment silences always.
    """
    shown = (
        one.finding
        for one in found
        if is_selected(one.finding, select, ignore, strict)
        and not is_silenced(one.finding, one.place.comments)
    )
    return tuple(sorted(shown, key=lambda one: one.place))


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
    """Return the findings of an unsaved text, as if it were the content of the file at `path`.

    Modules that the text imports are read from disk. Raises CannotRead if it does not parse.
    """
    source = Source(path, str(path), text, parse(text))
    table, version, running = _versions(torch, python, [path])
    examiner = Examiner([path], table, tuple(entries), [source])
    (record,) = examiner.examine([path])
    found = findings_of(record.places, table, {str(path.absolute()): str(path)})
    if fixes and found:
        made = examiner.find_fixes(path, found, [path])
        found = [one.with_fix(fix) for one, fix in zip(found, made, strict=True)]
    findings = _reported_findings(found, select, ignore, strict)
    return CheckResult(findings, (), 1, version, running, strict)
