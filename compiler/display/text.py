"""Text that people can read: every character visible, cells by their names."""

from __future__ import annotations

import unicodedata

from fullgraph.compiler.sources import name_cells


def printable(text: str) -> str:
    """Return `text` with every character visible: no escape codes, no bidirectional overrides.

    Newlines stay, tabs become four spaces, other control and format characters (and lone
    surrogates, which no file can hold) become escapes such as "\\x1b". The temporary file name of a
    notebook cell becomes "In[3]".
    """
    text = name_cells(text)
    if text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    """Return a character, as an escape sequence if it is invisible; a tab as four spaces."""
    if character == "\n":
        return character
    if character == "\t":
        return "    "
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return character.encode("unicode_escape").decode("ascii")
    return character
