"""A file with findings of each kind of place, as `check` would return them."""

from __future__ import annotations

from pathlib import Path

from fullgraph.rewrites.check import Certainty, CheckResult, Finding, Fix, TextEdit, Unreadable
from fullgraph.rewrites.rule import Applicability

SOURCE = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        names = "é𝒳", x.item()
        if x.sum() > 0:
            x = x + 1
        else:
            x = x - 1
        return x
"""


def result_of(folder: Path) -> CheckResult:
    """Write the file and return its findings: one after characters of 2 and 4 bytes, one with a
    fix of two edits, one that is likely and in another folder."""
    path, other = folder / "net.py", folder / "a folder" / "50%, done.py"
    path.write_text(SOURCE, encoding="utf-8")
    other.parent.mkdir()
    other.write_text(SOURCE, encoding="utf-8")
    fix = Fix(
        "FG301",
        Applicability.SAFE,
        "Both branches are computed, and the condition chooses.",
        ("both branches are cheap",),
        (
            TextEdit(8, 8, 8, 23, "x = torch.where("),
            TextEdit(8, 23, 11, 21, "x.sum() > 0, x + 1, x - 1)"),
        ),
    )
    findings = (
        Finding(
            *("FGB111", str(path), 7, 26, 7, 34, "`x.item()` takes a number,\nout: 100 %."),
            *(Certainty.PROVED, "scalar extraction", "Net.forward", ("default",)),
        ),
        Finding(
            *("FGB101", str(path), 8, 11, 8, 22, "The branch depends on data."),
            *(Certainty.PROVED, "data-dependent branch", "Net.forward"),
            fix=fix,
        ),
        Finding(
            *("FGR101", str(other), 8, 11, 9, 13, "It changes."),
            *(Certainty.LIKELY, "recompile: number attribute", "Net.forward"),
        ),
    )
    unreadable = (Unreadable(str(folder / "broken.py"), "line 1 is not valid Python."),)
    return CheckResult(findings, unreadable, 2, "2.13", "3.11", strict=True)
