import pytest
import torch

from fullgraph import fix
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

X = torch.tensor([0.0, 3.0, 1.0, 3.0, 3.0])
ONE = torch.tensor([0.0, 0.0, 0.0, 3.0, 0.0])
TWO = torch.tensor([3.0, 0.0, 0.0, 3.0, 0.0])


def _function(body, parameters="x"):
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.split("\n"))
    return f"import torch\n\n\ndef f({parameters}):\n    s = x[x > 2]\n{lines}"


def _offer(body, test):
    """Return the text after the rule; "" without an edit."""
    return offered(_function(body), test, "data-dependent guard", X, rule="FG308")[0]


@pytest.mark.parametrize(
    "body",
    [
        block("""
            k = 1 if len(s) > 1 else 0
            return s[k] + k"""),
        block("""
            k = 1 if len(s) > 1 else 0
            s = s + 1
            return s[k]"""),
        block("""
            k = 1 if len(s) > 1 else 0
            return x[k]"""),
        block("""
            k = 1 if len(s) > 1 else 0
            return x[s.long(), k]"""),
        block("""
            k = 0
            if x.dim() > 1:
                k = 1 if len(s) > 1 else 0
            return s[k]"""),
        "return s[1 if len(s) > 2 else 0]",
        "return s[2 if len(s) > 1 else 0]",
        "return s[0] if len(s) > 1 else s[1]",
        "return s[1] if len(s) > 1 else -s[0]",
        "return s[1] if len(s) > 1 else x[0]",
        block("""
            if len(s) > 1:
                y = s[1]
            else:
                z = y = s[0]
            return y"""),
        block("""
            if len(s) > 1:
                return s[1]
            return s[0]"""),
    ],
)
def test_left_alone(body):
    test = next(one for one in ("len(s) > 1", "len(s) > 2") if one in body)
    assert not _offer(body, test)


@pytest.mark.parametrize(
    ("before", "test", "after"),
    [
        ("return s[1 if len(s) > 1 else 0]", "len(s) > 1", "s[:2][-1]"),
        ("return s[1] if len(s) >= 2 else s[0]", "len(s) >= 2", "s[:2][-1]"),
        ("return s[0] if len(s) < 2 else s[1]", "len(s) < 2", "s[:2][-1]"),
        ("return s[0] if 1 >= len(s) else s[1]", "1 >= len(s)", "s[:2][-1]"),
        ("return s[1] if 1 < s.shape[0] else s[-1]", "1 < s.shape[0]", "s[:2][-1]"),
        ("return s[2] * 2 if s.size(0) > 2 else s[1] * 2", "s.size(0) > 2", "s[1 : 3][-1] * 2"),
        ("return s[2, None] if s.numel() > 2 else s[-1, None]", "s.numel() > 2", "s[:3][-1, None]"),
        (
            block("""
                if len(s) > 1:  # two
                    y = s[1].exp()
                else:
                    y = s[0].exp()
                return y"""),
            "len(s) > 1",
            block("""
                # two
                y = s[:2][-1].exp()
                return y"""),
        ),
        (
            block("""
                if len(s) > 1:
                    k = 1
                else:
                    k = 0
                return s[k]"""),
            "len(s) > 1",
            "s[:2][-1]",
        ),
        (
            block("""
                if len(x) > 9:
                    y = x[9]
                # the second
                elif len(s) > 1:
                    y = s[1]
                else:
                    y = s[0]
                return y"""),
            "len(s) > 1",
            block("""
                if len(x) > 9:
                    y = x[9]
                # the second
                else:
                    y = s[:2][-1]
                return y"""),
        ),
        (
            "\n# the second one\nk = 1 if len(s) > 1 else 0\n\ny = x + 1\nreturn y * s[k]",
            "len(s) > 1",
            "\n# the second one\ny = x + 1\nreturn y * s[:2][-1]",
        ),
    ],
)
def test_edited(before, test, after):
    after = after if "return" in after else f"return {after}"
    text = _offer(before, test)
    assert text == _function(after)
    old, new = imported(_function(before)).f, imported(text).f
    for x in (X, ONE, TWO, ONE * 0, torch.arange(10.0)):
        runs = []
        for function in (old, new):
            leaf = x.clone().requires_grad_()
            try:
                y = function(leaf)
                y.sum().backward()
            except IndexError:
                runs.append(None)
            else:
                runs.append((y, leaf.grad))
        torch.testing.assert_close(runs[1], runs[0])


SCHEDULE = """import torch


def find(schedule, t):
    indices = (schedule == t).nonzero()

    # the second one of several
    pos = 1 if len(indices) > 1 else 0

    return indices[pos].item()


def f(schedule, t, x):
    return x * schedule[find(schedule, t)]
"""
AFTER = SCHEDULE.replace("    pos = 1 if len(indices) > 1 else 0\n\n", "").replace("pos", ":2][-1")


@pytest.mark.compiles
def test_the_search_of_a_scheduler_is_one_graph():
    steps = torch.tensor([9, 7, 7, 3])
    fixes = fix(imported(SCHEDULE).f, (steps, torch.tensor(7), torch.ones(2)))
    assert [*fixes.changed_texts(unsafe=False).values()] == [AFTER]
    assert fixes.whole is not None
    assert fixes.whole.check.ok
    found = torch.compile(imported(AFTER).f, fullgraph=True, backend="eager")
    for t in (9, 7, 3):
        args = steps, torch.tensor(t), torch.ones(2)
        assert found(*args).equal(imported(SCHEDULE).f(*args))


def test_a_search_by_argmax_is_not_offered_in_its_place():
    args = torch.tensor([9, 7, 7, 3]), torch.tensor(7), torch.ones(2)
    search = "(schedule == t).nonzero()"
    text, _, refusals = offered(SCHEDULE, search, "nonzero", *args, rule="FG407")
    assert not text
    assert refusals == ["the last element of a slice is the one that its length chooses"]


def test_a_guard_of_the_graph_goes():
    before = _function(
        block("""
            k = 1 if len(s) > 1 else 0
            return x.exp() * s[k]""")
    )
    outcome = rewritten(before, X)
    assert "FG308" in outcome.rules
    assert outcome.after.fullgraph.ok


@pytest.mark.compiles
def test_the_edit_stays_where_the_program_breaks_elsewhere_too():
    rest = "y = x * schedule[find(schedule, t)]\n    torch._dynamo.graph_break()\n    return y"
    program = SCHEDULE.replace("return x * schedule[find(schedule, t)]", rest)
    args = torch.tensor([9, 7, 7, 3]), torch.tensor(7), torch.ones(2)
    fixes = fix(imported(program).f, args, select=["FG308"])
    assert [one.rule for one in fixes.suggestions if one.accepted] == ["FG308"]
    assert not fixes.after.fullgraph.ok


@pytest.mark.parametrize(
    ("parameters", "assumes"),
    [
        ("x, s", ("`s` is a tensor in each call",)),
        ("x, s=None", ("`s` is a tensor in each call",)),
        ("x, s: torch.Tensor", ()),
        ("x, s: 'Tensor | None' = None", ()),
    ],
)
def test_an_argument_that_nothing_calls_a_tensor_is_assumed_to_be_one(parameters, assumes):
    source = f"import torch\n\n\ndef f({parameters}):\n    return s[1] if len(s) > 1 else s[0]\n"
    _, (edit, *_), _ = offered(source, "len(s) > 1", "data-dependent guard", X, X, rule="FG308")
    assert edit.assumes == assumes
