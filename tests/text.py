"""Programs in tests, as text that reads like the program."""

from __future__ import annotations

from textwrap import dedent


def block(text: str) -> str:
    """Return a triple-quoted text without its first newline and its common indentation.

    It ends with a newline if the closing quotes stand on a line of their own.
    """
    return dedent(text)[1:]
