import pytest
import torch

from fullgraph import fix
from tests.rewrites.harness import imported
from tests.text import block

pytestmark = pytest.mark.compiles

SOURCE = """import torch


def total(seen, x):
    if x.sum().item() > 0:
        seen["sum"] = x.sum().item()
    {more}
    return seen


def f(x):
    seen = total({{}}, x * 2)
    return (x + 1).relu() * seen.get("sum", 1.0) * seen.get("first", 1.0)
"""
X = torch.tensor([1.0, 2.0])


def test_one_cause_is_left_alone():
    source = SOURCE.format(more="seen.update(first=1.0)").replace(
        "x.sum().item() > 0", "seen == {}"
    )
    source = source.replace("x.sum().item()", "len(str(x))")  # `fullgraph=True` captures no text
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG905"])
    assert not [made for made in fixes.suggestions if made.accepted]
    assert "only cause in `total`" in fixes.unfixed[0].reason


def test_a_cause_in_a_branch_that_is_not_taken_does_not_count():
    more = 'seen["first"] = 2.0'
    source = SOURCE.format(more=more).replace("x.sum().item() > 0", "x.norm() > 0")
    other = '    else:\n        seen["sum"] = float(str(x[0].tolist()))\n    seen["first"]'
    source = source.replace("x.sum().item()", "2.0").replace('    seen["first"]', other)
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG905"])
    assert not [made for made in fixes.suggestions if made.accepted]
    assert "it moves a break" in str(fixes.suggestions)


def test_a_scripted_helper_keeps_the_names_that_it_reads():
    more = 'seen["first"] = x[0].item() * math.pi if x[0] > 0 else 2.0'
    source = SOURCE.format(more=more).replace(
        "import torch",
        block("""
            import math

            import torch"""),
        1,
    )
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG905"])
    (made,) = fixes.suggestions
    clause = "nobody passes `total` to `torch.jit.script`, which would not find `math`"
    assert made.accepted and clause in made.assumes
    source += "\n\nSCRIPTED = torch.jit.is_scripting()\n"
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG905"])
    assert not fixes.suggestions
    assert "`total` hides `math` from `torch.jit.script`" in fixes.unfixed[0].reason


def test_a_configuration_without_a_break_keeps_its_graph():
    more = 'seen["first"] = x[0].item() if x[0] > 0 else 2.0'
    early = "    if x.sum().item() > 0"
    leave = "    if len(seen) > 3 or not x.requires_grad and seen:\n        return seen\n"
    source = SOURCE.format(more=more).replace(early, leave + early, 1)
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG905"])
    assert not fixes.suggestions
    reason = fixes.unfixed[0].reason
    assert "`total` leaves early under `len(seen) > 3 or not" in reason
    assert "move what follows to a function of its own, and disable that" in reason


@pytest.mark.parametrize(
    "leave",
    [
        "    if len(seen) > 3:\n        raise ValueError\n",
        "    if len(seen) > 3:\n        x = x + 1\n",
        "    if x.sum() < -99:\n        return seen\n",
    ],
)
def test_other_conditions_before_the_first_cause(leave):
    more = 'seen["first"] = x[0].item() if x[0] > 0 else 2.0'
    early = "    if x.sum().item() > 0"
    source = SOURCE.format(more=more).replace(early, leave + early, 1)
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG905"])
    assert [made.rule for made in fixes.suggestions if made.accepted] == ["FG905"], fixes


def test_several_causes_become_one_break():
    source = SOURCE.format(more='seen["first"] = x[0].item() if x[0] > 0 else 2.0')
    f = imported(source).f
    fixes = fix(f, (X,), inductor=False, select=["FG905"])
    assert [made.rule for made in fixes.suggestions if made.accepted] == ["FG905"], fixes
    assert not fixes.diff() and "+@torch.compiler.disable\n" in fixes.diff(unsafe=True)
    assert fixes.after_unsafe.default.graphs < fixes.before.default.graphs
    assert len(fixes.after_unsafe.causes) == 1
    assert torch.equal(fixes.patched(unsafe=True)(X), f(X))


def test_a_helper_with_most_operators_stays_in_the_graphs():
    steps = "y = x" + ".exp().sin()" * 12
    more = f'{steps}\n    seen["first"] = y[0].item() if x[0] > 0 else 2.0'
    source = SOURCE.format(more=more)
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG905"])
    assert not [made for made in fixes.suggestions if made.accepted]
    assert "three quarters of the operators" in str(fixes.suggestions)


def test_edits_inside_the_function_are_dropped():
    source = SOURCE.format(more='seen["first"] = x[0].item() if x[0] > 0 else 2.0')
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG201", "FG905"])
    tried = [(made.rule, made.accepted) for made in fixes.suggestions]
    assert ("FG201", False) in tried and ("FG905", True) in tried, fixes
    added = [line for line in fixes.diff(unsafe=True).splitlines() if line.startswith("+")]
    assert added[1:] == ["+@torch.compiler.disable"]


def test_edits_of_what_only_the_function_calls_are_dropped():
    source = SOURCE.format(more='seen["first"] = rate(x) if x[0] > 0 else 2.0').replace(
        "def total", "def rate(x):\n    return x.sum().sqrt().item()\n\n\ndef total"
    )
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG201", "FG905"])
    tried = [(made.rule, made.accepted) for made in fixes.suggestions]
    assert ("FG201", False) in tried and ("FG905", True) in tried, fixes
    added = [line for line in fixes.diff(unsafe=True).splitlines() if line.startswith("+")]
    assert added[1:] == ["+@torch.compiler.disable"]
    assert [one.reason for one in fixes.unfixed] == ["FG905 left it: `total` runs in eager"]


def test_another_function_in_eager_was_not_left_by_the_edit():
    source = SOURCE.format(more='seen["first"] = x[0].item() if x[0] > 0 else 2.0')
    helper = block("""
        @torch.compiler.disable
        def subtotal(x):
            return x.sum()


    """)
    source = source.replace("def total", f"{helper}def total", 1)
    source = source.replace("    seen = ", "    x = x + subtotal(x)\n    seen = ", 1)
    fixes = fix(imported(source).f, (X,), inductor=False, select=["FG905"])
    left = [one.cause for one in fixes.unfixed if "FG905 left it" in one.reason]
    assert left == ["total({}, x * 2)"] and len(fixes.unfixed) > 1, fixes.unfixed


def test_below_staticmethod_and_above_what_the_helper_has():
    body = SOURCE.format(more='seen["first"] = x[0].item() if x[0] > 0 else 2.0')
    method = "\n".join(f"    {line}" for line in body.split("\n")[3:9] if line)
    source = (
        "import torch\n\n\nclass Net(torch.nn.Module):\n    @staticmethod\n    @torch.no_grad()\n"
        f"{method}\n\n"
        "    def forward(self, x):\n        seen = self.total({}, x * 2)\n"
        '        return (x + 1).relu() * seen.get("sum", 1.0)\n'
    )
    net = imported(source).Net()
    fixes = fix(net, (X,), inductor=False, select=["FG905"])
    assert [made.rule for made in fixes.suggestions if made.accepted] == ["FG905"], fixes
    lines = "     @staticmethod\n+    @torch.compiler.disable\n     @torch.no_grad()\n"
    assert lines in fixes.diff(unsafe=True)
    copy = fixes.patched(unsafe=True)
    assert torch.equal(copy(X), net(X))
    assert hasattr(type(copy).total, "_torchdynamo_disable")
    assert not hasattr(type(net).total, "_torchdynamo_disable")
