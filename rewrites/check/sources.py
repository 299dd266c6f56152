"""Find, read and parse source files; a file that cannot be read gets a reason, one sentence."""

from __future__ import annotations

import ast
import gc
import hashlib
import io
import json
import os
import tokenize
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.check.finding import Unreadable

NEVER_READ = frozenset({"", "torch", "numpy", "builtins"})
"""Packages whose files are never read, even if they lie in the project."""
LARGEST = 5_000_000
"""Size in bytes of the largest file that is read."""
SKIPPED_FOLDERS = word_set(
    """
    .bzr .direnv .eggs .fullgraph_cache .git .hg .ipynb_checkpoints .mypy_cache .nox
    .pytest_cache .ruff_cache .svn .tox .venv __pycache__ __pypackages__
    build dist node_modules site-packages venv
    """
)


class CannotRead(Exception):
    """Raised if a file cannot be checked; the message is one sentence."""


@dataclass(frozen=True, eq=False)
class Source:
    """A file's text and syntax tree."""

    path: Path
    name: str
    """The path as it is shown to the user."""
    text: str
    tree: ast.Module
    cells: tuple[int, ...] = ()
    """Number of lines before each code cell of a notebook; empty for a Python file."""

    def place(self, line: int) -> tuple[int | None, int]:
        """Return a line as the number of its cell and the line in this cell, both from 1.

        The cell is None in a Python file.
        """
        if not self.cells:
            return None, line
        number = sum(before < line for before in self.cells)
        return number, line - self.cells[number - 1]

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


@dataclass
class Found:
    """Files under the paths of a check, and the paths that could not be read."""

    files: list[Path] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


def find_files(paths: Iterable[str | os.PathLike[str]], exclude: Iterable[str] = ()) -> Found:
    """Return the Python files and notebooks under `paths`, each once, sorted by name.

    `exclude` are patterns of `fnmatch` for a path or one of its parts.
    """
    found, seen = Found(), set()
    patterns = tuple(exclude)
    for path in map(Path, paths):
        try:
            inside = list(_files_under(path, patterns)) if path.is_dir() else [path]
            if not path.exists():
                reason = "it is a link in a loop" if path.is_symlink() else "there is no such file"
                raise CannotRead(f"{reason}.")
        except (OSError, CannotRead, ValueError) as error:
            found.unreadable.append(Unreadable(str(path), _sentence(error)))
            continue
        for file in inside:
            key = os.path.realpath(file)
            if key not in seen:
                seen.add(key)
                found.files.append(file)
    return found


def _files_under(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    """Yield the Python files and notebooks in a folder; links to folders are not followed."""
    for around, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED_FOLDERS and not _is_excluded(Path(around, name), patterns)
        )
        for name in sorted(files):
            if name.endswith((".py", ".ipynb")):
                path = Path(around, name)
                if not _is_excluded(path, patterns):
                    yield path


def _is_excluded(path: Path, patterns: tuple[str, ...]) -> bool:
    return any(
        fnmatch(path.as_posix(), one) or any(fnmatch(part, one) for part in path.parts)
        for one in patterns
    )


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Context manager: no garbage collection, which would traverse every tree again and again.

    At the end the trees count as old, so that the next collection does not traverse them, either.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # else the user's objects would not stay frozen
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()


class Digests:
    """Digests of the bytes of files; each file's digest is computed only once."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of(self, path: Path) -> str:
        """Return the digest of a file; "large" or "unreadable" if it is not read."""
        if path not in self._known:
            try:
                large = path.stat().st_size > LARGEST
                self._known[path] = "large" if large else digest_of(path.read_bytes())
            except (OSError, ValueError):
                self._known[path] = "unreadable"
        return self._known[path]


def digest_of(data: bytes) -> str:
    """Return a digest of `data`: 32 hexadecimal characters."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def package_of(path: Path) -> tuple[Path, str]:
    """Return the import root of a file, the folder for `sys.path`, and its module name.

    For "src/pkg/a.py" these are "src" and "pkg.a" if only "src/pkg" has an `__init__.py`.
    """
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def find_module(name: str, roots: Mapping[Path, Collection[str]]) -> Path | None:
    """Return the file of a module by its dotted name; None if there is none.

    `roots` are the folders that imports start from, with the top-level packages of the checked
    files in each. Among installed packages only these are read.
    """
    top = name.partition(".")[0]
    if top in NEVER_READ:
        return None
    for root, packages in roots.items():
        if root.name in ("site-packages", "dist-packages") and top not in packages:
            continue
        base = root.joinpath(*name.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            with suppress(OSError, ValueError):
                if path.is_file():
                    return path
    return None


def read_source(path: Path, name: str | None = None) -> Source:
    """Return the text and syntax tree of a Python file or notebook.

    `name` is the path to show to the user; None for `path`. Raises CannotRead if the file cannot be
    read or parsed.
    """
    text = read_text(path)
    cells: tuple[int, ...] = ()
    if path.suffix == ".ipynb":
        text, cells = _joined_cells(text)
    return Source(path, name or str(path), text, parse(text), cells)


def read_text(path: Path) -> str:
    """Return a file's text, decoded and with "\\n" line ends.

    Raises CannotRead if the file cannot be read, is too large, or is no text.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise CannotRead(f"it is larger than {LARGEST // 1_000_000} MB.")
        data = path.read_bytes()
        if b"\0" in data:
            raise CannotRead("it holds null bytes.")
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    except CannotRead:
        raise
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise CannotRead(f"it is not text in its encoding: {_sentence(error)}") from None
    except (OSError, ValueError) as error:
        raise CannotRead(_sentence(error)) from None


def parse(text: str) -> ast.Module:
    """Return the syntax tree of a text. Raises CannotRead if it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise CannotRead(f"line {error.lineno} is not valid Python: {error.msg}.") from None
    except (RecursionError, MemoryError):
        raise CannotRead("it is nested too deeply.") from None
    except ValueError as error:
        raise CannotRead(_sentence(error)) from None


def code_cells(text: str) -> list[str]:
    """Return the code of each code cell of a notebook.

    `text` is the notebook's JSON. Raises CannotRead if it is not a notebook.
    """
    try:
        notebook = json.loads(text)
        sources = [one["source"] for one in notebook["cells"] if one["cell_type"] == "code"]
        return ["".join(one) if isinstance(one, list) else str(one) for one in sources]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CannotRead("it is not a notebook.") from None


def _joined_cells(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the code of all cells of a notebook as one text, and where each cell starts in it.

    The numbers are the lines before each cell: (0, 3) if the first of two cells has 3 lines.
    """
    lines: list[str] = []
    before = []
    for code in code_cells(text):
        before.append(len(lines))
        magic = code.lstrip().startswith("%%")
        lines += ["" if magic else _without_magic(line) for line in code.split("\n")]
    return "\n".join(lines), tuple(before)


def _without_magic(line: str) -> str:
    """Return `line`, a line of a notebook; `pass` instead of an IPython or shell command.

    `%matplotlib inline` and `!ls` are such commands.
    """
    code = line.lstrip()
    indent = line[: len(line) - len(code)]
    return f"{indent}pass" if code.startswith(("%", "!", "?")) or code.endswith("?") else line


def _sentence(error: BaseException) -> str:
    """Return the message of an error as a sentence, without the path of the file."""
    text = getattr(error, "strerror", None) or str(error).partition("\n")[0] or "cannot be read"
    return text if text.endswith(".") else f"{text}."
