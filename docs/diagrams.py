"""Diagrams of the rooms, drawn from the code's imports.

python docs/diagrams.py            writes them into docs/architecture.md
python docs/diagrams.py --check    exit code 1 if they are out of date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import grimp

PAGE = Path(__file__).parent / "architecture.md"
PARTS = ("compiler", "diagnose", "rewrites", "minifier")


def rooms(graph: grimp.ImportGraph, part: str) -> list[str]:
    """Return the rooms of one top-level folder: its subfolders and its files."""
    return sorted(graph.find_children(f"fullgraph.{part}"))


def diagram(graph: grimp.ImportGraph, names: list[str]) -> str:
    """Return a Mermaid flowchart: an arrow from each name to every one that it imports.

    An arrow is left out where a longer path says the same.
    """
    edges = {
        name: {
            other
            for other in names
            if other != name
            and graph.direct_import_exists(importer=name, imported=other, as_packages=True)
        }
        for name in names
    }
    lines = ["```mermaid", "flowchart TD"]
    for name in names:
        short = name.rpartition(".")[2]
        direct = edges[name] - {
            far for near in edges[name] for far in reachable(near, edges) if near != far
        }
        lines += [f"    {short} --> {other.rpartition('.')[2]}" for other in sorted(direct)]
        if not edges[name] and not any(name in others for others in edges.values()):
            lines.append(f"    {short}")
    return "\n".join([*lines, "```"])


def reachable(name: str, edges: dict[str, set[str]]) -> set[str]:
    """Return every name that can be reached from `name` by at least one import."""
    found: set[str] = set()
    waiting = [*edges[name]]
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += edges[other]
    return found


def drawn(graph: grimp.ImportGraph, page: str) -> str:
    """Return the page with each diagram between its marks brought up to date."""
    for part in ("fullgraph", *PARTS):
        names = [f"fullgraph.{p}" for p in PARTS] if part == "fullgraph" else rooms(graph, part)
        mark = f"<!-- diagram: {part} -->"
        page = re.sub(
            rf"{mark}\n.*?<!-- end of diagram -->",
            lambda _, mark=mark, names=names: (
                f"{mark}\n{diagram(graph, names)}\n<!-- end of diagram -->"
            ),
            page,
            flags=re.DOTALL,
        )
    return page


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    after = drawn(grimp.build_graph("fullgraph"), before)
    if "--check" in sys.argv[1:]:
        sys.exit(0 if before == after else "docs/architecture.md: run `make docs`.")
    PAGE.write_text(after, encoding="utf-8")
