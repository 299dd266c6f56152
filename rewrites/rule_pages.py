"""Pages of the rules, read from their files without importing them: no torch is needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class RulePage:
    """A rule's documentation."""

    code: str
    name: str
    doc: str

    @property
    def summary(self) -> str:
        return self.doc.partition("\n")[0]

    @property
    def markdown(self) -> str:
        """The page as Markdown, with its heading and with indented code in fences."""
        return f"## {self.code} {self.name}\n\n{markdown_of(self.doc)}"


@cache
def rule_pages() -> dict[str, RulePage]:
    """Return the page of each rule, by code."""
    folder = Path(__file__).parent / "rules"
    found = (page for path in sorted(folder.rglob("*.py")) for page in _pages_in(path))
    return {page.code: page for page in sorted(found, key=lambda page: page.code)}


def _pages_in(path: Path) -> Iterator[RulePage]:
    """Yield the page of the rule that a file defines as `RULE = Rule("FG101", "name", …)`."""
    tree = ast.parse(path.read_bytes())
    for statement in tree.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name("RULE")],
                value=ast.Call(args=[ast.Constant(str(code)), ast.Constant(str(name)), *_]),
            ):
                yield RulePage(code, name, (ast.get_docstring(tree) or "").strip())


def markdown_of(doc: str) -> str:
    """Return a docstring as Markdown, with indented code in fences."""
    blocks: list[str] = []
    code: list[str] = []
    for line in [*doc.split("\n"), "."]:
        if line.startswith("    ") or (code and not line.strip()):
            code.append(line[4:])
            continue
        if code:
            blocks.append("```python\n" + "\n".join(code).rstrip() + "\n```\n")
            code = []
        blocks.append(line)
    return "\n".join(blocks[:-1]).rstrip()
