"""The version of Python that a project requires."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_BOUND = re.compile(r"(?:>=|~=|==|>)\s*(\d+)\.(\d+)")


def required_python(file: str) -> tuple[int, int] | None:
    """Return the oldest Python that the project around a file supports: (3, 11) for ">=3.11".

    It is what the nearest pyproject.toml says; None if there is none, or it says nothing.
    """
    for folder in Path(file).absolute().parents:
        try:
            project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
            text = str(project.get("project", {}).get("requires-python", ""))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, AttributeError):
            return None
        bounds = [(int(major), int(minor)) for major, minor in _BOUND.findall(text)]
        return max(bounds, default=None)
    return None
