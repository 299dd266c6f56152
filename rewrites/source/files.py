"""Atomic update of several source files (all are written, or none), and the diff of one."""

from __future__ import annotations

import codecs
import difflib
import os
import subprocess
import tempfile
import tokenize
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.sources import cell_name


def write_files(
    originals: Mapping[str, str],
    texts: Mapping[str, str],
    *,
    roots: Iterable[str | os.PathLike[str]] | None = None,
    force: bool = False,
) -> tuple[Path, ...]:
    """Write `texts` to the files that are its keys, and return their paths.

    Encodings, line endings and permissions are kept. `originals` maps the files to the texts that
    they must still have. Raises FullgraphError, with nothing written, if a file is outside `roots`
    (default: the working directory), has changed, has uncommitted changes (unless `force`), or
    cannot be written.
    """
    check_writable(texts, roots=roots, force=force)
    staged: list[tuple[Path, Path, bytes]] = []
    try:
        for file, text in texts.items():
            path = Path(file).resolve()
            before = path.read_bytes()
            encoded = _encode(path, before, originals[file], text)
            staged.append((path, _stage(path, encoded), before))
    except OSError as error:
        _discard_staged(staged)
        raise FullgraphError(
            f"{error.filename} cannot be written: {error.strerror}; nothing was changed."
        ) from None
    except BaseException:
        _discard_staged(staged)
        raise
    _move_into_place(staged)
    return tuple(path for path, _, _ in staged)


def check_writable(
    files: Iterable[str],
    *,
    roots: Iterable[str | os.PathLike[str]] | None = None,
    force: bool = False,
) -> None:
    """Raise FullgraphError for the first of `files` that `write_files` would refuse to write."""
    allowed = [Path(root).resolve() for root in (roots if roots is not None else (Path.cwd(),))]
    for file in files:
        path = Path(file).resolve()
        link = f" (a link to {path})" if Path(file).is_symlink() else ""
        if not any(path.is_relative_to(root) for root in allowed):
            raise FullgraphError(
                f"{file}{link} is not under {', '.join(map(str, allowed))}: give its folder as a "
                "root, or take the diff."
            )
        read_only = path.exists() and not path.stat().st_mode & 0o222  # root may write it
        if read_only or not os.access(path.parent, os.W_OK):
            raise FullgraphError(
                f"{file}{link} cannot be written: it is read-only; nothing was changed."
            )
        if not force and _is_dirty(path):
            raise FullgraphError(
                f"{file}{link} has uncommitted changes: commit them first, or force the edit."
            )


def _encode(path: Path, before: bytes, original: str, text: str) -> bytes:
    """Return `text` as bytes, in the encoding and with the line ends of the file `path`.

    `before` is the file's content. Raises FullgraphError if it is no longer the text `original`.
    """
    with path.open("rb") as stream:
        encoding, _ = tokenize.detect_encoding(stream.readline)
    known = before.decode(encoding)
    if "".join(known.splitlines(keepends=True)).replace("\r\n", "\n") != original:
        raise FullgraphError(f"{path} changed since it was read: run the command again.")
    if "\r\n" in known:
        text = text.replace("\n", "\r\n")
    return text.encode(encoding)


def _is_dirty(path: Path) -> bool:
    """Return whether a tracked file has uncommitted changes; False outside of a git repository."""
    with suppress(OSError, subprocess.TimeoutExpired):
        status = subprocess.run(
            ["git", "status", "--porcelain", "--", path.name],
            cwd=path.parent,
            capture_output=True,
            timeout=10,
        )
        return status.returncode == 0 and status.stdout[:2].strip() not in (b"", b"??")
    return False


def _stage(path: Path, content: bytes) -> Path:
    """Write `content` to a new file beside `path`, and return the new file's path.

    It gets the permissions of `path`.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)
    os.chmod(name, path.stat().st_mode)
    return Path(name)


def _move_into_place(staged: list[tuple[Path, Path, bytes]]) -> None:
    """Move every staged file into place; if one move fails, undo the moves before it and raise.

    `staged` holds, for each file: its path, the staged file's path and the previous content.
    """
    done: list[tuple[Path, bytes]] = []
    try:
        for path, new, before in staged:
            os.replace(new, path)
            done.append((path, before))
    except OSError as error:
        for path, before in done:
            path.write_bytes(before)
        _discard_staged(staged)
        raise FullgraphError(
            f"{error.filename2 or error.filename} cannot be written: {error.strerror}; "
            "nothing was changed."
        ) from None


def _discard_staged(staged: list[tuple[Path, Path, bytes]]) -> None:
    """Delete the staged files that were not moved."""
    for _, new, _ in staged:
        new.unlink(missing_ok=True)


def unified_diff(file: str, before: str, after: str) -> str:
    """Return a unified diff of one file that `patch -p1` and `git apply` accept."""
    name = cell_name(file)  # a cell is no file to patch
    if name is None:
        name = os.path.relpath(file) if Path(file).is_relative_to(Path.cwd()) else file.lstrip("/")
    before, after = (_as_on_disk(file, text) for text in (before, after))
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _as_on_disk(file: str, text: str) -> str:
    """Return `text` with the byte order mark and line endings of the file on disk."""
    try:
        known = Path(file).read_bytes()
    except OSError:
        return text
    if b"\r\n" in known:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return f"\ufeff{text}" if known.startswith(codecs.BOM_UTF8) else text
