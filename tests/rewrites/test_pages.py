"""The written pages are those of the rules."""

from pathlib import Path

from fullgraph.rewrites.pages import page, with_table
from fullgraph.rewrites.rule_pages import rule_pages
from fullgraph.rewrites.rules import all_rules

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_are_up_to_date():
    assert (ROOT / "docs" / "rules.md").read_text() == page(), "run `make docs`"


def test_the_readme_has_the_table():
    readme = (ROOT / "README.md").read_text()
    assert with_table(readme) == readme, "run `make docs`"
    assert "[FG601]" in readme


def test_pages_read_without_importing_are_those_of_the_rules():
    read = [(one.code, one.name, one.summary, one.doc) for one in rule_pages().values()]
    assert read == [(one.code, one.name, one.summary, one.doc) for one in all_rules()]
