"""The situations of `benchmarks/field` and their table agree."""

import random

from benchmarks.field import HERE, SITUATIONS

LABELS = {"safe", "unsafe", "no edit needed", "boundary", "not fixable"}


def test_every_file_has_a_row():
    assert {path.stem for path in HERE.glob("*.py")} == {"__init__", *SITUATIONS}


def test_rows_are_complete():
    for situation in SITUATIONS.values():
        assert situation.source.startswith("https://") and situation.answer, situation.name
        assert situation.label in LABELS and situation.kind in ("break", "recompile")


def test_expected_text_stands_in_the_file():
    for situation in SITUATIONS.values():
        for text in situation.expects:
            assert situation.lines_of(text), f"{situation.name}: {text}"


def test_what_is_held_out_was_drawn():
    drawn = random.Random(24).sample(sorted(SITUATIONS), 20)
    assert {name for name, one in SITUATIONS.items() if one.held_out} == set(drawn)
