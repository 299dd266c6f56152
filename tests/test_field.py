"""The situations of `benchmarks/field` and their table agree."""

import random
from collections import Counter

from benchmarks.field import FILES, SITUATIONS

LABELS = {"safe", "unsafe", "no edit needed", "boundary", "not fixable"}


def test_every_file_has_a_row():
    assert set(FILES) == set(SITUATIONS)


def test_rows_are_complete():
    for situation in SITUATIONS.values():
        assert situation.source.startswith("https://") and situation.answer, situation.name
        assert situation.label in LABELS and situation.kind in ("break", "recompile")


def test_expected_text_stands_in_the_file():
    for situation in SITUATIONS.values():
        for text in situation.expects:
            assert situation.lines_of(text), f"{situation.name}: {text}"


def drawing(number):
    return {name for name, one in SITUATIONS.items() if one.drawn == number}


def test_first_drawing_was_drawn_at_random():
    names = sorted(set(SITUATIONS) - drawing(2))
    assert drawing(1) == set(random.Random(24).sample(names, 20))


def test_newest_drawing_is_held_out():
    newest = max(one.drawn for one in SITUATIONS.values())
    assert {name for name, one in SITUATIONS.items() if one.held_out} == drawing(newest)
    assert Counter(SITUATIONS[name].kind for name in drawing(2)) == {"break": 14, "recompile": 6}
