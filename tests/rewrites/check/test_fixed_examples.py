"""`check --fix` on the examples of all rule pages: clean after one run, unchanged by the next."""

import ast
import builtins
import re
import textwrap

import pytest

from fullgraph.cli import main
from fullgraph.rewrites.check import check
from fullgraph.rewrites.check.sources import CannotRead, parse
from fullgraph.rewrites.rule_pages import rule_pages

MODULE = """\
import logging
import time
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable

log = logger = logging.getLogger(__name__)


class Old(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
{backward}
        return grad


class Net(nn.Module):
    def forward(self, {parameters}):
        Old.apply({first})
{forward}
"""


def programs():
    """Yield the code of each rule's page with the module around the example before the edit."""
    for code, page in rule_pages().items():
        found = re.search(r"^Before[^\n]*:\n\n((?: {4}[^\n]*\n|\n)+)", page.doc, re.MULTILINE)
        if found is None:
            continue
        body = textwrap.dedent(found[1])
        try:
            tree = parse(f"def f():\n{textwrap.indent(body, '    ')}")
        except CannotRead:
            continue
        read = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
        known = {"self", "ctx", "torch", "nn", "F", "np", "time", "warnings", "log", "logger"}
        names = sorted(read - known - {"logging", "Variable"} - set(dir(builtins))) or ["x"]
        block = textwrap.indent(body, " " * 8).rstrip()
        in_backward = "ctx" in read
        yield (
            code,
            MODULE.format(
                backward=block if in_backward else "        pass",
                forward="        pass" if in_backward else block,
                parameters=", ".join(f"{name}: torch.Tensor" for name in names),
                first=names[0],
            ),
        )


EXAMPLES = dict(programs())


@pytest.mark.parametrize("flags", [["--fix"], ["--fix", "--unsafe-fixes"]])
@pytest.mark.parametrize("code", EXAMPLES)
def test_a_fixed_example_has_nothing_left_to_fix(code, flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "example.py"
    path.write_text(EXAMPLES[code], encoding="utf-8")
    allowed = {"safe", "unsafe"} if "--unsafe-fixes" in flags else {"safe"}
    assert main(["check", "example.py", *flags]) in (0, 1)
    once = path.read_bytes()
    left = [one for one in check(["example.py"]).findings if one.fix and one.fix.edits]
    assert not [one for one in left if one.fix.applicability in allowed]
    assert main(["check", "example.py", *flags]) in (0, 1)
    assert path.read_bytes() == once


def test_the_examples_have_safe_and_unsafe_fixes(tmp_path):
    for code, text in EXAMPLES.items():
        (tmp_path / f"{code}.py").write_text(text, encoding="utf-8")
    fixes = [one.fix for one in check([tmp_path]).findings if one.fix]
    assert {one.applicability for one in fixes} >= {"safe", "unsafe"}
    assert len({one.rule for one in fixes}) >= 5, {one.rule for one in fixes}
