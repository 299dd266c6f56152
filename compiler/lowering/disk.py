"""The cache on disk: its folder, names by content, and files that are written at once."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: `FULLGRAPH_CACHE_DIR`, or one in the user's cache."""
    given = os.environ.get("FULLGRAPH_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(given) if given else Path(home, "fullgraph")


def digest(text: str) -> str:
    """Return a short name for a text by its content."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_file(path: Path, text: str) -> None:
    """Write a file at once, so that no other process reads a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=path.parent)
    with open(descriptor, "w") as file:
        file.write(text)
    os.replace(part, path)
