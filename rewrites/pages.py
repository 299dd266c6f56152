"""The pages of the rules, and their table in the README, written from the rules themselves.

python -m fullgraph.rewrites.pages [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from fullgraph.rewrites.rule import Rule
from fullgraph.rewrites.rule_pages import markdown_of
from fullgraph.rewrites.rules import all_rules

BEGIN, END = "<!-- rules -->", "<!-- end of rules -->"


def page() -> str:
    """Return docs/rules.md: every rule's documentation, by code."""
    parts = [
        "# The rules of `fullgraph fix`\n\nWritten from the rules' own documentation by "
        "`python -m fullgraph.rewrites.pages`. [constructs.md](constructs.md) lists what breaks a "
        "graph on which version.\n"
    ]
    parts += [_rule_section(rule) for rule in all_rules()]
    return "\n".join(parts)


def table() -> str:
    """Return the README's table of all rules."""
    rows = ["| rule | name | what it does |", "| --- | --- | --- |"]
    for rule in all_rules():
        anchor = f"docs/rules.md#{rule.code.lower()}-{rule.name}"
        rows.append(f"| [{rule.code}]({anchor}) | {rule.name} | {rule.summary} |")
    return "\n".join(rows)


def with_table(readme: str) -> str:
    """Return `readme` with the table between its markers replaced by the current one."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _rule_section(rule: Rule) -> str:
    """Return a rule's section of docs/rules.md: documentation, and the categories it applies to."""
    mends = ", ".join(sorted(rule.categories))
    return (
        f"## {rule.code} {rule.name}\n\n{markdown_of(rule.doc)}\n\n"
        f"For causes of the kinds: {mends}.\n"
    )


def main(folder: Path) -> None:
    """Write docs/rules.md and the README's table under `folder`."""
    (folder / "docs" / "rules.md").write_text(page(), encoding="utf-8")
    readme = folder / "README.md"
    readme.write_text(with_table(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
