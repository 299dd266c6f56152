"""Edits reach the files all together, or not at all, and only where they may."""

import subprocess

import pytest

from fullgraph import FullgraphError
from fullgraph.rewrites.source import write_files
from tests.text import block


@pytest.fixture
def pair(tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path, {str(tmp_path / n): "x = 1\n" for n in ("a.py", "b.py")}


def edited(originals):
    return dict.fromkeys(originals, "x = 2\n")


def test_all_files_are_written(pair):
    folder, originals = pair
    (folder / "a.py").chmod(0o755)
    assert len(write_files(originals, edited(originals), roots=[folder])) == 2
    assert {p.read_text() for p in folder.iterdir()} == {"x = 2\n"}
    assert (folder / "a.py").stat().st_mode & 0o777 == 0o755


def test_none_is_written_when_one_changed_meanwhile(pair):
    folder, originals = pair
    (folder / "b.py").write_text("x = 3\n")
    with pytest.raises(FullgraphError, match="changed since"):
        write_files(originals, edited(originals), roots=[folder])
    assert (folder / "a.py").read_text() == "x = 1\n"
    assert sorted(p.name for p in folder.iterdir()) == ["a.py", "b.py"]


def test_a_file_outside_the_roots_is_refused(pair, tmp_path_factory):
    folder, originals = pair
    with pytest.raises(FullgraphError, match="not under"):
        write_files(originals, edited(originals), roots=[tmp_path_factory.mktemp("other")])
    assert (folder / "a.py").read_text() == "x = 1\n"


def test_uncommitted_changes_are_refused_unless_forced(pair):
    folder, originals = pair
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], cwd=folder, check=True)
    (folder / "a.py").write_text("x = 0\n")
    subprocess.run([*git, "add", "."], cwd=folder, check=True)
    subprocess.run([*git, "commit", "-qm", "first"], cwd=folder, check=True)
    (folder / "a.py").write_text("x = 1\n")
    with pytest.raises(FullgraphError, match="uncommitted"):
        write_files(originals, edited(originals), roots=[folder])
    assert write_files(originals, edited(originals), roots=[folder], force=True)


def test_a_folder_that_cannot_be_written_is_said_in_one_sentence(pair, monkeypatch):
    folder, originals = pair

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr("tempfile.mkstemp", full)
    with pytest.raises(FullgraphError, match="No space left on device; nothing was changed"):
        write_files(originals, edited(originals), roots=[folder])


def test_encoding_and_line_ends_stay(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes("# -*- coding: latin-1 -*-\r\ns = 'é'\r\n".encode("latin-1"))
    text = block("""
        # -*- coding: latin-1 -*-
        s = 'é'
    """)
    write_files({str(path): text}, {str(path): text.replace("é", "éé")}, roots=[tmp_path])
    assert path.read_bytes() == "# -*- coding: latin-1 -*-\r\ns = 'éé'\r\n".encode("latin-1")
