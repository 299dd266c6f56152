"""`--since` and `--baseline` choose findings, in a scratch repository."""

import json

import pytest

from fullgraph.cli import main
from fullgraph.rewrites.review.changed_lines import parse_diff
from tests.rewrites.review.scratch import MODEL, commit, git, repository

PRINTING = MODEL.replace("        return x", "        print(x)\n        return x")


@pytest.fixture
def repo(tmp_path, monkeypatch):
    folder = tmp_path / "repo"
    repository(folder, net=MODEL)
    monkeypatch.chdir(folder)
    return folder


def run(capsys, *arguments):
    """Return the exit code of a check, and its findings as (file, line, code)."""
    code = main(["check", *arguments, "--json"])
    out = capsys.readouterr().out
    found = json.loads(out)["findings"] if out else []
    return code, [(one["file"], one["line"], one["code"]) for one in found]


def test_unchanged_lines_are_silent(repo, capsys):
    assert run(capsys, ".") == (1, [("net.py", 7, "FGB101")])
    assert run(capsys, ".", "--since", "HEAD") == (0, [])


def test_lines_that_moved_are_not_changed(repo, capsys):
    (repo / "net.py").write_text(f"# a comment\n\n{MODEL}")
    assert run(capsys, ".", "--since", "HEAD") == (0, [])


@pytest.mark.parametrize("staged", [False, True])
def test_changed_lines_are_shown_before_they_are_committed(repo, capsys, staged):
    (repo / "net.py").write_text(PRINTING)
    if staged:
        git(repo, "add", "net.py")
    assert run(capsys, ".", "--since", "HEAD") == (1, [("net.py", 9, "FGB201")])


def test_commits_and_untracked_files_count(repo, capsys):
    (repo / "net.py").write_text(PRINTING)
    commit(repo)
    (repo / "tab\tand é.py").write_text(MODEL)
    expected = [("net.py", 9, "FGB201"), ("tab\tand é.py", 7, "FGB101")]
    assert run(capsys, ".", "--since", "HEAD~1") == (1, expected)
    commit(repo)
    assert run(capsys, ".", "--since", "HEAD~2") == (1, expected)


def test_an_ignored_file_is_not_new(repo, capsys):
    (repo / ".gitignore").write_text("scratch.py\n")
    (repo / "scratch.py").write_text(MODEL)
    assert run(capsys, ".", "--since", "HEAD") == (0, [])


def test_a_branch_is_compared_with_where_it_left(repo, capsys):
    git(repo, "checkout", "-q", "-b", "feature")
    (repo / "other.py").write_text(MODEL)
    commit(repo)
    git(repo, "checkout", "-q", "main")
    (repo / "net.py").write_text(MODEL.replace("x.sum() > 0", "x.sum() > 1"))
    commit(repo)
    git(repo, "checkout", "-q", "feature")
    assert run(capsys, ".", "--since", "main") == (1, [("other.py", 7, "FGB101")])


def test_it_works_below_the_root(repo, capsys, monkeypatch):
    (repo / "net.py").write_text(PRINTING)
    (repo / "inner").mkdir()
    monkeypatch.chdir(repo / "inner")
    assert run(capsys, "..", "--since", "HEAD") == (1, [("../net.py", 9, "FGB201")])


def test_the_repository_is_that_of_the_first_path(repo, capsys, monkeypatch, tmp_path):
    (repo / "net.py").write_text(PRINTING)
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "repo", "--since", "HEAD") == (1, [("repo/net.py", 9, "FGB201")])
    assert run(capsys, "repo/net.py", "--since", "HEAD") == (1, [("repo/net.py", 9, "FGB201")])


def test_findings_outside_of_the_repository_stay(repo, capsys, tmp_path):
    (tmp_path / "other.py").write_text(MODEL)
    found = run(capsys, ".", "../other.py", "--since", "HEAD")
    assert found == (1, [("../other.py", 7, "FGB101")])


