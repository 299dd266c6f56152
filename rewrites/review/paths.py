"""Paths as reviewers' tools want them: relative to the repository, with forward slashes."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def find_root(start: Path) -> Path:
    """Return the root of the git repository around a folder; the folder itself if there is none."""
    start = Path(os.path.realpath(start))
    return next((one for one in (start, *start.parents) if (one / ".git").exists()), start)


def relative_path(file: str, root: Path) -> str:
    """Return the path of a file relative to `root`; its absolute path if it is outside."""
    absolute = Path(os.path.abspath(file))
    for path in (absolute, Path(os.path.realpath(absolute))):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return absolute.as_posix()


def uri_of(path: str) -> str:
    """Return a path as a URI: "src/a%20b.py", or "file:///src/a.py" for an absolute path."""
    return Path(path).as_uri() if path.startswith("/") else quote(path)
