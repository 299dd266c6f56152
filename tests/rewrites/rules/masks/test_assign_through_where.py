import pytest
import torch
from torch.testing import assert_close

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten, rewritten_together
from tests.text import block

HEAD = "import torch\n\n\n"
CATEGORY = "masked assignment"
torch.manual_seed(0)
X = torch.randn(6, 4, requires_grad=True)
Y = torch.randn(6, 4, requires_grad=True)
ROWS = torch.tensor([True, False, True, True, False, True])
MASK = torch.rand(6, 4) > 0.4


def _function(body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}def f(x, y, m):\n{lines}"


@pytest.mark.parametrize(
    ("body", "read", "reason"),
    [
        (
            block("""
                x = x + 1
                x[m] = y[~m][: m.sum()]
                return x"""),
            "y[~m]",
            "needs the selected elements",
        ),
        (
            block("""
                x = x + 1
                x[m] = torch.rand_like(y[m])
                return x"""),
            "y[m]",
            "torch.rand_like(y[m])",
        ),
        (
            block("""
                x = x + 1
                x[y > 0] = y[m][: 3]
                return x"""),
            "y[m]",
            "needs the selected elements",
        ),
        (
            block("""
                x = x + 1
                x[~m] = y[m]
                return x"""),
            "y[m]",
            "`x[~m]` is selected by another mask",
        ),
        (
            block("""
                x = x + 1
                x[m] = y[m].sort().values
                return x"""),
            "y[m]",
            "needs the selected elements",
        ),
    ],
)
def test_left_alone(body, read, reason):
    text, _, refusals = offered(_function(body), read, CATEGORY, X, Y, MASK)
    assert not text
    assert reason in " ".join(refusals)


FIXED = [
    (
        MASK,
        block("""
            x = x * 1
            x[x > .5] = pow(x[x > .5], .1) * 2  # gamma
            return x"""),
        block("""
            x = x * 1
            mask = x > .5
            x = torch.where(mask, torch.pow(torch.where(mask, x, 1), .1) * 2, x)  # gamma
            return x"""),
    ),
    (
        ROWS,
        block("""
            z = x.clone()
            z[m]  =  y[m] * 2
            return z"""),
        block("""
            z = torch.where(m[..., None], y * 2, x)
            return z"""),
    ),
    (
        MASK,
        block("""
            z = torch.zeros_like(x)
            z[m] = (x[m] - y[m]) * (x[m] + 1)
            return z"""),
        block("""
            z = torch.where(m, torch.where(m, x - y, 0) * torch.where(m, x + 1, 0), 0)
            return z"""),
    ),
    (
        MASK,
        block("""
            z = x + y
            z[m] += 1
            return z"""),
        block("""
            z = x + y
            z = torch.where(m, z + 1, z)
            return z"""),
    ),
    (
        MASK,
        block("""
            z = x + y
            z[m] *= y[m]
            return z"""),
        block("""
            z = x + y
            z *= torch.where(m, y, 1)
            return z"""),
    ),
    (
        ROWS,
        block("""
            z = x + y
            z[m, 0] = y[m, 1].exp()
            return z"""),
        block("""
            z = x + y
            z[:, 0] = torch.where(m, torch.where(m, y[:, 1], 0).exp(), z[:, 0])
            return z"""),
    ),
    (
        MASK,
        block("""
            low = x[m] / 12.92
            high = torch.add(y[~m].abs(), 0.055).mul_(2).pow_(2.4)
            z = torch.empty_like(x)
            z[m] = low
            z[~m] = high
            return z"""),
        block("""
            low = x / 12.92
            high = torch.where(~m, torch.add(y.abs(), 0.055), 0).mul_(2).pow_(2.4)
            z = torch.where(m, low, high)
            return z"""),
    ),
    (
        MASK,
        block("""
            n = ~m
            z = torch.zeros_like(y)
            z[n] = x[n]
            z[m] = y[m].exp()
            return z"""),
        block("""
            z = torch.where(m, torch.where(m, y, 0).exp(), x)
            return z"""),
    ),
    (
        MASK,
        block("""
            n = ~m
            n[0] = True
            z = torch.zeros_like(x)
            z[n] = x[n]
            z[m] = y[m]
            return z"""),
        block("""
            n = ~m
            n[0] = True
            z = torch.where(n, x, 0)
            z = torch.where(m, y, z)
            return z"""),
    ),
    (
        MASK,
        block("""
            z = torch.zeros_like(x)
            w = z.sum()
            z[m] = x[m]
            return z + w"""),
        block("""
            z = torch.zeros_like(x)
            w = z.sum()
            z = torch.where(m, x, z)
            return z + w"""),
    ),
    (
        MASK,
        block("""
            z = torch.zeros(6, 4)
            z[m] = x[m]
            return z"""),
        block("""
            z = torch.zeros(6, 4)
            z = torch.where(m, x, z)
            return z"""),
    ),
    (
        MASK,
        block("""
            z, w = torch.zeros_like(x), x * 2
            z[~m] = x[~m]
            return z + w"""),
        block("""
            z, w = torch.zeros_like(x), x * 2
            z = torch.where(~m, x, z)
            return z + w"""),
    ),
]


