"""The versions of torch and Python that findings hold for."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from fullgraph.compiler.errors import FullgraphError

_VERSION = re.compile(r"(\d+)\.(\d+)")
_REQUIREMENT = re.compile(r"^torch\s*(?:\[[^\]]*\])?\s*([^;@#]*)")


def short_version(text: str) -> str:
    """Return "2.13" for "2.13.0+cpu". Raises FullgraphError for anything but a version."""
    found = _VERSION.match(text)
    if found is None:
        raise FullgraphError(f"{text!r} is no version of torch: write it as 2.13.")
    return f"{int(found[1])}.{int(found[2])}"


def version_key(version: str) -> tuple[int, ...]:
    """Return a key by which versions are sorted: (2, 13) for "2.13"."""
    return tuple(map(int, version.split(".")))


def running_python() -> str:
    """Return the version of the running Python, such as "3.11"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def torch_version(asked: str | None, paths: Iterable[Path], known: Iterable[str]) -> str:
    """Return the version of torch to check for.

    It is `asked`, if that is not None; else the installed version; else the version that the
    projects around `paths` require; else the newest version in `known`.
    """
    if asked is not None:
        return short_version(asked)
    try:
        return short_version(metadata.version("torch"))
    except metadata.PackageNotFoundError:
        pass
    for path in paths:
        if (required := _required_version(path)) is not None:
            return required
    return max(known, key=version_key)


def _required_version(path: Path) -> str | None:
    """Return the version of torch that the project around `path` requires: "2.4" for ">=2.4".

    If it states several bounds, the lowest counts. None if it states none.
    """
    for folder in (path, *path.absolute().parents):
        for requirement in _requirements(folder):
            if (found := _REQUIREMENT.match(requirement)) is None:
                continue
            versions = re.findall(r"(?:==|~=|>=|>)\s*(\d+\.\d+)", found[1])
            if versions:
                return min(map(short_version, versions), key=version_key)
    return None


def _requirements(folder: Path) -> list[str]:
    """Return the requirements in a folder's pyproject.toml and requirements.txt."""
    found: list[str] = []
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        found += [str(one) for one in project.get("project", {}).get("dependencies", [])]
    except (OSError, ValueError, AttributeError, TypeError):
        pass
    with suppress(OSError, ValueError):
        found += (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return found
