import os
import re
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fullgraph.diagnose.report.terminal import plain, render, render_cause, render_head, render_rest

from .explanations import CLEAN, HIDDEN, ITEM, TRICKY, TROUBLED, TWO, UNKNOWN, many
from .strategies import EXPLANATION


def drawn(explanation, **options):
    file = StringIO()
    render(explanation, Console(file=file, **options))
    return file.getvalue()


def widest(text):
    return max(map(cell_len, text.split("\n")))


def test_line_one_is_the_verdict():
    assert repr(TWO).startswith("3 graphs, 4 breaks from 2 causes")


def test_a_clean_model_gets_one_positive_sentence():
    text = " ".join(repr(CLEAN).split())
    assert "Net is one graph of 12 ops without a break" in text
    assert "and under fullgraph=True" in text
    assert len(repr(CLEAN).splitlines()) <= 6


def test_a_clean_model_whose_fullgraph_was_not_tried_is_not_said_to_pass_it():
    untried = replace(CLEAN, fullgraph=replace(CLEAN.fullgraph, ok=None))
    assert "fullgraph=True was not tried" in " ".join(repr(untried).split())


def test_the_strip():
    assert "▇▇▇▇▇|C1|▇▇▇▇|C2|▇▇▇▇▇▇▇▇" in repr(TWO)


def test_the_caret_stands_under_the_expression():
    lines = plain(TWO).splitlines()
    index = next(i for i, line in enumerate(lines) if line.startswith("▸ 14"))
    start = lines[index].index("mask.sum()")
    assert lines[index + 1][start:] == "^" * len("mask.sum().item()")
    assert lines[index + 1][:start].strip(" │") == ""


def test_the_caret_counts_columns_of_wide_characters():
    line = '日本 = "日本", f(x)'
    size = len(line.encode())
    cause = replace(
        ITEM,
        source=((14, line),),
        position=replace(ITEM.position, column=size - 4, end_column=size),
    )
    lines = plain(replace(TWO, causes=(cause,))).splitlines()
    index = next(i for i, line in enumerate(lines) if line.startswith("▸ 14"))
    before = lines[index][: lines[index].index("f(x)")]
    assert lines[index + 1].rstrip().endswith("^^^^")
    assert cell_len(lines[index + 1].rstrip()) == cell_len(before) + 4


def test_an_expression_far_to_the_right_is_brought_into_view():
    line = "x = " + "a + " * 60 + "f(x)"
    start = line.index("f(x)")
    cause = replace(
        ITEM,
        source=((14, line),),
        position=replace(ITEM.position, column=start, end_column=start + 4),
    )
    text = plain(replace(TWO, causes=(cause,)))
    shown = next(row for row in text.splitlines() if row.startswith("▸ 14"))
    assert "…" in shown and shown.endswith("f(x)")
    assert widest(text) <= 80


def test_code_that_was_run_comes_before_settings_and_their_traps():
    text = plain(TWO)
    assert text.index("1. Keep the number in a tensor.") < text.index("2. Set `torch._dynamo")
    assert "run: no break left in both modes" in text
    assert "Mind: code that branches" in text


def test_hidden_causes_are_indented_behind_theirs():
    assert re.search(r"(?m)^  C3 · print", plain(TWO))
    assert "hidden behind C2" in plain(TWO)


def test_each_section_is_there():
    text = " ".join(plain(TROUBLED).split())
    for phrase in (
        "Not finished: Ctrl-C stopped the search",
        "recompiled · Net.forward · 8 times",
        "guard failed: L['self'].step == 3",
        "ran eager · Net.decode",
        "Because of C2.",
        "crash · CppCompileError in inductor",
        "sync: The device is synchronised",
        "Your code printed",
        "Your code ran 3 times: 1 × default mode, 1 × eager values, 1 × fullgraph.",
        "pays after 1,006 calls",
        "compiled unknown",
    ):
        assert phrase in text


def test_time_is_not_spoken_of_unless_it_was_measured():
    silent = plain(replace(TROUBLED, measurement=None))
    assert "Measured" not in silent and "6.75 s" not in silent


def test_what_is_unknown_is_said_to_be():
    mode = replace(TWO.default, graphs=None, breaks=None)
    untried = replace(TWO.fullgraph, ok=None)
    text = plain(replace(TWO, default=mode, fullgraph=untried, causes=(UNKNOWN,)))
    assert "unknown graphs, unknown breaks" in text
    assert "not tried" in text
    assert "The source cannot be read." in text


def test_a_mode_alone_is_only_said_when_the_other_was_tried():
    untried = replace(TWO, fullgraph=replace(TWO.fullgraph, ok=None))
    assert "default mode only" in plain(TWO)
    assert "default mode only" not in plain(untried)


def test_many_causes_start_with_a_table():
    text = plain(many(50))
    table, blocks = text[: text.index("\nC1 · ")], text[text.index("\nC1 · ") :]
    assert all(re.search(rf"(?m)^C{n} ", table) for n in range(1, 51))
    assert all(f"\nC{n} · " in blocks for n in range(1, 51))
    assert widest(text) <= 80


def test_markup_and_escape_codes_of_the_user_are_text():
    explanation = replace(TWO, causes=(TRICKY,))
    text = drawn(explanation, width=120, force_terminal=True, color_system="truecolor")
    assert "[red]markup[/red]" in text
    assert "[bold]markup[/bold]" in text
    assert "\\x1b[31mescapes" in text
    assert "\u202e" not in text


def test_a_pipe_gets_no_colour():
    assert "\x1b" not in drawn(TROUBLED)


def test_an_ascii_pipe_still_gets_the_report():
    raw = BytesIO()
    file = TextIOWrapper(raw, encoding="ascii", write_through=True)
    render(TROUBLED, Console(file=file, width=80))
    assert b"#####|C1|####|C2|" in raw.getvalue()


def test_pieces_streamed_are_the_whole():
    file = StringIO()
    console = Console(file=file, width=80)
    render_head(TWO, console)
    for cause in TWO.causes:
        render_cause(cause, console)
    render_rest(TWO, console)
    assert file.getvalue() == drawn(TWO, width=80)


def test_a_cause_alone_is_indented_when_hidden():
    file = StringIO()
    render_cause(HIDDEN, Console(file=file, width=80))
    assert file.getvalue().strip("\n ").startswith("C3 · print")


def test_a_deleted_working_directory_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.rmdir(tmp_path)
    assert "models/net.py:14:17" in plain(TWO)


@pytest.mark.parametrize("width", [1, 4, 12, 30, 200])
def test_any_width_will_do(width):
    text = drawn(TROUBLED, width=width)
    assert widest(text) <= max(width, 2)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPLANATION)
def test_plain_never_exceeds_80_columns(explanation):
    text = plain(explanation)
    assert widest(text) <= 80
    assert "\x1b" not in text
    text.encode("utf-8")


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPLANATION, st.integers(1, 200))
def test_render_never_raises(explanation, width):
    drawn(explanation, width=width, force_terminal=True)
