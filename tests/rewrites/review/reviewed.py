"""A scratch repository with a pull request, and what applies a suggestion of its review."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.rewrites.review.scratch import ENVIRONMENT, commit, git, repository
from tests.text import block

BEFORE = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.mean() > 5:
            return x
        return x * 2


def build():
    return Net(), torch.ones(3)
"""
AFTER = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        print(x)
        if x.sum() > 0:
            x = x + 1
        return x * 2


def build():
    return Net(), torch.ones(3)
"""
_SUGGESTION = re.compile(r"^(`{3,})suggestion\n(?P<text>.*?)^\1$", re.DOTALL | re.MULTILINE)


def pull_request(folder: Path) -> dict[str, Any]:
    """Make the repository, with the pull request checked out; return the event."""
    repository(folder, net=BEFORE)
    (folder / "pyproject.toml").write_text(
        block("""
            [tool.fullgraph]
            entries = ["net.py:build"]
        """)
    )
    base = commit(folder)
    git(folder, "checkout", "-q", "-b", "shift")
    (folder / "net.py").write_text(AFTER)
    return recorded("pull_request", HEAD=commit(folder), BASE=base)


def recorded(name: str, **commits: str) -> dict[str, Any]:
    """Return a recorded event with the commits of a scratch repository."""
    text = (Path(__file__).parent / "events" / f"{name}.json").read_text()
    for word, sha in commits.items():
        text = text.replace(f'"{word}"', f'"{sha}"')
    event: dict[str, Any] = json.loads(text)
    return event


def suggestion_in(comment: dict[str, Any]) -> str | None:
    """Return the text that GitHub would put in place of the comment's lines."""
    found = _SUGGESTION.search(comment["body"])
    return found["text"] if found else None


def commit_suggestion(folder: Path, comment: dict[str, Any]) -> None:
    """Apply a comment's suggestion to the file on disk, by `git apply`."""
    text = suggestion_in(comment)
    assert text is not None
    old = (folder / comment["path"]).read_text().split("\n")[comment["first"] - 1 : comment["last"]]
    new = text.split("\n")[:-1]
    patch = "\n".join(
        [
            f"--- a/{comment['path']}",
            f"+++ b/{comment['path']}",
            f"@@ -{comment['first']},{len(old)} +{comment['first']},{len(new)} @@",
            *(f"-{line}" for line in old),
            *(f"+{line}" for line in new),
            "",
        ]
    )
    subprocess.run(
        ["git", "apply", "--unidiff-zero"],
        cwd=folder,
        env=ENVIRONMENT,
        input=patch.encode(),
        check=True,
    )
