import pytest
import torch

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten

MODEL = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", 1 / 10 ** torch.arange(0, 4, 2))
        self.build(SIZE)

    def build(self, n):
        self.longest = n
        freqs = torch.outer(torch.arange(n).float(), self.inv_freq)
        self.register_buffer("cos", freqs.cos(), persistent=False)
        self.sin = freqs.sin()

    def forward(self, x, index):
        n = index.max() + 1
        if n > self.longest:
            self.build(n)
        return x * self.cos[index] + self.sin[index]
"""
TEST = "n > self.longest"
INPUTS = (torch.randn(3, 2), torch.tensor([1, 0, 2]))


def _source(size="8", *changes):
    text = MODEL.replace("SIZE", size)
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([("            self.build(n)\n", "            self.build(n)\n            x = -x\n")], ""),
        ([("self.longest = n", "self.longest = n\n        print(n)")], ""),
        ([("self.longest = n", "self.longest = 8")], ""),
        ([("if n > self.longest", "if len(x) == 0 or n > self.longest")], "in `__init__`"),
    ],
)
def test_left_alone(changes, reason):
    text, _, refusals = offered(
        _source("8", *changes), TEST, "data-dependent branch", *INPUTS, rule="FG816"
    )
    assert not text
    assert any(reason in one for one in refusals) or not reason, refusals


def test_a_table_that_had_to_grow_is_built_by_a_person():
    refusals = rewritten(_source("2"), *INPUTS).refusals
    assert refusals[0].startswith(
        "FG816: the data decide how long `self.cos` and `self.sin` must be: build them"
    )


@pytest.mark.compiles
@pytest.mark.parametrize("read", ["index.max() + 1", "int(index.max()) + 1"])
def test_proved(read):
    source = _source("8", ("index.max() + 1", read))
    fixes = fix(imported(source).Model(), INPUTS, select=["FG816"], inductor=False)
    assert fixes.after_unsafe.default.ok, fixes
    (text,) = fixes.changed_texts(unsafe=True).values()
    assert (
        "        if not torch.compiler.is_compiling():\n"
        f"            n = {read}\n"
        "            if n > self.longest:\n"
        "                self.build(n)\n"
        "        return x"
    ) in text


def test_a_number_computed_earlier():
    source = _source("8", ("        if n", "        x = x * 2\n        if n"))
    outcome = rewritten(source, *INPUTS)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert "        if not torch.compiler.is_compiling() and n > self.longest:\n" in outcome.source
    outcome.check()