def test_fixed():
    sources = [_function(before) for _, before, _ in FIXED]
    outcomes = rewritten_together(sources, [(X, Y, mask) for mask, *_ in FIXED])
    for outcome, (mask, _, after) in zip(outcomes, FIXED, strict=True):
        assert outcome.source == _function(after)
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((Y, X, ~mask), (X, Y, torch.zeros_like(mask)))


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (
            block("""
                z = x.clone()
                z[z < 0] += 2
                z[0] = 1
                return z"""),
            block("""
                z = torch.where(x < 0, x + 2, x)
                z[0] = 1
                return z"""),
        ),
        (
            block("""
                z = x.clone()
                best, _ = y.max(-1)
                best[m] *= 0.5
                z[m] = z[m].relu()
                return z, best"""),
            block("""
                best, _ = y.max(-1)
                best = torch.where(m, best * 0.5, best)
                z = torch.where(m[..., None], x.relu(), x)
                return z, best"""),
        ),
        (
            block("""
                z = x.clone()
                x = x * 2
                z[m] = z[m].relu()
                return z + x"""),
            block("""
                z = x.clone()
                x = x * 2
                z = torch.where(m[..., None], z.relu(), z)
                return z + x"""),
        ),
        (
            block("""
                z = x.clone()
                w = z * 2
                z[m] = z[m].relu()
                return z + w"""),
            block("""
                z = x.clone()
                w = z * 2
                z = torch.where(m[..., None], z.relu(), z)
                return z + w"""),
        ),
    ],
)
def test_a_clone_that_nobody_else_reads_goes(body, after):
    outcome = rewritten(_function(body), X, Y, ROWS)
    assert outcome.source == _function(after), outcome.refusals
    outcome.check((Y, X, ~ROWS))


def test_a_clone_that_protects_its_tensor_stays():
    body = block("""
        z = x.clone()
        x[0] = 1
        z[m] = y[m]
        return z""")
    text, _, _ = offered(_function(body), "y[m]", CATEGORY, X.detach(), Y, ROWS)
    assert "    z = x.clone()\n    x[0] = 1\n    z = torch.where(m[..., None], y, z)\n" in text


def test_more_dimensions_and_values_that_are_not_finite():
    body = block("""
        z = x.clone()
        z[m] = torch.clamp(z[m], 0, 1)
        z = z + y
        return z""")
    outcome = rewritten(_function(body), X, Y, ROWS)
    assert "torch.where(m[..., None], torch.clamp(x, 0, 1), x)" in outcome.source
    batch = torch.stack((X, Y)).detach()
    batch[0, :2], batch[1, 0] = float("nan"), float("inf")
    outcome.check((batch.requires_grad_(), Y, torch.stack((ROWS, ~ROWS))))


BENDS = """\
def bend(x, scale=2.0):
    \"\"\"The square root of what is above.\"\"\"
    high = torch.where(x > 0, x, -x) / scale
    return high.sqrt() + 1


def mixes(x):
    return x - x.mean()


def changes(x):
    return x.mul_(2)


"""


@pytest.mark.parametrize(
    ("mask", "after"),
    [
        (MASK, "z = torch.where(m, bend(torch.where(m, x, 1)), y)"),
        (ROWS, "z = torch.where(m[..., None], bend(torch.where(m[..., None], x, 1)), y)"),
    ],
)
def test_a_function_of_the_project_that_takes_each_element_by_itself(mask, after):
    body = block("""
        z = y.clone()
        z[m] = bend(x[m])
        return z""")
    outcome = rewritten(_function(body).replace("def f", f"{BENDS}def f"), X, Y, mask)
    assert outcome.source == _function(f"{after}\nreturn z").replace("def f", f"{BENDS}def f")
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((Y, X, ~mask))


FLIPS = """\
def flip(x, limit=0.5):
    low = 1.0 - x
    return torch.where(x < limit, x, low.clamp(-2, 2) * 3)


"""


