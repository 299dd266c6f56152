"""The two jobs of the action, in a scratch repository with a recorded event."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from fullgraph.rewrites.check import check
from fullgraph.rewrites.review import pull_request as jobs
from fullgraph.rewrites.review.github_api import Posted, plan_calls
from tests.rewrites.review.reviewed import commit_suggestion, pull_request, suggestion_in
from tests.rewrites.review.scratch import git

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.slow, pytest.mark.compiles]


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """The repository, and the data that `collect` stored."""
    folder = tmp_path_factory.mktemp("review")
    repo = folder / "repo"
    event = pull_request(repo)
    (folder / "event.json").write_text(json.dumps(event))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(repo)
        arguments = ["--event", str(folder / "event.json"), "--out", str(folder / "data.json")]
        assert jobs.main(["collect", *arguments]) == 0
    return repo, json.loads((folder / "data.json").read_text())


def test_findings_on_changed_lines_have_proved_suggestions(collected):
    _, data = collected
    output, branch = data["comments"]
    assert (branch["path"], branch["first"], branch["last"]) == ("net.py", 8, 9)
    assert "FGB101" in branch["body"] and "**proved**" in branch["body"]
    assert (output["first"], output["last"]) == (7, 7)
    assert "FGB201" in output["body"] and "**proved**" in output["body"]


def test_the_summary_has_the_difference_against_the_base(collected):
    _, data = collected
    assert "2 comments on changed lines" in data["summary"]
    assert re.search(r"`net.py:build`\*\*: 2 new causes, 1 gone", data["summary"])
    assert "- new: `net.py:7` print / logging" in data["summary"]
    assert "- gone: `net.py:7` data-dependent branch" in data["summary"]


def test_the_base_leaves_no_work_tree_behind(collected):
    repo, _ = collected
    assert git(repo, "worktree", "list").count("\n") == 0
    assert git(repo, "status", "--porcelain") in ("", "?? __pycache__/")


def test_the_data_is_what_the_second_job_takes(collected):
    _, data = collected
    posted = Posted(head=data["commit"])
    review, _ = plan_calls("owner/models", data, data["commit"], posted)
    assert [one["line"] for one in review.body["comments"]] == [7, 9]


def test_committed_suggestions_leave_nothing_to_report(collected):
    repo, data = collected
    for comment in reversed(data["comments"]):
        assert suggestion_in(comment) is not None
        commit_suggestion(repo, comment)
    assert check([repo]).findings == ()


@pytest.mark.parametrize("job", ["collect", "post"])
def test_the_action_calls_the_script_as_it_is(job, capsys):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = [one["run"] for one in action["runs"]["steps"] if job in one.get("run", "")]
    (command,) = steps
    arguments = shlex.split(command.replace("$", "/no/"))
    assert arguments[:3] == ["python", "-m", "fullgraph.rewrites.review.pull_request"]
    assert jobs.main(arguments[3:]) == 2
    assert "cannot be read as JSON" in capsys.readouterr().err
    assert all("${{" not in one.get("run", "") for one in action["runs"]["steps"])


def test_an_event_of_another_kind_is_one_sentence(tmp_path, capsys):
    (tmp_path / "event.json").write_text('{"action": "opened"}')
    out = str(tmp_path / "out.json")
    assert jobs.main(["collect", "--event", str(tmp_path / "event.json"), "--out", out]) == 2
    assert capsys.readouterr().err == "fullgraph: The event is not that of a pull request.\n"
