"""One progress line in the running notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from fullgraph.compiler.sources import running_shell


@contextmanager
def progress_line(doing: str) -> Iterator[Callable[[str], None]]:
    """Show the line `doing`, such as "Bisecting …", in a notebook while the block runs.

    Yields a function that replaces the line by another one or by several. Outside a notebook,
    nothing is shown.
    """
    handle = _display(doing) if hasattr(running_shell(), "kernel") else None
    if handle is None:
        yield lambda doing: None
        return
    try:
        yield lambda doing: handle.update(_line(doing), raw=True)
    finally:
        handle.update({}, raw=True)


def _display(doing: str) -> Any:
    """Show the line `doing`; return the IPython display handle that can replace it."""
    from IPython.display import display

    return display(_line(doing), raw=True, display_id=True)


def _line(doing: str) -> dict[str, str]:
    """Return the line `doing` by MIME type: {"text/plain": …, "text/html": …}."""
    html = f'<span style="opacity: 0.7; white-space: pre-line">{escape(doing)}</span>'
    return {"text/plain": doing, "text/html": html}
