import os
import re
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fullgraph.compiler.errors import FullgraphError
from fullgraph.diagnose.report.terminal import plain, render

from .explanations import (
    BRANCH,
    CLEAN,
    EDITED,
    HIDDEN,
    ITEM,
    KEEP,
    TRICKY,
    TROUBLED,
    TWO,
    UNKNOWN,
    many,
)
from .strategies import EXPLANATION


def drawn(explanation, verbose=False, cause=None, **options):
    file = StringIO()
    render(explanation, Console(file=file, **options), verbose, cause)
    return file.getvalue()


def details(explanation):
    return plain(explanation, verbose=True)


def widest(text):
    return max(map(cell_len, text.split("\n")))


def test_line_one_is_the_verdict():
    assert str(TWO).startswith("Net runs as 3 graphs: 4 breaks from 2 causes, 1 more hidden.")


def test_a_clean_model_gets_its_verdict_and_the_setting():
    assert str(CLEAN) == (
        "Net is one graph of 12 ops in default mode and under fullgraph=True.\n"
        "torch 2.13.0, backend eager"
    )


def test_the_short_form_holds_verdict_strip_and_table():
    explanation = replace(TWO, causes=(EDITED, BRANCH, HIDDEN))
    assert plain(explanation) == (
        "Net runs as 3 graphs: 4 breaks from 2 causes, 1 more hidden.\n"
        "\n"
        "▇▇▇▇▇|C1|▇▇▇▇|C2|▇▇▇▇▇▇▇▇  12 + 5 + 140 ops\n"
        "\n"
        "    line       expression         what it is            effect\n"
        "C2  net.py:22  x.sum() > 0        branch on a tensor    frame runs in eager\n"
        "    try: Compute both sides and choose with `torch.where`.\n"
        "C1  net.py:14  mask.sum().item()  scalar from a tensor  ends 1 graph\n"
        "    edit: total = mask.sum()  (FG201, unsafe)\n"
        "    only if every reader of `self.log` accepts a 0-d tensor\n"
        "C3  net.py:24  print(x.shape)     print                 hidden by C2\n"
        "    try: No rule applies, and no fix is known.\n"
        "\n"
        "torch 2.13.0, backend eager\n"
        "Details: `-v` or `--cause C1`; in Python, `report.text(verbose=True)`.\n"
        "To try, prove and apply the edits: `fullgraph fix`."
    )


def test_causes_of_a_model_that_fullgraph_captures_are_of_default_mode():
    whole = replace(TWO, fullgraph=replace(TWO.fullgraph, ok=True))
    assert "These break default mode alone:\n    line " in plain(whole)
    assert "default mode alone" not in plain(TWO)


def edited(*lines, others=()):
    edit = replace(KEEP, after=lines)
    return plain(replace(TWO, causes=(replace(ITEM, edits=(edit,)), *others))).splitlines()


def test_an_edit_of_a_few_lines_is_code_where_rows_are_few():
    assert "    edit: count = mask.sum()\n          total = count  (FG201, unsafe)" in "\n".join(
        edited("count = mask.sum()", "total = count")
    )
    crowded = edited("count = mask.sum()", "total = count", others=many(8).causes[1:])
    assert "edit: A 0-d tensor does what the number did, inside the graph." in "\n".join(crowded)
    assert "    (FG201, unsafe, 2 new lines)" in crowded


def test_an_edit_is_shown_as_it_is_written():
    assert '    edit: log("a  b")  (FG201, unsafe)' in edited('log("a  b")')


def test_the_rule_is_not_torn_from_its_applicability():
    lines = edited("total = " + "x" * 52)
    assert lines[lines.index("    (FG201, unsafe)") - 1].endswith("xxx")


def test_an_edit_without_room_is_told_by_its_sentence():
    text = " ".join(edited("total = " + "x" * 200))
    assert "edit: A 0-d tensor does what the number did, inside the graph." in text


def test_details_show_the_edit_as_a_diff_with_its_caveat():
    text = plain(replace(TWO, causes=(EDITED,)), cause="C1")
    assert "     14 - total = mask.sum().item()\n        + total = mask.sum()\n" in text
    assert "Caveat: it assumes that every reader of `self.log` accepts a 0-d tensor." in text
    assert "Or (FG901) torch._dynamo.config.capture_scalar_outputs = True" in text
    assert "More: `fullgraph rule FG201`" in text


def test_advice_is_no_diff():
    text = details(TWO)
    assert "Try Keep the number in a tensor." in text
    assert "total.clamp" not in text
    assert "Caveat: code that branches" in text


