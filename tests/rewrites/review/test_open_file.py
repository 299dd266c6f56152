"""What an editor offers for a finding."""

from dataclasses import replace
from pathlib import Path

from fullgraph.rewrites.check import Fix, TextEdit
from fullgraph.rewrites.review.open_file import hover_text, open_file
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.review.scratch import MODEL


def opened(text):
    return open_file(text, Path("net.py"), 1, {"torch": "2.13"})


def with_fix(file):
    """Return the file with a fix for its one finding."""
    fix = Fix(
        *("FG301", Applicability.SAFE, "The condition chooses.", ("both are cheap",)),
        (TextEdit(7, 8, 8, 21, "x = torch.where(x.sum() > 0, x + 1, x)"),),
    )
    (finding,) = file.result.findings
    return replace(file, result=replace(file.result, findings=(replace(finding, fix=fix),)))


def silenced(text):
    """Return the edits that silence findings."""
    file = opened(text)
    return [one.edits[0] for one in file.quick_fixes(1, 100) if one.title.startswith("Silence")]


def test_a_fix_comes_first_and_a_safe_one_is_preferred():
    first, second = with_fix(opened(MODEL)).quick_fixes(7, 7)
    assert first.title == "FG301 (safe, if both are cheap): The condition chooses."
    assert first.is_preferred and not second.is_preferred
    assert first.edits[0].text.startswith("x = torch.where")


def test_lines_without_a_finding_have_no_quick_fix():
    assert list(opened(MODEL).quick_fixes(1, 5)) == []


def test_no_comment_is_added_where_it_would_be_part_of_a_string():
    text = MODEL.replace("        return x", '        return (x.item(), """a\nb""")')
    assert [edit.line for edit in silenced(text)] == [7]


def test_no_comment_is_added_before_a_continued_line():
    text = MODEL.replace("        return x", "        return x.item() + \\\n            1")
    assert [edit.line for edit in silenced(text)] == [7]


def test_a_comment_follows_the_code():
    (edit,) = silenced(MODEL.replace("> 0:", "> 0:  # é   "))
    assert (edit.text, edit.column) == ("  # noqa: FGB101", len("        if x.sum() > 0:  # é") + 1)
    line = "        if x.sum() > 0:  # é  # noqa: FGB101"
    assert opened(MODEL.replace("        if x.sum() > 0:", line)).result.findings == ()


def test_line_ends_do_not_matter():
    assert opened(MODEL.replace("\n", "\r\n")).result == opened(MODEL).result


def test_hover_has_the_page_of_the_rule_that_fixes_it():
    file = with_fix(opened(MODEL))
    text = hover_text(file.finding_at(7, 12), file.result)
    assert "## FG301 use-where" in text and "```python" in text


def test_a_text_that_does_not_parse_has_no_result():
    file = opened("def f(:")
    assert file.result is None and list(file.quick_fixes(1, 1)) == []
