import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import random

    import numpy as np
    import torch


""")
DTYPE = "`x` is of a floating dtype on all inputs, for the number is a float64 tensor"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


def _function(body, *names):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"def f({', '.join(names or ('x',))}):\n{lines}"


@pytest.mark.parametrize(
    ("body", "call", "reason"),
    [
        ("return x.repeat(np.random.randint(1, 3))", "np.random.randint(1, 3)", "cannot stand"),
        ("return x, np.random.rand()", "np.random.rand()", "cannot stand"),
        (
            block("""
                n = {0: x}
                return n[random.choice([0])]"""),
            "random.choice([0])",
            "cannot stand",
        ),
        ("return x.long() * random.gauss(0, 1)", "random.gauss(0, 1)", "not of a floating dtype"),
        (
            block("""
                a = random.uniform(0, 1)
                return x * random.gauss(0, 1) + a"""),
            "random.gauss(0, 1)",
            "drawn first",
        ),
        (
            "return x * random.gauss(*x.shape[:1], 1)",
            "random.gauss(*x.shape[:1], 1)",
            "spelled out",
        ),
        ("return x * np.random.rand(4)", "np.random.rand(4)", ""),
    ],
)
def test_left_alone(body, call, reason):
    text, _, refusals = offered(f"{HEAD}{_function(body)}", call, "random number", X)
    assert "custom_op" not in text
    assert any(reason in one for one in refusals) or not reason, refusals


@pytest.mark.parametrize(
    ("before", "operator", "after"),
    [
        (
            "return x + random.gauss( 0.0, 1.0 )  # jitter",
            block("""
                def _draw_gauss() -> torch.Tensor:
                    return torch.tensor(random.gauss( 0.0, 1.0 ), dtype=torch.float64)
            """),
            "return x + _draw_gauss()  # jitter",
        ),
        (
            block("""
                # flip
                if  np.random.rand() < 0.5 :
                    x = x.flip(0)
                return x"""),
            block("""
                def _draw_uniform() -> torch.Tensor:
                    return torch.tensor(np.random.rand(), dtype=torch.float64)
            """),
            block("""
                # flip
                x = torch.where(_draw_uniform() < 0.5, x.flip(0), x)
                return x"""),
        ),
        (
            block("""
                a = 0.4
                lam = np.random.beta(a, a) if a > 0 else 1
                return lam * x + (1 - lam)*x.flip(0)  # mixed"""),
            block("""
                def _draw_lam(a: float) -> torch.Tensor:
                    return torch.tensor(np.random.beta(a, a), dtype=torch.float64)
            """),
            block("""
                a = 0.4
                lam = _draw_lam(a) if a > 0 else 1
                return lam * x + (1 - lam)*x.flip(0)  # mixed"""),
        ),
        (
            "return x * random.choice([0.5, 1.0, 2.0])",
            block("""
                def _draw_choice() -> torch.Tensor:
                    return torch.tensor(random.choice([0.5, 1.0, 2.0]), dtype=torch.float64)
            """),
            "return x * _draw_choice()",
        ),
        (
            "return x * (0.9 + 0.2 * random.random())",
            block("""
                def _draw_uniform() -> torch.Tensor:
                    return torch.tensor(random.random(), dtype=torch.float64)
            """),
            "return x * (0.9 + 0.2 * _draw_uniform())",
        ),
        (
            block("""
                if random.uniform(0, 1) < 0.5:
                    x = x + 1
                return x"""),
            block("""
                def _draw_uniform() -> torch.Tensor:
                    return torch.tensor(random.uniform(0, 1), dtype=torch.float64)
            """),
            block("""
                x = torch.where(_draw_uniform() < 0.5, x + 1, x)
                return x"""),
        ),
    ],
)
def test_fixed(before, operator, after):
    outcome = rewritten(f"{HEAD}{_function(before)}", X.clone().requires_grad_())
    name = operator[4:].partition("(")[0]
    assert outcome.source.startswith(f'{HEAD}@torch.library.custom_op("rewritten_')
    assert f'::{name[1:]}", mutates_args=())\n{operator}\n\n{name}.register_fake(' in outcome.source
    assert f"  # torch 2.10\n    {name}.register_effect(" in outcome.source
    assert outcome.source.endswith(f"\n\n\n{_function(after)}")
    assert outcome.rules == ["FG702"]
    is_safe = outcome.applicability == [Applicability.SAFE]
    assert is_safe if "where" in after else outcome.assumes == [DTYPE]
    outcome.check(exact=True)


def test_two_draws_keep_their_order():
    body = block("""
        x = x * np.random.uniform(0.8, 1.2)
        return x + np.random.normal()""")
    outcome = rewritten(f"{HEAD}{_function(body)}", X)
    assert "x = x * _draw_uniform()\n    return x + _draw_normal()" in outcome.source
    outcome.check(exact=True)


def test_draws_of_one_name_are_numbered():
    body = block("""
        a = x.exp() * np.random.rand()
        return a + random.random()""")
    outcome = rewritten(f"{HEAD}{_function(body)}", X)
    assert "a = x.exp() * _draw_uniform()\n    return a + _draw_uniform_2()" in outcome.source
    assert set(outcome.applicability) == {Applicability.SAFE}
    outcome.check(exact=True)


def test_unsafe_where_a_gradient_of_zero_takes_the_place_of_none():
    w = torch.ones(4, requires_grad=True)
    body = block("""
        if np.random.rand() < 2:
            x = x * w
        return x""")
    outcome = rewritten(f"{HEAD}{_function(body, 'x', 'w')}", X, w)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert "`w` may get a gradient of zero where it got none" in outcome.assumes
    outcome.check()