@pytest.mark.parametrize("mask", [MASK, ROWS])
def test_a_function_of_the_project_whose_gradients_are_finite(mask):
    source = _function(
        block("""
            z = y.clone()
            z[m] = flip(x[m], 0.25)
            return z""")
    )
    outcome = rewritten(source.replace("def f", f"{FLIPS}def f"), X, Y, mask)
    shown = "m" if mask is MASK else "m[..., None]"
    after = _function(f"z = torch.where({shown}, flip(x, 0.25), y)\nreturn z")
    assert outcome.source == after.replace("def f", f"{FLIPS}def f")
    assert outcome.applicability == [Applicability.SAFE]
    hidden = torch.where(mask if mask is MASK else mask[:, None], X.detach(), float("inf"))
    outcome.check((Y, X, ~mask), (hidden.requires_grad_(), Y, mask))


def test_a_choice_of_what_is_selected_needs_no_padding():
    body = block("""
        z = x + y
        z[m] = torch.where(y[m] > 0, y[m], -x[m])
        return z""")
    after = block("""
        z = x + y
        z = torch.where(m, torch.where(y > 0, y, -x), z)
        return z""")
    outcome = rewritten(_function(body), X, Y, MASK)
    assert outcome.source == _function(after)
    outcome.check((Y, X, ~MASK))


