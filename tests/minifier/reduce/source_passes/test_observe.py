"""What a run of a text shows."""

import textwrap

from fullgraph.minifier.reduce.source.observe import observe_text
from tests.text import block

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
    facts = observe_text(TEXT)
    seen = {place[:2]: value for place, value in facts.values.items()}
    assert seen[10, 11].values == (False,)
    assert [(one.dtype, one.shape) for one in seen[12, 15].tensors] == [("float32", (2, 4))]
    assert 11 not in facts.lines
    assert 12 in facts.lines
    forward, helper = facts.calls
    assert (forward.name, forward.caller) == ("Gate.forward", "")
    assert (forward.model, forward.inputs) == ("Gate(4, True).eval()", "(torch.zeros(2, 4),)")
    assert (helper.name, helper.caller, helper.inputs) == ("scaled", "Gate.forward", "")


def test_a_text_that_cannot_run_shows_nothing() -> None:
    assert (
        observe_text(
            block("""
                def build():
                    raise ValueError
            """)
        ).values
        == {}
    )


def test_callees_and_base_classes_are_left_alone() -> None:
    places = {place[:2] for place in observe_text(TEXT).values}
    assert (4, 11) not in places  # nn.Module
    assert (12, 15) in places and (12, 22) in places  # scaled(…), self.lin(x)
    assert not any(place[2:] in [(12, 21), (12, 30)] for place in observe_text(TEXT).values)


def test_lines_inside_match_and_local_classes_ran() -> None:
    text = block("""
        def f(n):
            match n:
                case 3:
                    class A:
                        b = n
    """)
    text += "    return A.b\nmodel = f\ninputs = (3,)\n"
    assert observe_text(text).lines == {2, 4, 5, 6}


def test_a_decorator_that_reads_source_is_left_alone() -> None:
    text = block("""
        import torch
        @torch.jit.script
        def f(x):
            return x + 1
    """)
    text += block("""
        model = f
        inputs = (torch.ones(2),)
    """)
    assert any(seen.tensors for seen in observe_text(text).values.values())
