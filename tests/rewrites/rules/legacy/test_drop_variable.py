import pytest
import torch

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = block("""
    import torch
    from torch.autograd import Variable


""")
CATEGORY = "legacy Variable"
X = torch.randn(4, requires_grad=True)


@pytest.mark.parametrize(
    "expression",
    ["Variable(x, requires_grad=True)", "Variable(x, volatile=True)", "Variable(*[x])"],
)
def test_left_alone(expression):
    text, _, refusals = offered(f"{HEAD}def f(x):\n    return {expression}\n", expression, CATEGORY)
    assert not text and refusals


def test_another_function_of_that_name_is_not_its_business():
    source = block("""
        def Variable(x):
            return x


        def f(x):
            return Variable(x)
    """)
    assert offered(source, "Variable(x)\n".strip(), CATEGORY, X)[1:] == ([], [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x * Variable(torch.ones(4))  # ones", "x * torch.ones(4)  # ones"),
        ("x * Variable( torch.ones(4) , requires_grad = False )", "x * torch.ones(4)"),
        ("x * Variable(torch.ones(4) + 1)", "x * (torch.ones(4) + 1)"),
        ("Variable(x + x, requires_grad=False) * x", "(x + x).detach() * x"),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    return {before}\n", X)
    assert outcome.source == f"{HEAD}def f(x):\n    return {after}\n"
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)


def test_where_nothing_is_known_the_tensor_is_detached():
    source = f"{HEAD}def f(x):\n    return Variable(x, requires_grad=False)\n"
    text, (rewrite,), _ = offered(source, "Variable(x, requires_grad=False)", CATEGORY)
    assert text == source.replace("Variable(x, requires_grad=False)", "x.detach()")
    assert rewrite.applicability is Applicability.SAFE


@pytest.mark.compiles
def test_what_may_ask_for_a_gradient_another_time_is_detached():
    source = (
        f"{HEAD}def wrapped(x):\n    return Variable(x)\n\n\n"
        "def f(x):\n    return x * wrapped((x > 0).float())\n"
    )
    fixes = fix(imported(source).f, X, inductor=False)
    assert fixes.after.default.ok, fixes
    assert "return x.detach()" in fixes.diff()


@pytest.mark.compiles
def test_a_tensor_made_of_a_size_by_an_old_class_is_made_by_empty():
    source = f"{HEAD}def f(x):\n    e = torch.FloatTensor(x.size()).fill_(2.0)\n"
    fixes = fix(imported(f"{source}    return x * Variable(e)\n").f, X, inductor=False)
    assert fixes.after.default.ok, fixes
    assert 'torch.full(x.size(), 2.0, dtype=torch.float32, device="cpu")' in fixes.diff()


def test_inside_the_wrapper_too():
    source = f"{HEAD}def f(x):\n    return x * Variable(torch.FloatTensor(x.size()).fill_(2.0))\n"
    outcome = rewritten(source, X)
    made = 'torch.full(x.size(), 2.0, dtype=torch.float32, device="cpu")'
    assert f"return x * {made}" in outcome.source
    outcome.check(exact=True)


def test_an_old_class_in_an_attribute_may_be_another_one():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    kind = torch.FloatTensor\n\n"
        "    def forward(self, x):\n"
        "        return x * Variable(self.kind(x.size()).zero_())\n"
    )
    outcome = rewritten(source, X)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert outcome.assumes == ["`self.kind` is always `torch.FloatTensor`"]
    outcome.check(exact=True)


def test_an_old_class_on_values_stays():
    source = f"{HEAD}def f(x):\n    return x * Variable(torch.FloatTensor([1, 2, 3, 4]))\n"
    assert "torch.FloatTensor([1, 2, 3, 4])" in rewritten(source, X).source


@pytest.mark.parametrize(
    "made",
    ["torch.zeros(4)", "x.data.new(4).fill_(2)", "(x > 0).float()", "torch.ones_like(x) * 3"],
)
def test_a_line_that_wraps_a_constant_goes(made):
    line = "    m = Variable(m)\n"
    body = f"    m = {made}\n{line}    m[0] = 1\n    return x * m\n"
    source = f"{HEAD}def f(x):\n{body}"
    outcome = rewritten(source, X)
    assert outcome.source == source.replace(line, "")
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check()


def test_a_target_that_is_filled_is_not_detached():
    source = (
        f"{HEAD}def f(x, target):\n"
        "    smooth = x.data.clone()\n    smooth.fill_(0.1 / 2)\n"
        "    smooth.scatter_(0, target.data, 0.9)\n    smooth[0] = 0\n"
        "    smooth.index_fill_(0, target.data, 0.5)\n"
        "    return x * Variable(smooth, requires_grad=False)\n"
    )
    x = torch.randn(4, requires_grad=True)
    outcome = rewritten(source, x, torch.tensor([1]))
    assert outcome.source.endswith("    return x * smooth\n")
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check()


@pytest.mark.parametrize("change", ["m[0] = x[0]", "m.requires_grad_()", "m += x"])
def test_a_constant_that_learned_is_detached(change):
    body = f"    m = torch.zeros(4)\n    {change}\n    n = Variable(m)\n    return x * n\n"
    source = f"{HEAD}def f(x):\n{body}"
    text, _, _ = offered(source, "Variable(m)", CATEGORY, X)
    assert "n = m.detach()" in text


def test_what_stands_beside_it_on_the_line_stays():
    body = "    m = torch.ones(4)\n    m = Variable(m); n = 2\n    return x * m * n\n"
    source = f"{HEAD}def f(x):\n{body}"
    outcome = rewritten(source, X)
    assert "n = 2" in outcome.source
    outcome.check()
