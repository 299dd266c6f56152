from dataclasses import replace

from fullgraph.diagnose.report.edit_diff import diff_lines

from .explanations import ITEM, KEEP


def drawn(edit, cause=ITEM):
    return [f"{line.number or ''}{line.sign} {line.text}" for line in diff_lines(edit, cause)]


def test_at_the_cause_only_changed_lines_are_shown():
    assert drawn(KEEP) == ["14- total = mask.sum().item()", "+ total = mask.sum()"]


def test_away_from_the_cause_a_line_around_them_is_shown():
    away = replace(ITEM, position=replace(ITEM.position, line=90, end_line=90))
    assert drawn(KEEP, away) == [
        "13  # how many pixels count",
        "14- total = mask.sum().item()",
        "+ total = mask.sum()",
        '15  self.log["total"] = total',
    ]


def test_hunks_are_kept_apart():
    diff = "@@ -1 +1 @@\n-import a\n+import b\n@@ -14 +14 @@\n-\tx\n+\ty\n"
    edit = replace(KEEP, diff=diff)
    assert drawn(edit) == ["1- import a", "+ import b", "… ", "14-     x", "+     y"]


def test_a_setting_has_no_lines():
    assert drawn(replace(KEEP, diff="")) == []