def test_one_cause_alone_is_shown_by_its_id():
    text = plain(TWO, cause="c2")
    assert "C2 · branch on a tensor" in text
    assert "C1 · " not in text
    with pytest.raises(FullgraphError, match="There is no cause 'C9': give one of C1, C2, C3"):
        plain(TWO, cause="C9")


def test_the_details_are_only_shown_when_asked_for():
    assert "C1 · " not in plain(TWO)
    assert all(f"C{n} · " in details(TWO) for n in (1, 2, 3))


def test_a_gb_id_is_a_link_on_a_terminal():
    explanation = replace(TWO, causes=(EDITED,))
    text = drawn(explanation, cause="C1", width=80, force_terminal=True)
    assert "https://example.org/gb0124.html" in text
    assert "https:" not in drawn(explanation, cause="C1", width=80)
    unsafe = replace(TWO, causes=(replace(EDITED, url="https://a.org/\x1b]8;;x"),))
    assert "a.org" not in drawn(unsafe, cause="C1", width=80, force_terminal=True)


def test_the_caret_stands_under_the_expression():
    lines = details(TWO).splitlines()
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
    lines = details(replace(TWO, causes=(cause,))).splitlines()
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
    text = details(replace(TWO, causes=(cause,)))
    shown = next(row for row in text.splitlines() if row.startswith("▸ 14"))
    assert "…" in shown and shown.endswith("f(x)")
    assert widest(text) <= 80


def test_hidden_causes_are_indented_behind_theirs():
    assert re.search(r"(?m)^  C3 · print", details(TWO))


def test_each_section_is_there():
    text = " ".join(details(TROUBLED).split())
    for phrase in (
        "Not finished: what follows was found until then.",
        "recompiled · Net.forward · 8 times",
        "guard failed: L['self'].step == 3",
        "ran eager · Net.decode",
        "Because of C2.",
        "crash · CppCompileError in inductor",
        "On a GPU, C1 waits for the device in each call.",
        "Your code printed",
        "Your code ran 3 times: 1 × default mode, 1 × eager values, 1 × fullgraph.",
        "pays after 1,006 calls",
        "compiled unknown",
    ):
        assert phrase in text


def test_time_is_not_spoken_of_unless_it_was_measured():
    silent = details(replace(TROUBLED, measurement=None))
    assert "Measured" not in silent and "6.75 s" not in silent


def test_what_is_unknown_is_said_to_be():
    text = details(replace(TWO, causes=(UNKNOWN,)))
    assert "The source cannot be read." in text


def test_a_mode_alone_is_only_said_when_the_other_was_tried():
    untried = replace(TWO, fullgraph=replace(TWO.fullgraph, ok=None))
    assert "default mode only" in details(TWO)
    assert "default mode only" not in details(untried)


def test_fifteen_causes_fit_a_screen():
    text = plain(many(15))
    assert len(text.splitlines()) <= 60
    assert all(re.search(rf"(?m)^C{n} ", text) for n in range(1, 16))
    assert widest(text) <= 80


def test_rows_without_room_are_counted():
    text = plain(many(50))
    shown = sum(bool(re.match(r"C\d+ ", line)) for line in text.splitlines())
    assert f"… and {50 - shown} more rows: -v" in text
    assert len(text.splitlines()) <= 60
    assert all(re.search(rf"(?m)^C{n} ", details(many(50))) for n in range(1, 51))


def test_markup_and_escape_codes_of_the_user_are_text():
    explanation = replace(TWO, causes=(TRICKY,))
    text = drawn(
        explanation, verbose=True, width=120, force_terminal=True, color_system="truecolor"
    )
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


def test_a_deleted_working_directory_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.rmdir(tmp_path)
    assert "models/net.py:14:17" in details(TWO)


@pytest.mark.parametrize("width", [1, 4, 12, 30, 200])
def test_any_width_will_do(width):
    for verbose in (False, True):
        assert widest(drawn(TROUBLED, verbose, width=width)) <= max(width, 2)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPLANATION)
def test_plain_never_exceeds_80_columns(explanation):
    for verbose in (False, True):
        text = plain(explanation, verbose)
        assert widest(text) <= 80
        assert "\x1b" not in text
        text.encode("utf-8")
    assert len(plain(explanation).splitlines()) <= 60


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPLANATION, st.integers(1, 200), st.booleans())
def test_render_never_raises(explanation, width, verbose):
    drawn(explanation, verbose, width=width, force_terminal=True)
