"""Columns in the units of each reader: `ast` counts UTF-8 bytes from 0."""

from __future__ import annotations


def code_points(line: str, column: int) -> int:
    """Convert a column in UTF-8 bytes to code points; both count from 0."""
    return len(line.encode()[:column].decode(errors="ignore"))


def utf16_units(line: str, column: int) -> int:
    """Convert a column in UTF-8 bytes to UTF-16 code units, as in SARIF; both count from 0."""
    before = line.encode()[:column].decode(errors="ignore")
    return len(before.encode("utf-16-le")) // 2


def byte_column(line: str, units: int) -> int:
    """Convert a column in UTF-16 code units to UTF-8 bytes, as in `ast`; both count from 0."""
    before = line.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="ignore")
    return len(before.encode())
