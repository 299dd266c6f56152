"""Format a script as `ruff format` does."""

from __future__ import annotations

import subprocess

from ruff import find_ruff_bin

_OPTIONS = ("--isolated", "--quiet", "--line-length", "88", "--stdin-filename", "repro.py", "-")
_SECONDS = 30


def format_script(text: str) -> str:
    """Return `text` in ruff's format; `text` itself if ruff is missing or cannot parse it."""
    try:
        done = subprocess.run(
            [find_ruff_bin(), "format", *_OPTIONS],
            input=text,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return text
    return text if done.returncode else done.stdout
