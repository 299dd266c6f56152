"""Owner of the code in a file: torch, Python, an installed library, or the user."""

from __future__ import annotations

import functools
import os
import sysconfig
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path, PurePath

from fullgraph.compiler.sources.cells import cell_name


class Owner(StrEnum):
    """Owner of the code in a file."""

    TORCH = "torch"
    """torch, functorch and fullgraph."""
    PYTHON = "python"
    LIBRARY = "library"
    USER = "user"


@functools.cache
def owner_of(file: str) -> Owner:
    """Return the owner of the code in `file`; `Owner.PYTHON` for generated code ("<string>")."""
    if file.startswith("<") and not file.startswith(("<ipython", "<stdin")):
        return Owner.PYTHON
    if file.startswith(_package_folders("torch", "fullgraph", "functorch")):
        return Owner.TORCH
    if "/site-packages/" in file or "/dist-packages/" in file:
        return Owner.LIBRARY
    return Owner.PYTHON if file.startswith(_standard_library()) else Owner.USER


def is_user_code(file: str) -> bool:
    """Whether `file` belongs to the user or a library, not to torch or Python."""
    return owner_of(file) in (Owner.USER, Owner.LIBRARY)


def short_path(file: str) -> str:
    """Return `file` relative to site-packages, the standard library or the working directory.

    A notebook's cell is "In[3]".
    """
    cell = cell_name(file)
    if cell is not None:
        return cell
    parts = PurePath(file).parts
    for index, part in enumerate(parts):
        if part in ("site-packages", "dist-packages") and index + 1 < len(parts):
            return "/".join(parts[index + 1 :])
    library = sysconfig.get_path("stdlib")
    if file.startswith(library + os.sep):
        return PurePath(file).relative_to(PurePath(library).parent).as_posix()
    try:
        here = os.getcwd()
    except OSError:  # the working directory was deleted
        return file
    inside = file.startswith(here.rstrip(os.sep) + os.sep)
    return file[len(here.rstrip(os.sep)) + 1 :] if inside else file


@functools.cache
def _standard_library() -> tuple[str, ...]:
    return tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})


@functools.cache
def _package_folders(*packages: str) -> tuple[str, ...]:
    """Return the folders of packages, including those that an editable install links to."""
    found: list[str] = []
    for package in packages:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            found.append(folder + "/")
            # An editable install links to folders beside the package.
            found += [f"{p.resolve()}/" for p in Path(folder).iterdir() if p.is_symlink()]
    return tuple(found)