def test_settings_of_git_do_not_matter(repo, capsys):
    for name, value in (
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("color.ui", "always"),
        ("diff.external", "false"),
    ):
        git(repo, "config", name, value)
    (repo / "net.py").write_text(PRINTING)
    assert run(capsys, ".", "--since", "HEAD") == (1, [("net.py", 9, "FGB201")])


@pytest.mark.parametrize("revision", ["no-such-branch", "--output=x", "HEAD~9", ""])
def test_a_revision_that_does_not_exist_is_one_sentence(repo, capsys, revision):
    if not revision:
        revision = " "
    assert main(["check", ".", f"--since={revision}"]) == 2
    said = capsys.readouterr().err
    assert f"There is no revision {revision!r}" in said and said.count("\n") == 1


def test_outside_of_a_repository_is_one_sentence(tmp_path, capsys, monkeypatch):
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    assert main(["check", ".", "--since", "HEAD"]) == 2
    assert "is in no git repository" in capsys.readouterr().err


def test_changed_cells_of_a_notebook(repo, capsys):
    def write(*sources):
        cells = [{"cell_type": "code", "source": one} for one in sources]
        (repo / "net.ipynb").write_text(json.dumps({"cells": cells}, indent=1))

    write(MODEL)
    commit(repo)
    write("import torch", MODEL)
    assert run(capsys, "net.ipynb", "--since", "HEAD") == (0, [])
    write("import torch", PRINTING)
    assert [one[2] for one in run(capsys, "net.ipynb", "--since", "HEAD")[1]] == [
        "FGB101",
        "FGB201",
    ]


def test_lines_that_look_like_headers_are_content():
    diff = (
        '--- "a/a\\tb.py"\n+++ "b/a\\tb.py"\n@@ -1,2 +1,2 @@\n'
        "--- a/gone.py\n-x\n+++ b/new.py\n+@@ -1 +9 @@\n@@ -9,0 +10 @@\n+y\n"
        "\\ No newline at end of file\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n"
    )
    assert parse_diff(diff) == {"a\tb.py": {1, 2, 10}}


def test_a_baseline_silences_what_it_holds(repo, capsys):
    assert main(["check", ".", "--baseline", "base.json", "--update-baseline"]) == 0
    assert "wrote 1 finding to base.json" in capsys.readouterr().err
    assert run(capsys, ".", "--baseline", "base.json") == (0, [])


def test_fingerprints_survive_moved_and_reformatted_lines(repo, capsys):
    main(["check", ".", "--baseline", "base.json", "--update-baseline"])
    moved = MODEL.replace("class", "\n# moved\n\n\nclass").replace("x.sum() > 0", "x.sum()  >  0")
    (repo / "net.py").write_text(moved)
    capsys.readouterr()
    assert run(capsys, ".", "--baseline", "base.json") == (0, [])


def test_one_more_of_the_same_is_new(repo, capsys):
    main(["check", ".", "--baseline", "base.json", "--update-baseline"])
    twice = MODEL.replace(
        "        return x", "        if x.sum() > 0:\n            x = x * 2\n        return x"
    )
    (repo / "net.py").write_text(twice)
    capsys.readouterr()
    assert run(capsys, ".", "--baseline", "base.json") == (1, [("net.py", 9, "FGB101")])


def test_a_baseline_is_stable_text(repo, capsys):
    for name in ("one.json", "two.json"):
        main(["check", ".", "--baseline", name, "--update-baseline"])
    one = (repo / "one.json").read_text()
    assert one == (repo / "two.json").read_text() and one.count("\n") == 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("[", "is no baseline"),
        ("[]", "is no baseline"),
        ('{"schema": 1}', "is no baseline"),
        ('{"schema": 2, "findings": []}', "has schema 2, not 1"),
    ],
)
def test_a_bad_baseline_is_one_sentence(repo, capsys, text, said):
    if text is not None:
        (repo / "base.json").write_text(text)
    assert main(["check", ".", "--baseline", "base.json"]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_flags_that_do_not_go_together(repo, capsys):
    assert main(["check", ".", "--update-baseline"]) == 2
    assert main(["check", ".", "--update-baseline", "--baseline", "b", "--since", "HEAD"]) == 2
    assert "without --since" in capsys.readouterr().err
