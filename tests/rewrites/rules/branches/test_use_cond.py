import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten

pytestmark = pytest.mark.compiles

HEAD = "import torch\n\n\n"
COND = """\
def _cond(condition, if_true, if_false, operands=()):
    \"\"\"Call torch.cond in compiled code; in eager code, one of the two functions.\"\"\"
    if torch.compiler.is_compiling():
        return torch.cond(condition, if_true, if_false, operands)
    return if_true(*operands) if condition else if_false(*operands)


"""
X = torch.tensor([0.9, -0.2, 0.7, 0.1])
BACKEND = "aot_eager"


def _leaf(x):
    return x.clone().requires_grad_()


def _function(body, head=HEAD):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{head}def f(x):\n{lines}"


def _model(init, forward):
    made = "".join(f"        {line}\n" for line in init.split("\n"))
    lines = "".join(f"        {line}\n" for line in forward.split("\n"))
    return (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n{made}\n    def forward(self, x):\n{lines}"
    )


LAYERS = "self.a = torch.nn.Linear(4, 4)\nself.b = torch.nn.Linear(4, 4)"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("if x.sum() > 0:\n    print('up')\nreturn x", "nothing that it assigns is used later"),
        ("if x.sum() > 0:\n    y = print(x)\nelse:\n    y = x\nreturn y", "is no tensor"),
        ("if x.sum() > 0:\n    y = x * 2\nelse:\n    y = x.sum()\nreturn y", "shape"),
        ("s = 1.0 if x.sum() > 0 else 2.0\nreturn x * s", "`1.0` is no tensor"),
        ("if x.sum() > 0:\n    y = 'up'\nelse:\n    y = 'down'\nreturn x, y", "is no tensor"),
    ],
)
def test_left_alone(body, reason):
    source = _function(body)
    _, rewrites, refusals = offered(source, "x.sum() > 0", "data-dependent branch", X)
    assert not [one for one in rewrites if "torch.cond`" in one.why]
    assert any(reason in one for one in refusals)


def test_a_gradient_of_other_random_numbers():
    source = _model(
        f"{LAYERS}\nself.drop = torch.nn.Dropout(0.5)",
        "if x.mean() > 0:\n    x = self.drop(self.a(x))\nreturn x",
    )
    outcome = rewritten(source, X)
    assert not outcome.rules
    assert any("the gradient would be that of other random numbers" in r for r in outcome.refusals)