LOSSES = block("""
    lam = np.random.beta(2, 2)
    return lam*x.mean() + (1 - lam) * x.norm(), x.mean() < lam""")


def test_what_has_no_dimensions_meets_a_number_of_its_dtype():
    outcome = rewritten(f"{HEAD}{_function(LOSSES)}", X.clone().requires_grad_())
    assert "(np.random.beta(2, 2), dtype=torch.float32)\n" in outcome.source
    assert "torch.empty((), dtype=torch.float32)" in outcome.source
    assert "return lam*x.mean() + (1 - lam) * x.norm(), x.mean() < lam\n" in outcome.source
    assert outcome.assumes == ["`x.mean()`, `x.norm()`: of float32 on all inputs, as the number is"]
    outcome.check()


def test_the_losses_of_a_mixed_batch_stay_as_they_are():
    head = HEAD.replace(
        "import torch\n",
        block("""
            import torch
            import torch.nn.functional as F
        """),
    )
    body = block("""
        lam = np.random.beta(0.4, 0.4)
        out = (lam * x + (1 - lam) * x.flip(0)) @ w
        return lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y.flip(0))""")
    labels, weight = torch.tensor([0, 1, 2, 0]), torch.randn(3, 3, requires_grad=True)
    outcome = rewritten(
        f"{head}{_function(body, 'x', 'y', 'w')}", torch.randn(4, 3), labels, weight
    )
    after = body.replace("np.random.beta(0.4, 0.4)", "_draw_lam()")
    assert outcome.source.endswith(_function(after, "x", "y", "w"))
    outcome.check()


@pytest.mark.parametrize("x", [X.half(), X.double()])
def test_what_has_no_dimensions_keeps_its_dtype(x):
    outcome = rewritten(f"{HEAD}{_function(LOSSES)}", x.clone().requires_grad_())
    half = "(lam*x.mean()[None]).squeeze(0) + ((1 - lam) * x.norm()[None]).squeeze(0), (x"
    assert (half if x.dtype is torch.half else "return lam*x.mean() + ") in outcome.source
    assert ", dtype=torch.float64)\n" in outcome.source
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check()


def test_a_draw_in_a_lambda():
    body = block("""
        scale = lambda y: y + random.gauss(0.0, 1.0)
        return scale(x)""")
    outcome = rewritten(f"{HEAD}{_function(body)}", X)
    assert "scale = lambda y: y + _draw_gauss()\n" in outcome.source, outcome.refusals
    outcome.check()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                i = np.random.randint(0, x.shape[1] - 3)
                return x[:, i:i + 4]"""),
            block("""
                i = _draw_i(x.shape[1])
                return x[:, i + torch.arange(4, device=x.device)]"""),
        ),
        (
            block("""
                i = random.randint(0, 12)
                return x[:, i:i + 4]"""),
            block("""
                i = _draw_i()
                return x[:, i + torch.arange(4, device=x.device)]"""),
        ),
        (
            block("""
                i = int(random.random() * 12)
                return x[:, i] * 2"""),
            block("""
                i = _draw_i()
                return x[:, i[None]].squeeze(1) * 2"""),
        ),
        (
            block("""
                x = x.clone()
                t = np.random.randint(1, 4)
                start = random.randint(0, x.shape[1] - t)
                x[:, start : start + t] = x.mean()
                return x"""),
            block("""
                x = x.clone()
                t = _draw_t()
                start = _draw_start(x.shape[1], t)
                positions = torch.arange(x.shape[1], device=x.device)
                inside = (positions >= start) & (positions < start + t)
                x.masked_fill_(inside, x.mean())
                return x"""),
        ),
    ],
)
def test_a_number_that_is_an_index_or_a_bound(before, after):
    outcome = rewritten(f"{HEAD}{_function(before)}", torch.randn(2, 16))
    assert outcome.source.endswith(f"\n\n\n{_function(after)}"), outcome.refusals
    assert outcome.rules == ["FG702"]
    outcome.check(exact=True)


def test_a_draw_takes_the_number_that_another_drew():
    body = block("""
        x = x.clone()
        t = int(np.random.uniform(0, 5))
        start = random.randint(0, 16 - t)
        x[:, start : start + t] = 0
        return x""")
    outcome = rewritten(f"{HEAD}{_function(body)}", torch.randn(2, 16))
    assert "    return torch.tensor(int(np.random.uniform(0, 5)), " in outcome.source
    assert "def _draw_start(t: torch.Tensor) -> torch.Tensor:\n" in outcome.source
    assert "    return torch.tensor(random.randint(0, 16 - int(t)), " in outcome.source
    outcome.check(exact=True)


@pytest.mark.parametrize(
    "test",
    [
        block("""
            if not training or p > 0.5:
                    x = x * 2"""),
        "if training and p < 0.5:\n        continue\n    x = x * 2",
        "skips = True if training and p < 0.5 else False\n    if not skips:\n        x = x * 2",
    ],
)
def test_a_branch_that_a_flag_decides_stays(test):
    body = f"for _ in range(2):\n    p = np.random.random()\n    {test}\nreturn x"
    outcome = rewritten(f"{HEAD}{_function(body, 'x', 'training')}", X, False)
    after = body.replace("np.random.random()", "_draw_p()")
    assert outcome.source.endswith(_function(after, "x", "training"))
    assert outcome.rules == ["FG702"] and outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)
