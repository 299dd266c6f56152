"""Comments on changed lines, from findings with and without proved edits."""

from dataclasses import asdict, replace

import pytest

from fullgraph.rewrites.check import Fix, TextEdit, check
from fullgraph.rewrites.review import changed_since, review_of
from fullgraph.rewrites.review.comments import make_comments, proved_edits
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.review.reviewed import AFTER, commit_suggestion, pull_request, suggestion_in

WHERE = "        x = torch.where(x.sum() > 0, x + 1, x)\n"
FIXED = AFTER.replace("        if x.sum() > 0:\n            x = x + 1\n", WHERE)
FIX = Fix(
    *("FG301", Applicability.SAFE, "Both branches are computed.", ("both are cheap",)),
    (TextEdit(8, 8, 9, 21, WHERE.strip()),),
)


@pytest.fixture
def folder(tmp_path):
    pull_request(tmp_path / "repo")
    return tmp_path / "repo"


def reviewed(folder, fix=FIX):
    """Return the review of the repository, with a fix for its branch, and the changed lines."""
    result = check([folder])
    findings = tuple(
        replace(one, fix=fix if one.code == "FGB101" else None) for one in result.findings
    )
    return review_of(replace(result, findings=findings), folder), changed_since("main", folder)


def proof_of(folder, diff, state="proved"):
    """Return what `fix --json` says of an edit."""
    return {
        "suggestions": [
            {
                **{"rule": "FG301", "file": str(folder / "net.py"), "cause": "x.sum() > 0"},
                **{"why": "The condition chooses.", "applicability": "safe", "assumes": []},
                **{"accepted": True, "proof": {"state": state}, "diff": diff},
            }
        ]
    }


DIFF = (
    "--- net.py\n+++ net.py\n@@ -7,4 +7,3 @@\n         print(x)\n"
    f"-        if x.sum() > 0:\n-            x = x + 1\n+{WHERE[:-1]}  # by fix\n"
    "         return x * 2\n"
)


def test_a_suggestion_is_the_edit(folder):
    review, changed = reviewed(folder)
    output, branch = make_comments(review, changed, [])
    assert (branch.path, branch.first, branch.last) == ("net.py", 8, 9)
    assert "FG301, safe, not run" in branch.body and "both are cheap" in branch.body
    assert (output.first, output.last) == (7, 7) and suggestion_in(asdict(output)) is None
    commit_suggestion(folder, asdict(branch))
    assert (folder / "net.py").read_text() == FIXED


def test_unchanged_lines_get_no_comment(folder):
    review, changed = reviewed(folder)
    assert [one.finding.line for one in review.remarks] == [7, 8]
    assert make_comments(review, replace(changed, lines={}), []) == []


def test_an_edit_beyond_the_changed_lines_is_shown_as_a_diff(folder):
    review, changed = reviewed(folder)
    part = replace(changed, lines={"net.py": frozenset({8})})
    (comment,) = make_comments(review, part, [])
    assert (comment.first, comment.last) == (8, 8)
    assert suggestion_in(asdict(comment)) is None and "```diff\n-        if x.sum()" in comment.body


def test_a_proved_edit_stands_in_place_of_the_static_one(folder):
    review, changed = reviewed(folder)
    proved = proved_edits(proof_of(folder, DIFF), review)
    _, branch = make_comments(review, changed, [*proved, *proved])
    assert "**proved**" in branch.body and "not run" not in branch.body
    commit_suggestion(folder, asdict(branch))
    assert "# by fix\n" in (folder / "net.py").read_text()


def test_a_proved_edit_needs_no_finding(folder):
    review, changed = reviewed(folder)
    proved = proved_edits(proof_of(folder, DIFF), review)
    (comment,) = make_comments(review.keep(lambda one: False), changed, proved)
    assert comment.body.startswith("`x.sum() > 0` breaks the graph")
    commit_suggestion(folder, asdict(comment))


def test_an_edit_that_was_not_proved_is_not_used(folder):
    review, _ = reviewed(folder)
    assert proved_edits(proof_of(folder, DIFF, "failed"), review) == []
