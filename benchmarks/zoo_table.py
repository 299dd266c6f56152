"""What the zoo found, as a table by library and a table by category."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

Row = dict[str, Any]
"""One line of the results: "key", "library", and what "torch" and "fullgraph" said."""


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column is a name, the others are numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """This table in GitHub's markdown."""
        rule = ("---", *("---:" for _ in self.head[1:]))
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.head, rule, *self.rows))

    def plain(self) -> str:
        """This table with its columns lined up by spaces."""
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (self.head, *self.rows)
        ]
        return "\n".join([self.title, *lines])


def crashed(row: Row) -> bool:
    """Whether fullgraph failed on this model: an exception, an exit or no answer in time."""
    return row["fullgraph"]["crash"] is not None


def torch_crashed(row: Row) -> bool:
    return row["torch"]["crash"] is not None


def reported(row: Row) -> bool:
    """Whether fullgraph told a crash of the compiler as one."""
    return bool(row["fullgraph"].get("crashes"))


def shown(row: Row) -> list[dict[str, Any]]:
    """Causes that the default mode met, which `torch._dynamo.explain` could have told."""
    return [
        cause
        for cause in row["fullgraph"].get("causes", [])
        if not cause["hidden"] and "default" in cause["modes"]
    ]


def hidden(row: Row) -> list[dict[str, Any]]:
    return [cause for cause in row["fullgraph"].get("causes", []) if cause["hidden"]]


def missed(row: Row) -> list[dict[str, Any]]:
    """Shown causes whose place, the user's or the innermost, is that of no reason of explain's."""
    told = {tuple(reason["place"]) for reason in _reasons(row) if reason["place"]}
    return [
        cause for cause in shown(row) if not any(tuple(place) in told for place in cause["places"])
    ]


def silent(row: Row) -> bool:
    """Whether explain gives no reason at all for a model that breaks."""
    return bool(shown(row)) and not _reasons(row)


def _reasons(row: Row) -> list[dict[str, Any]]:
    return row["torch"].get("reasons", [])


def clean(row: Row) -> bool:
    return not crashed(row) and not row["fullgraph"]["causes"] and not reported(row)


def slowdown(rows: Iterable[Row]) -> float | None:
    """Geometric mean of fullgraph's time by explain's, over models where both gave an answer."""
    ratios = [
        row["fullgraph"]["seconds"] / row["torch"]["seconds"]
        for row in rows
        if not crashed(row) and not torch_crashed(row)
    ]
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else None


def _count(rows: Iterable[Row], fact: Callable[[Row], Any]) -> int:
    """The sum of `fact` over `rows`: a truth counts as one, a list as its length."""
    facts = (fact(row) for row in rows)
    return sum(len(value) if isinstance(value, list) else int(value) for value in facts)


def by_library(rows: Sequence[Row]) -> Table:
    """One line a library and one for them all."""
    facts: tuple[tuple[str, Callable[[Row], Any]], ...] = (
        ("models", lambda row: 1),
        ("clean", clean),
        ("causes", shown),
        ("explain misses", missed),
        ("no reason at all", silent),
        ("hidden causes", hidden),
        ("torch crashes", torch_crashed),
        ("reported", lambda row: torch_crashed(row) and reported(row)),
        ("our crashes", crashed),
    )

    def line(name: str, group: Sequence[Row]) -> tuple[str, ...]:
        ratio = slowdown(group)
        counts = (str(_count(group, fact)) for _, fact in facts)
        return name, *counts, "–" if ratio is None else f"{ratio:.2f}"

    libraries = dict.fromkeys(row["library"] for row in rows)
    return Table(
        "By library",
        ("library", *(name for name, _ in facts), "time ratio"),
        (
            *(line(name, [row for row in rows if row["library"] == name]) for name in libraries),
            line("all", rows),
        ),
    )


def by_category(rows: Sequence[Row]) -> Table:
    """One line a category of causes, those in most models first."""
    models: dict[str, set[str]] = {}
    counts: dict[str, list[int]] = {}
    for row in rows:
        for column, causes in enumerate((shown(row), missed(row), hidden(row))):
            for cause in causes:
                models.setdefault(cause["category"], set()).add(row["key"])
                counts.setdefault(cause["category"], [0, 0, 0])[column] += 1
    order = sorted(models, key=lambda name: (-len(models[name]), name))
    return Table(
        "By category",
        ("category", "models", "causes", "explain misses", "hidden causes"),
        tuple((name, str(len(models[name])), *map(str, counts[name])) for name in order),
    )
