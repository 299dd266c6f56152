import contextlib
from dataclasses import replace

import pytest

from fullgraph.compiler.sources import short_path
from fullgraph.diagnose.explanation_data import Measurement, Note
from fullgraph.diagnose.report import wording
from tests.text import block

from .explanations import BRANCH, CLEAN, ITEM, TROUBLED, TWO


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 日本", "plain é 日本"),
        (
            block("""
                two
                lines"""),
            block("""
                two
                lines"""),
        ),
        ("\ttab", "    tab"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800", "\\ud800"),
        ("\x00", "\\x00"),
    ],
)
def test_printable(text, expected):
    assert wording.printable(text) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (4000.0, "4,000 s"),
        (8.25, "8.25 s"),
        (0.0123, "12.3 ms"),
        (4.2e-5, "42 µs"),
        (0.0, "0 ns"),
    ],
)
def test_seconds(seconds, expected):
    assert wording.format_seconds(seconds) == expected


def test_places_count_columns_from_one_as_editors_do():
    assert wording.format_place("a.py", 3, 0) == "a.py:3:1"


def test_installed_files_are_named_from_their_package():
    assert short_path("/x/lib/site-packages/timm/vit.py") == "timm/vit.py"


def test_files_of_python_are_named_from_its_folder():
    assert short_path(contextlib.__file__).endswith("/contextlib.py")
    assert short_path(contextlib.__file__).startswith("python3.")


def test_files_below_the_working_directory_are_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert short_path(str(tmp_path / "a" / "b.py")) == "a/b.py"
    assert short_path(str(tmp_path) + "er/b.py") == str(tmp_path) + "er/b.py"


def test_waits_for_the_device_are_one_note():
    waits = [Note("sync", "It waits.", ITEM.position), Note("sync", "It waits.", BRANCH.position)]
    explanation = replace(TWO, notes=(*waits, Note("unknown", "Unknown.")))
    assert wording.short_notes(explanation) == (
        "On a GPU, C1, C2 wait for the device in each call.",
        "Unknown.",
    )


def test_what_the_verdict_or_a_recompile_says_is_no_note():
    notes = (Note("unmask", "Unmasking stopped after 12 rounds."), Note("guard", "`n` changes."))
    assert wording.short_notes(replace(TWO, notes=notes)) == ("`n` changes.",)
    assert wording.short_notes(replace(TROUBLED, notes=notes)) == ()


def test_many_guards_are_counted():
    (recompile,) = TROUBLED.recompiles
    many = replace(recompile, message="`n` was 0. `n` was 1. `n` was 2.", guards=("a", "b", "c"))
    assert wording.first_guard(recompile) == recompile.message
    assert wording.first_guard(many) == "`n` was 0. 2 more guards failed."


def test_compiling_that_never_pays_is_said_so():
    slow = Measurement(0.01, 0.02, 1.0, 5, None, None, None)
    rows = dict(wording.measurement_rows(replace(CLEAN, measurement=slow)))
    assert rows["pays after"] == "never"
    assert rows["compiled"] == "20 ms a call, 2 × as slow"
    unmeasured = replace(CLEAN, measurement=replace(slow, eager=0.0))
    assert dict(wording.measurement_rows(unmeasured))["compiled"] == "20 ms a call"
