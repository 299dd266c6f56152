"""The table of constructs says what the running torch does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from docs import constructs
from fullgraph.diagnose.taxonomy import Category, RootKind
from fullgraph.rewrites.check import check
from fullgraph.rewrites.check.codes import CODES
from fullgraph.rewrites.check.constructs import known_versions, load_table, read_rows
from fullgraph.rewrites.check.text import verdict

WHOLE = constructs.WHOLE
SEEDED = """
import random
import torch


@torch.compile
def step(x):
    random.seed(0)
    return x + 1
"""
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


def test_a_table_stores_the_rows_that_differ_from_the_whole_one():
    whole = read_rows(constructs.WHOLE)
    for path, text in constructs.texts_with(constructs.WHOLE, whole).items():
        assert path.read_text(encoding="utf-8") == text
        assert read_rows(path).keys() == whole.keys()


def test_a_new_construct_is_unknown_where_it_was_not_traced():
    new = {"call:new": {"modes": ["default"], "category": "clock"}}
    texts = constructs.texts_with(constructs.WHOLE, read_rows(constructs.WHOLE) | new)
    others = [json.loads(text)["constructs"] for path, text in texts.items() if path != WHOLE]
    assert others and all(rows["call:new"] is None for rows in others)


def test_each_version_has_its_own_table():
    for torch, python in known_versions():
        table = load_table(torch, python)
        assert (table.torch, table.python) == (torch, python)
    assert load_table("2.10", "3.11").find("call:eval") is not None
    assert load_table("2.13", "3.11").find("call:eval") is None
    assert load_table("2.13", "3.11").find("python.cached_property") is not None
    assert load_table("2.13", "3.13").find("python.cached_property") is None


def test_versions_without_a_table_use_the_nearest():
    assert load_table("9.9", "3.99").torch == "2.15"
    assert load_table("1.0", "3.0").torch == "2.10"
    assert load_table("2.13", "3.99").python == "3.13"


def test_a_finding_holds_for_the_version_asked_for(tmp_path):
    (tmp_path / "net.py").write_text(SEEDED)
    old, new = (check([tmp_path], torch=torch, python="3.11") for torch in ("2.13", "2.14"))
    assert [one.category for one in old.findings] == ["random generator state"]
    assert not new.findings


def test_the_report_names_the_versions_that_were_traced(tmp_path):
    (tmp_path / "empty.py").write_text("")
    traced = check([tmp_path], torch="2.13", python="3.11")
    assert verdict(traced) == "No findings in 1 file · torch 2.13, Python 3.11"
    other = check([tmp_path], torch="2.9", python="3.11")
    assert verdict(other).endswith("(what breaks was traced on torch 2.10, Python 3.11)")
    assert other.to_dict()["traced"] == {"torch": "2.10", "python": "3.11"}