def test_running_statistics_are_a_change():
    source = _model(
        "self.norm = torch.nn.BatchNorm1d(4)",
        "if x.mean() > 0:\n    x = self.norm(x)\nreturn x",
    )
    outcome = rewritten(source, X.expand(3, 4))
    assert not outcome.rules
    assert any("running statistics" in reason for reason in outcome.refusals)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "# noise\nif  x.sum() > 0 :\n    x = torch.rand(4)  # new\nreturn x",
            "# noise\n# new\nx = _cond(x.sum() > 0, lambda: torch.rand(4), "
            "lambda: x.clone())\nreturn x",
        ),
        (
            "return torch.rand(4) if x.sum() > 0 else x",
            "return _cond(x.sum() > 0, lambda: torch.rand(4), lambda: x.clone())",
        ),
        (
            "if x.sum()>0:\n    return torch.rand(4)\nreturn x * 2",
            "return _cond(x.sum()>0, lambda: torch.rand(4), lambda: x * 2)",
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(_function(before), X)
    assert outcome.source == _function(after, HEAD + COND)
    assert outcome.rules == ["FG302"]
    outcome.check((-X,), exact=True)


def test_branches_of_several_statements_become_functions():
    body = (
        "if torch.isinf(x).any():\n"
        "    scale = x.abs().log()\n"
        "    x = x / scale  # stay finite\n"
        "return x"
    )
    outcome = rewritten(_function(body), _leaf(X))
    new = (
        "def if_true(x):\n    scale = x.abs().log()\n"
        "    x = x / scale  # stay finite\n    return x\n\n"
        "def if_false(x):\n    return x.clone()\n\n"
        "x = _cond(torch.isinf(x).any(), if_true, if_false, (x,))\n"
        "return x"
    )
    assert outcome.source == _function(new, HEAD + COND).replace("\n    \n", "\n\n")
    outcome.check((_leaf(X / 0),))


def test_the_function_is_defined_once():
    body = "y = torch.rand(4) if x.sum() > 0 else x\nreturn torch.rand(4) if y.sum() > 9 else x + y"
    outcome = rewritten(_function(body), X)
    assert outcome.rules == ["FG302", "FG302"]
    assert outcome.source.count("def _cond(") == 1
    assert outcome.source.count(" _cond(") == 3
    outcome.check((-X,), exact=True)


def test_what_two_names_share_is_computed_once():
    source = _model(
        LAYERS, "if x.sum() > 0:\n    y = z = self.a(x)\nelse:\n    y, z = x, x + 1\nreturn y + z"
    )
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG302"]
    assert outcome.source.count("self.a(x)") == 1
    outcome.check((-X,), zero_is_none=True)


def test_unsafe_where_one_way_uses_what_learns():
    source = _model(
        LAYERS,
        "if x.mean() > 0:\n    h = self.a(x)\n    y = h.log().sum() + h * h\n"
        "else:\n    y = self.b(x)\nreturn y",
    )
    _, rewrites, _ = offered(source, "x.mean() > 0", "data-dependent branch", X)
    (cond,) = [one for one in rewrites if "torch.cond`" in one.why]
    assert cond.applicability is Applicability.UNSAFE
    assert "`self.a` may get a gradient of zero where it got none" in cond.assumes


OWN = "clone(memory_format=torch.contiguous_format)"


@pytest.mark.parametrize(
    ("body", "results"),
    [
        ("return x.t() if x.sum() > 0 else x + 1", f"lambda: x.t().{OWN}"),
        (
            "if x.sum() > 0:\n    y = x.swapaxes(0, 1) + 1\nelse:\n    y = x + 1\nreturn y.exp()",
            "lambda: (x.swapaxes(0, 1) + 1).contiguous()",
        ),
        (
            "t = x.transpose(0, 1) * 2\nif x.sum() > 0:\n    return t[1:]\nreturn x[1:] * 2",
            f"lambda: t[1:].{OWN}",
        ),
        (
            "if x.sum() > 0:\n    z = x @ x\n    y = z.permute(1, 0)\n"
            "else:\n    z = x.relu()\n    y = z * x\nreturn y",
            f"return y.{OWN}",
        ),
        (
            "y = torch.linalg.inv(x) if x.sum() > 0 else x * 2\nreturn y",
            "lambda: torch.linalg.inv(x).contiguous(), lambda: x * 2",
        ),
        (
            "y = x.t() + 1 if x.sum() > 0 else x.t()\nreturn y",
            "lambda: x.t() + 1, lambda: x.t().clone()",
        ),
        (
            "y = x.t()[0] if x.sum() > 0 else x[0] + 1\nreturn y",
            "lambda: x.t()[0].clone(), lambda: x[0] + 1",
        ),
        (
            "y = x.t() @ x if x.sum() > 0 else x * 2\nreturn y",
            "lambda: x.t() @ x, lambda: x * 2",
        ),
    ],
)
def test_both_results_have_the_same_order_of_strides(body, results):
    x = torch.eye(4) * 3 + torch.arange(16.0).view(4, 4) / 9
    source, test = _function(body), "x.sum() > 0"
    text, (made,), _ = offered(source, test, "data-dependent branch", x, rule="FG302")
    flat = "".join(line.strip() for line in text.splitlines())
    assert results in flat
    assert made.applicability is Applicability.SAFE
    old, new = imported(source).f, torch.compile(imported(text).f, fullgraph=True, backend=BACKEND)
    for sign in (1, -1):
        torch.testing.assert_close(new(x * sign), old(x * sign))


@pytest.mark.parametrize(
    ("branches", "is_refused"),
    [
        (("x.t()", "x + 1"), True),
        (("(x + 1).mT @ x", "x * 2"), True),
        (("torch.linalg.inv(x)", "x * 2"), True),
        (("x.t() + 1", "x.t() * 2"), False),
        (("(x @ x).t()", "x * 2"), False),
        (("x.detach().t() * x.sum()", "x * 2"), True),
    ],
)
def test_gradients_have_the_same_order_of_strides_or_there_is_no_edit(branches, is_refused):
    x = torch.eye(4) * 3 + torch.arange(16.0).view(4, 4) / 9
    one, other = branches
    source = _function(f"return {one} if x.sum() > 0 else {other}")
    found = offered(source, "x.sum() > 0", "data-dependent branch", _leaf(x), rule="FG302")
    text, _, refusals = found
    assert is_refused is not bool(text)
    if is_refused:
        assert "transpose `x` differently" in refusals[0]
        return
    old, new = imported(source).f, torch.compile(imported(text).f, fullgraph=True, backend=BACKEND)
    for sign in (1, -1):
        runs = []
        for function in (old, new):
            leaf = _leaf(x * sign)
            y = function(leaf)
            y.square().sum().backward()
            runs.append((y, leaf.grad))
        torch.testing.assert_close(runs[1], runs[0])
