"""What a run of a text shows."""

import textwrap

from fullgraph.minifier.reduce.source.observe import observe

TEXT = textwrap.dedent("""
    import torch
    from torch import nn

    class Gate(nn.Module):
        def __init__(self, width, bias=True):
            super().__init__()
            self.lin = nn.Linear(width, width, bias=bias)

        def forward(self, x):
            if x.shape[0] > 5:
                return x
            return scaled(self.lin(x), by=2)

    def scaled(x, *, by):
        return x * by

    def build():
        return Gate(4).eval(), (torch.zeros(2, 4),)
""").lstrip()


def test_values_lines_and_calls() -> None:
    facts = observe(TEXT)
    seen = {place[:2]: value for place, value in facts.values.items()}
    assert seen[10, 11].literal == "False"
    assert seen[12, 15].kind == "Tensor torch.float32 (2, 4) cpu"
    assert 11 not in facts.lines
    assert 12 in facts.lines
    forward, helper = facts.calls
    assert (forward.name, forward.caller) == ("Gate.forward", "")
    assert (forward.model, forward.inputs) == ("Gate(4, True).eval()", "(torch.zeros(2, 4),)")
    assert (helper.name, helper.caller, helper.inputs) == ("scaled", "Gate.forward", "")


def test_a_text_that_cannot_run_shows_nothing() -> None:
    assert observe("def build():\n    raise ValueError\n").values == {}


def test_a_value_that_varies_has_no_literal() -> None:
    facts = observe("def f(n):\n    return [i + 1 for i in range(n)]\nmodel = f\ninputs = (3,)\n")
    literals = {place[0]: seen.literal for place, seen in facts.values.items() if place[0] == 2}
    assert set(literals.values()) == {""}


def test_a_decorator_that_reads_source_is_left_alone() -> None:
    text = "import torch\n@torch.jit.script\ndef f(x):\n    return x + 1\n"
    text += "model = f\ninputs = (torch.ones(2),)\n"
    assert any(seen.tensor for seen in observe(text).values.values())
