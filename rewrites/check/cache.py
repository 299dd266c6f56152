"""Cache of the records of files, valid while no file changes on which a record depends."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, fields
from functools import cache
from pathlib import Path
from typing import Any

from fullgraph.rewrites.check.constructs import Table
from fullgraph.rewrites.check.examine import Record
from fullgraph.rewrites.check.finding import Fix, TextEdit
from fullgraph.rewrites.check.project import Project
from fullgraph.rewrites.check.report import Found, Place
from fullgraph.rewrites.check.sources import digest_of
from fullgraph.rewrites.rule import Applicability

FOLDER = ".fullgraph_cache"
KEPT_DAYS = 30
"""Age in days at which a stored file is removed."""


def cache_folder(path: Path) -> Path | None:
    """Return the cache's folder in the project that contains `path`; None without a project."""
    path = path.absolute()
    for folder in (path, *path.parents):
        if (folder / "pyproject.toml").is_file() or (folder / ".git").exists():
            return folder / FOLDER
    return None


class Cache:
    """Results of the check, and fixes, stored on disk in JSON files.

    A file's name depends on the checked file and the settings. If `folder` is None, nothing is
    stored. If a file cannot be read, its result counts as not stored.
    """

    def __init__(self, folder: Path | None, table: Table, settings: Iterable[str]) -> None:
        self._folder = folder
        python = ".".join(map(str, sys.version_info[:3]))
        own = own_digest() if folder is not None else ""
        self._settings = "\0".join([own, python, table.torch, table.python, *settings])
        self._wrote = False

    def load_record(self, file: Path, project: Project) -> Record | None:
        """Return the stored record of a file; None if a file that it depends on has changed."""
        data = self._load("record", file)
        try:
            record = data and Record(
                data["name"],
                data["digest"],
                data["uses"],
                tuple(map(_place_of, data["places"])),
                data["unreadable"],
            )
        except (KeyError, TypeError, ValueError):
            return None
        return record if record and _is_current(record, file, project) else None

    def store_record(self, file: Path, record: Record) -> None:
        """Store the record of a file."""
        places = [astuple(one) for one in record.places]
        self._store("record", file, {**vars(record), "places": places})

    def load_fixes(self, file: Path, key: str) -> list[Fix | None] | None:
        """Return the stored fixes of a file's findings; None if their key is not `key`.

        An element is None for a finding without a fix.
        """
        data = self._load("fixes", file)
        try:
            return [_fix_of(one) for one in data["fixes"]] if data and data["key"] == key else None
        except (KeyError, TypeError, ValueError):
            return None

    def store_fixes(self, file: Path, key: str, fixes: Sequence[Fix | None]) -> None:
        """Store the fixes of a file's findings; None for a finding without one."""
        plain = [asdict(fix) if fix is not None else None for fix in fixes]
        self._store("fixes", file, {"key": key, "fixes": plain})

    def close(self) -> None:
        """Remove files older than KEPT_DAYS, if this check stored any file."""
        if not self._wrote or self._folder is None:
            return
        oldest = time.time() - KEPT_DAYS * 86_400
        with suppress(OSError), os.scandir(self._folder) as files:
            for one in files:
                if one.name.endswith(".json") and one.stat().st_mtime < oldest:
                    os.unlink(one)

    def _path(self, kind: str, file: Path) -> Path:
        assert self._folder is not None
        name = digest_of(f"{self._settings}\0{os.path.abspath(file)}".encode(errors="replace"))
        return self._folder / f"{kind}-{name}.json"

    def _load(self, kind: str, file: Path) -> Any:
        if self._folder is None:
            return None
        try:
            data = json.loads(self._path(kind, file).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return data if isinstance(data, dict) else None

    def _store(self, kind: str, file: Path, data: object) -> None:
        if self._folder is None:
            return
        with suppress(OSError):
            if not self._wrote:
                self._folder.mkdir(exist_ok=True)
                (self._folder / ".gitignore").write_text("*\n", encoding="utf-8")
                self._wrote = True
            handle, part = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(data, out)
            os.replace(part, self._path(kind, file))


def key_of_fixes(found: Iterable[Found], records: Iterable[Record]) -> str:
    """Return a digest of all that the fixes of the findings `found` depend on.

    This is the findings, and the results of the check for the files that they come from
    (`records`).
    """
    parts = [repr([one.finding for one in found])]
    parts += [repr((one.name, one.digest, sorted(one.uses.items()))) for one in records]
    return digest_of("\0".join(parts).encode(errors="replace"))


@cache
def own_digest() -> str:
    """Return a digest of the source files and tables of `fullgraph.rewrites`."""
    folder = Path(__file__).parents[1]
    files = sorted(one for one in folder.rglob("*") if one.suffix in (".py", ".json"))
    return digest_of("".join(digest_of(one.read_bytes()) for one in files).encode())


def _is_current(record: Record, file: Path, project: Project) -> bool:
    if record.name != project.files.name_of(file):
        return False
    if record.digest != project.files.digests.of(file.absolute()):
        return False
    return all(project.files.digest(name) == digest for name, digest in record.uses.items())


def _place_of(data: Sequence[Any]) -> Place:
    names = [one.name for one in fields(Place)]
    whole: dict[str, Any] = dict(zip(names, data, strict=True))
    first, column, last, end_column = whole["span"]
    whole |= {"span": (first, column, last, end_column), "comments": tuple(whole["comments"])}
    return Place(**whole)


def _fix_of(data: Mapping[str, Any] | None) -> Fix | None:
    if data is None:
        return None
    edits = tuple(TextEdit(**edit) for edit in data["edits"])
    applicability = Applicability(data["applicability"])
    return Fix(data["rule"], applicability, data["message"], tuple(data["assumes"]), edits)
