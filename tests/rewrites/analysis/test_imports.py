"""The analyses run without torch, on facts that somebody else evaluates."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.compiles

CODE = """
import sys
import libcst as cst
from fullgraph.compiler.facts import Expression, ValueSummary
from fullgraph.rewrites.analysis import Site, infer, side_effect_of
from fullgraph.rewrites.source import parse_document

class Facts:
    def at(self, position):
        return None
    def evaluate(self, term):
        return ValueSummary((repr(term),))

document = parse_document("model.py", "import torch\\ny = torch.relu(2.0)\\n")
value = document.module.body[1].body[0].value
site = Site(document, value, "", Facts())
assert infer(site, value) == ValueSummary((repr(Expression("torch.relu", (2.0,))),))
assert not side_effect_of(site, value)
print([name for name in ("torch", "fullgraph.diagnose") if name in sys.modules])
"""


def test_analyses_load_neither_torch_nor_diagnose() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