def test_a_mask_of_a_filled_tensor_gets_a_name():
    body = block("""
        z = torch.zeros_like(x)
        z[y > 0] = x[y > 0].exp()
        return z""")
    after = block("""
        mask = y > 0
        z = torch.where(mask, torch.where(mask, x, 0).exp(), 0)
        return z""")
    outcome = rewritten(_function(body), X, Y, MASK)
    assert outcome.source == _function(after)
    outcome.check((Y, X, MASK))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                m = torch.rand(len(x)) < 0.5
                y = x + 1
                y[m] = x[m] * 2
                return y"""),
            block("""
                m = (torch.rand(len(x)) < 0.5).to(x.device)
                y = x + 1
                y = torch.where(m[..., None], x * 2, y)
                return y"""),
        ),
        (
            block("""
                m = torch.rand(len(x)) < 0.5
                y = x + 1
                y[m] += x[m]
                return y, m"""),
            block("""
                m = torch.rand(len(x)) < 0.5
                y = x + 1
                y += torch.where(m.to(x.device)[..., None], x, 0)
                return y, m"""),
        ),
        (
            block("""
                m = torch.rand(len(x), device=x.device) < 0.5
                y = x + 1
                y[m] += x[m]
                return y"""),
            block("""
                m = torch.rand(len(x), device=x.device) < 0.5
                y = x + 1
                y += torch.where(m[..., None], x, 0)
                return y"""),
        ),
        (
            block("""
                m = torch.rand_like(x) < 0.5
                y = x + 1
                y[m] += x[m]
                return y"""),
            block("""
                m = torch.rand_like(x) < 0.5
                y = x + 1
                y += torch.where(m, x, 0)
                return y"""),
        ),
        (
            block("""
                m = torch.arange(len(x)) < x[:, 0]
                y = x + 1
                y[m] += x[m]
                return y"""),
            block("""
                m = torch.arange(len(x)) < x[:, 0]
                y = x + 1
                y += torch.where(m[..., None], x, 0)
                return y"""),
        ),
    ],
)
def test_a_mask_goes_to_the_device_of_what_it_selects_from(before, after):
    text, (made,), _ = offered(_function(before), "x[m]", CATEGORY, X, Y, MASK, rule="FG403")
    assert text == _function(after)
    assert made.applicability is Applicability.SAFE
    args = X.detach(), Y.detach(), MASK
    found, expected = (imported(one).f for one in (text, _function(before)))
    for seed in range(3):
        torch.manual_seed(seed)
        expects = expected(*args)
        torch.manual_seed(seed)
        assert_close(found(*args), expects)
    if ".to(" in after:  # it may index a tensor that is elsewhere
        made_there = found(X.detach().to("meta"), Y, MASK)
        assert (made_there[0] if isinstance(made_there, tuple) else made_there).is_meta


@pytest.mark.parametrize("call", ["mixes(x[m])", "changes(x[m])", "bend(x[m], scale=y[~m])"])
def test_a_function_of_the_project_that_needs_them_all(call):
    source = _function(f"z = y.clone()\nz[m] = {call}\nreturn z")
    source = source.replace("def f", f"{BENDS}def f")
    text, _, refusals = offered(source, "x[m]", CATEGORY, X.detach(), Y, MASK)
    assert not text
    assert refusals


@pytest.mark.parametrize("offset", [0, 2])
def test_a_table_that_is_read_at_what_is_selected(offset):
    body = f"z = torch.zeros(4).long()\nz[y > 0] = x[y[y > 0] + {offset}]\nreturn z"
    outcome = rewritten(_function(body), torch.arange(6), torch.tensor([-7, 3, 1, 0]), MASK)
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)


@pytest.mark.parametrize(
    "before",
    [
        block("""
            y[m] = x[m]
            return y"""),
        block("""
            z = y.view(-1)
            z[m.view(-1)] = x.view(-1)[m.view(-1)]
            return y"""),
        block("""
            z = y * 1
            w = z[0]
            z[m] = x[m]
            return w, z"""),
        block("""
            z = y * 1
            w = [z]
            for _ in range(2):
                z[m] = x[m]
            return w[0]"""),
        block("""
            z = y * 1
            for _ in range(2):
                z[m] = x[m] * 2
                w = z
            return w"""),
        block("""
            z = y * 1
            w = z.view(-1)
            z[m] += x[m]
            return w"""),
    ],
)
def test_who_else_holds_the_tensor_sees_the_change(before):
    y = torch.randn(6, 4)
    outcome = rewritten(_function(before), X, y, MASK)
    assert "z = torch.where" not in outcome.source
    outcome.check()
    changed, expected = y.clone(), y.clone()
    space, original = {}, {}
    exec(outcome.source, space)
    exec(_function(before), original)
    space["f"](X.detach(), changed, MASK)
    original["f"](X.detach(), expected, MASK)
    assert torch.equal(changed, expected)


def test_a_buffer_stays_the_same_tensor():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.register_buffer('seen', torch.zeros(6, 4))\n\n"
        "    def forward(self, x, m):\n        self.seen[m] = x[m]\n        return self.seen + 1\n"
    )
    outcome = rewritten(source, X.detach(), MASK)
    assert "self.seen.copy_(torch.where(m, x, self.seen))" in outcome.source
    outcome.check()


@pytest.mark.compiles
def test_a_layer_that_takes_each_row_by_itself():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.fc = torch.nn.Linear(4, 4)\n\n"
        "    def forward(self, x, m):\n        out = x * 1\n        out[m] = self.fc(x[m])\n"
        "        return out\n"
    )
    torch.manual_seed(0)
    outcome = rewritten(source, X, ROWS)
    lines = (
        "        if torch.compiler.is_compiling():\n"
        "            out = torch.where("
        "m[..., None], self.fc(torch.where(m[..., None], x, 0)), out)\n"
        "        else:\n            out[m] = self.fc(x[m])\n"
    )
    assert lines in outcome.source
    assert outcome.after.default.ok and outcome.after.fullgraph.ok
    seen, model = [], imported(outcome.source).Model()
    model.fc.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    expected = model(X, ROWS)
    assert seen == [int(ROWS.sum())], "eager code multiplies the selected rows alone"
    assert_close(torch.compile(model, backend="eager", fullgraph=True)(X, ROWS), expected)


def test_a_layer_far_from_the_assignment_costs_eager_code_time():
    lines = "".join(f"        w = x + {n}\n" for n in range(4))
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.fc = torch.nn.Linear(4, 4)\n\n"
        f"    def forward(self, x, m):\n        z = x * 1\n        y = self.fc(x[m])\n{lines}"
        "        z[m] = y\n        return z + w\n"
    )
    outcome = rewritten(source, X, ROWS)
    assert outcome.assumes == ["eager code may compute `self.fc(x[m])` for all rows"]
    assert "is_compiling" not in outcome.source
    outcome.check((X, ~ROWS))


def test_a_layer_of_rows_that_a_condition_selects():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.fc = torch.nn.Linear(4, 4)\n\n"
        "    def forward(self, x):\n        # all that is positive\n"
        "        return self.fc(x[x[:, 0] > 0]).sum()\n"
    )
    outcome = rewritten(source, X)
    assert (
        "        # all that is positive\n        mask = x[:, 0] > 0\n"
        "        if torch.compiler.is_compiling():\n"
    ) in outcome.source
    assert "        else:\n            return self.fc(x[mask]).sum()\n" in outcome.source
    outcome.check(((-X).detach().requires_grad_(),))


def test_no_gradient_comes_from_what_is_not_selected():
    source = _function(
        block("""
            z = x * 1
            z[x > 0] = z[x > 0].sqrt()
            return z""")
    )
    x = torch.tensor([[0.0, 4.0, -1.0]], requires_grad=True)
    outcome = rewritten(source, x, Y, MASK)
    outcome.check(exact=True)


def test_unsafe_where_nothing_is_known():
    source = _function(
        block("""
            x = x * 1
            x[m] = y[m] + 1
            return x""")
    )
    text, (rewrite,), _ = offered(source, "y[m]", CATEGORY)
    assert "x = torch.where(m, y + 1, x)" in text
    assert rewrite.applicability is Applicability.UNSAFE
