"""Columns in the units of each reader: `ast` counts UTF-8 bytes from 0."""

from __future__ import annotations


def code_points(line: str, column: int) -> int:
    """Return a column of `ast` as a number of code points from 0."""
    return len(line.encode()[:column].decode(errors="ignore"))


def utf16_units(line: str, column: int) -> int:
    """Return a column of `ast` as a number of UTF-16 code units from 0, as in LSP and SARIF."""
    before = line.encode()[:column].decode(errors="ignore")
    return len(before.encode("utf-16-le")) // 2


def byte_column(line: str, units: int) -> int:
    """Return a number of UTF-16 code units from 0 as a column of `ast`."""
    before = line.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="ignore")
    return len(before.encode())
