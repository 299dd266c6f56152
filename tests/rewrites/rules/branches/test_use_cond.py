import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

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


LAYERS = block("""
    self.a = torch.nn.Linear(4, 4)
    self.b = torch.nn.Linear(4, 4)""")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            block("""
                if x.sum() > 0:
                    print('up')
                return x"""),
            "nothing that it assigns is used later",
        ),
        (
            block("""
                if x.sum() > 0:
                    y = print(x)
                else:
                    y = x
                return y"""),
            "is no tensor",
        ),
        (
            block("""
                if x.sum() > 0:
                    y = x * 2
                else:
                    y = x.sum()
                return y"""),
            "shape",
        ),
        (
            block("""
                s = 1.0 if x.sum() > 0 else 2.0
                return x * s"""),
            "`1.0` is no tensor",
        ),
        (
            block("""
                if x.sum() > 0:
                    y = 'up'
                else:
                    y = 'down'
                return x, y"""),
            "is no tensor",
        ),
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
        block("""
            if x.mean() > 0:
                x = self.drop(self.a(x))
            return x"""),
    )
    outcome = rewritten(source, X)
    assert not outcome.rules
    assert any("the gradient would be that of other random numbers" in r for r in outcome.refusals)


def test_running_statistics_are_a_change():
    source = _model(
        "self.norm = torch.nn.BatchNorm1d(4)",
        block("""
            if x.mean() > 0:
                x = self.norm(x)
            return x"""),
    )
    outcome = rewritten(source, X.expand(3, 4))
    assert not outcome.rules
    assert any("running statistics" in reason for reason in outcome.refusals)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                # noise
                if  x.sum() > 0 :
                    x = torch.rand(4)  # new
                return x"""),
            block("""
                # noise
                # new
                x = _cond(x.sum() > 0, lambda: torch.rand(4), lambda: x.clone())
                return x"""),
        ),
        (
            "return torch.rand(4) if x.sum() > 0 else x",
            "return _cond(x.sum() > 0, lambda: torch.rand(4), lambda: x.clone())",
        ),
        (
            block("""
                if x.sum()>0:
                    return torch.rand(4)
                return x * 2"""),
            "return _cond(x.sum()>0, lambda: torch.rand(4), lambda: x * 2)",
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(_function(before), X)
    assert outcome.source == _function(after, HEAD + COND)
    assert outcome.rules == ["FG302"]
    outcome.check((-X,), exact=True)


def test_unsafe_where_one_side_alone_says_its_dtype():
    outcome = rewritten(_function("return x.float() if x.sum() > 0 else torch.rand(4) * x"), X)
    assert outcome.rules == ["FG302"] and outcome.applicability == [Applicability.UNSAFE]
    assert "`x.float()` and `torch.rand(4) * x` have the same dtype" in outcome.assumes


def test_branches_of_several_statements_become_functions():
    body = block("""
        if torch.isinf(x).any():
            scale = x.abs().log()
            x = x / scale  # stay finite
        return x""")
    outcome = rewritten(_function(body), _leaf(X))
    new = block("""
        def if_true(x):
            scale = x.abs().log()
            x = x / scale  # stay finite
            return x

        def if_false(x):
            return x.clone()

        x = _cond(torch.isinf(x).any(), if_true, if_false, (x,))
        return x""")
    assert outcome.source == _function(new, HEAD + COND).replace("\n    \n", "\n\n")
    outcome.check((_leaf(X / 0),))


def test_the_function_is_defined_once():
    body = block("""
        y = torch.rand(4) if x.sum() > 0 else x
        return torch.rand(4) if y.sum() > 9 else x + y""")
    outcome = rewritten(_function(body), X)
    assert outcome.rules == ["FG302", "FG302"]
    assert outcome.source.count("def _cond(") == 1
    assert outcome.source.count(" _cond(") == 3
    outcome.check((-X,), exact=True)


def test_what_two_names_share_is_computed_once():
    source = _model(
        LAYERS,
        block("""
            if x.sum() > 0:
                y = z = self.a(x)
            else:
                y, z = x, x + 1
            return y + z"""),
    )
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG302"]
    assert outcome.source.count("self.a(x)") == 1
    outcome.check((-X,), zero_is_none=True)


def test_unsafe_where_one_way_uses_what_learns():
    source = _model(
        LAYERS,
        block("""
            if x.mean() > 0:
                h = self.a(x)
                y = h.log().sum() + h * h
            else:
                y = self.b(x)
            return y"""),
    )
    _, rewrites, _ = offered(source, "x.mean() > 0", "data-dependent branch", X)
    (cond,) = [one for one in rewrites if "torch.cond`" in one.why]
    assert cond.applicability is Applicability.UNSAFE
    assert "`self.a` may get a gradient of zero where it got none" in cond.assumes


OWN = "clone(memory_format=torch.contiguous_format)"


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("body", "results"),
    [
        ("return x.t() if x.sum() > 0 else x + 1", f"lambda: x.t().{OWN}"),
        (
            block("""
                if x.sum() > 0:
                    y = x.swapaxes(0, 1) + 1
                else:
                    y = x + 1
                return y.exp()"""),
            "lambda: (x.swapaxes(0, 1) + 1).contiguous()",
        ),
        (
            block("""
                t = x.transpose(0, 1) * 2
                if x.sum() > 0:
                    return t[1:]
                return x[1:] * 2"""),
            f"lambda: t[1:].{OWN}",
        ),
        (
            block("""
                if x.sum() > 0:
                    z = x @ x
                    y = z.permute(1, 0)
                else:
                    z = x.relu()
                    y = z * x
                return y"""),
            f"return y.{OWN}",
        ),
        (
            block("""
                y = torch.linalg.inv(x) if x.sum() > 0 else x * 2
                return y"""),
            "lambda: torch.linalg.inv(x).contiguous(), lambda: x * 2",
        ),
        (
            block("""
                y = x.t() + 1 if x.sum() > 0 else x.t()
                return y"""),
            "lambda: x.t() + 1, lambda: x.t().clone()",
        ),
        (
            block("""
                y = x.t()[0] if x.sum() > 0 else x[0] + 1
                return y"""),
            "lambda: x.t()[0].clone(), lambda: x[0] + 1",
        ),
        (
            block("""
                y = x.t() @ x if x.sum() > 0 else x * 2
                return y"""),
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


@pytest.mark.compiles
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
