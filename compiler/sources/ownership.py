"""Whose code a file is: torch's, Python's, an installed library's, or the user's."""

from __future__ import annotations

import functools
import sysconfig
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path


class Owner(StrEnum):
    TORCH = "torch"
    """torch, and what torch runs in its own name (fullgraph, triton)."""
    PYTHON = "python"
    LIBRARY = "library"
    USER = "user"


@functools.cache
def owner_of(file: str) -> Owner:
    """Whose `file` is. Generated code ("<string>", "<frozen …>") counts as Python's."""
    if file.startswith("<") and not file.startswith(("<ipython", "<stdin")):
        return Owner.PYTHON
    if file.startswith(_homes("torch", "fullgraph", "functorch")):
        return Owner.TORCH
    if "/site-packages/" in file or "/dist-packages/" in file:
        return Owner.LIBRARY
    return Owner.PYTHON if file.startswith(_standard_library()) else Owner.USER


def is_user_code(file: str) -> bool:
    """Whether `file` is neither torch's nor Python's: the user's own or a library's."""
    return owner_of(file) in (Owner.USER, Owner.LIBRARY)


@functools.cache
def _standard_library() -> tuple[str, ...]:
    return tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})


@functools.cache
def _homes(*packages: str) -> tuple[str, ...]:
    found: list[str] = []
    for package in packages:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            found.append(folder + "/")
            # The rooms of an editable install are links to folders beside the package.
            found += [f"{p.resolve()}/" for p in Path(folder).iterdir() if p.is_symlink()]
    return tuple(found)
