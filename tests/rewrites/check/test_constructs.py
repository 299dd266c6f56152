"""The table of constructs says what the running torch does."""

import subprocess
import sys
from pathlib import Path

import pytest

from docs import constructs
from fullgraph.diagnose.taxonomy import Category, RootKind
from fullgraph.rewrites.check import check
from fullgraph.rewrites.check.codes import CODES
from fullgraph.rewrites.check.constructs import known_versions, load_table
from fullgraph.rewrites.check.text import verdict

SCRIPT = Path(__file__).parents[3] / "docs/constructs.py"


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.timeout(900)
def test_every_construct_does_on_the_running_torch_what_the_table_says():
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_of_the_docs_is_that_of_the_tables():
    assert constructs.PAGE.read_text(encoding="utf-8") == constructs.page()


def test_categories_are_those_of_explain():
    for versions in known_versions():
        rows = load_table(*versions).rows.values()
        known = {*map(str, Category), *map(str, RootKind)}
        assert {row.category for row in rows if row.modes} <= known


def test_every_category_has_a_code():
    assert {*map(str, Category), *map(str, RootKind)} == set(CODES)
    assert len(set(CODES.values())) == len(CODES)


def test_versions_without_a_table_use_the_nearest():
    newest = max(known_versions())
    assert load_table("9.9", "3.99").torch == newest[0]
    assert load_table("1.0", "3.0").rows


def test_the_report_names_the_versions_that_were_traced(tmp_path):
    (tmp_path / "empty.py").write_text("")
    (torch, python), *_ = sorted(known_versions())
    traced = verdict(check([tmp_path], torch=torch, python=python))
    assert traced == f"No findings in 1 file · torch {torch}, Python {python}"
    other = verdict(check([tmp_path], torch="2.10", python=python))
    assert other.endswith(f"(what breaks was traced on torch {torch}, Python {python})")
