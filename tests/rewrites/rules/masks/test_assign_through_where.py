import pytest
import torch
from torch.testing import assert_close

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten, rewritten_together

pytestmark = pytest.mark.compiles

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
        ("x = x + 1\nx[m] = y[~m][: m.sum()]\nreturn x", "y[~m]", "needs the selected elements"),
        ("x = x + 1\nx[m] = torch.rand_like(y[m])\nreturn x", "y[m]", "torch.rand_like(y[m])"),
        ("x = x + 1\nx[y > 0] = y[m][: 3]\nreturn x", "y[m]", "needs the selected elements"),
        ("x = x + 1\nx[~m] = y[m]\nreturn x", "y[m]", "`x[~m]` is selected by another mask"),
        ("x = x + 1\nx[m] = y[m].sort().values\nreturn x", "y[m]", "needs the selected elements"),
    ],
)
def test_left_alone(body, read, reason):
    text, _, refusals = offered(_function(body), read, CATEGORY, X, Y, MASK)
    assert not text
    assert reason in " ".join(refusals)


FIXED = [
    (
        MASK,
        "x = x * 1\nx[x > .5] = pow(x[x > .5], .1) * 2  # gamma\nreturn x",
        "x = x * 1\nmask = x > .5\n"
        "x = torch.where(mask, torch.pow(torch.where(mask, x, 1), .1) * 2, x)  # gamma\n"
        "return x",
    ),
    (
        ROWS,
        "z = x.clone()\nz[m]  =  y[m] * 2\nreturn z",
        "z = torch.where(m[..., None], y * 2, x)\nreturn z",
    ),
    (
        MASK,
        "z = torch.zeros_like(x)\nz[m] = (x[m] - y[m]) * (x[m] + 1)\nreturn z",
        "z = torch.where(m, torch.where(m, x - y, 0) * torch.where(m, x + 1, 0), 0)\nreturn z",
    ),
    (
        MASK,
        "z = x + y\nz[m] += 1\nreturn z",
        "z = x + y\nz = torch.where(m, z + 1, z)\nreturn z",
    ),
    (
        MASK,
        "z = x + y\nz[m] *= y[m]\nreturn z",
        "z = x + y\nz *= torch.where(m, y, 1)\nreturn z",
    ),
    (
        ROWS,
        "z = x + y\nz[m, 0] = y[m, 1].exp()\nreturn z",
        "z = x + y\nz[:, 0] = torch.where(m, torch.where(m, y[:, 1], 0).exp(), z[:, 0])\nreturn z",
    ),
    (
        MASK,
        "low = x[m] / 12.92\nhigh = torch.add(y[~m].abs(), 0.055).mul_(2).pow_(2.4)\n"
        "z = torch.empty_like(x)\nz[m] = low\nz[~m] = high\nreturn z",
        "low = x / 12.92\n"
        "high = torch.where(~m, torch.add(y.abs(), 0.055), 0).mul_(2).pow_(2.4)\n"
        "z = torch.where(m, low, high)\nreturn z",
    ),
    (
        MASK,
        "n = ~m\nz = torch.zeros_like(y)\nz[n] = x[n]\nz[m] = y[m].exp()\nreturn z",
        "z = torch.where(m, torch.where(m, y, 0).exp(), x)\nreturn z",
    ),
    (
        MASK,
        "n = ~m\nn[0] = True\nz = torch.zeros_like(x)\nz[n] = x[n]\nz[m] = y[m]\nreturn z",
        "n = ~m\nn[0] = True\nz = torch.where(n, x, 0)\nz = torch.where(m, y, z)\nreturn z",
    ),
    (
        MASK,
        "z = torch.zeros_like(x)\nw = z.sum()\nz[m] = x[m]\nreturn z + w",
        "z = torch.zeros_like(x)\nw = z.sum()\nz = torch.where(m, x, z)\nreturn z + w",
    ),
    (
        MASK,
        "z = torch.zeros(6, 4)\nz[m] = x[m]\nreturn z",
        "z = torch.zeros(6, 4)\nz = torch.where(m, x, z)\nreturn z",
    ),
    (
        MASK,
        "z, w = torch.zeros_like(x), x * 2\nz[~m] = x[~m]\nreturn z + w",
        "z, w = torch.zeros_like(x), x * 2\nz = torch.where(~m, x, z)\nreturn z + w",
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
            "z = x.clone()\nz[z < 0] += 2\nz[0] = 1\nreturn z",
            "z = torch.where(x < 0, x + 2, x)\nz[0] = 1\nreturn z",
        ),
        (
            "z = x.clone()\nbest, _ = y.max(-1)\nbest[m] *= 0.5\n"
            "z[m] = z[m].relu()\nreturn z, best",
            "best, _ = y.max(-1)\nbest = torch.where(m, best * 0.5, best)\n"
            "z = torch.where(m[..., None], x.relu(), x)\nreturn z, best",
        ),
        (
            "z = x.clone()\nx = x * 2\nz[m] = z[m].relu()\nreturn z + x",
            "z = x.clone()\nx = x * 2\nz = torch.where(m[..., None], z.relu(), z)\nreturn z + x",
        ),
        (
            "z = x.clone()\nw = z * 2\nz[m] = z[m].relu()\nreturn z + w",
            "z = x.clone()\nw = z * 2\nz = torch.where(m[..., None], z.relu(), z)\nreturn z + w",
        ),
    ],
)
def test_a_clone_that_nobody_else_reads_goes(body, after):
    outcome = rewritten(_function(body), X, Y, ROWS)
    assert outcome.source == _function(after), outcome.refusals
    outcome.check((Y, X, ~ROWS))


def test_a_clone_that_protects_its_tensor_stays():
    body = "z = x.clone()\nx[0] = 1\nz[m] = y[m]\nreturn z"
    text, _, _ = offered(_function(body), "y[m]", CATEGORY, X.detach(), Y, ROWS)
    assert "    z = x.clone()\n    x[0] = 1\n    z = torch.where(m[..., None], y, z)\n" in text


def test_more_dimensions_and_values_that_are_not_finite():
    body = "z = x.clone()\nz[m] = torch.clamp(z[m], 0, 1)\nz = z + y\nreturn z"
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
    body = "z = y.clone()\nz[m] = bend(x[m])\nreturn z"
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
    source = _function("z = y.clone()\nz[m] = flip(x[m], 0.25)\nreturn z")
    outcome = rewritten(source.replace("def f", f"{FLIPS}def f"), X, Y, mask)
    shown = "m" if mask is MASK else "m[..., None]"
    after = _function(f"z = torch.where({shown}, flip(x, 0.25), y)\nreturn z")
    assert outcome.source == after.replace("def f", f"{FLIPS}def f")
    assert outcome.applicability == [Applicability.SAFE]
    hidden = torch.where(mask if mask is MASK else mask[:, None], X.detach(), float("inf"))
    outcome.check((Y, X, ~mask), (hidden.requires_grad_(), Y, mask))


def test_a_choice_of_what_is_selected_needs_no_padding():
    body = "z = x + y\nz[m] = torch.where(y[m] > 0, y[m], -x[m])\nreturn z"
    after = "z = x + y\nz = torch.where(m, torch.where(y > 0, y, -x), z)\nreturn z"
    outcome = rewritten(_function(body), X, Y, MASK)
    assert outcome.source == _function(after)
    outcome.check((Y, X, ~MASK))


def test_a_mask_of_a_filled_tensor_gets_a_name():
    body = "z = torch.zeros_like(x)\nz[y > 0] = x[y > 0].exp()\nreturn z"
    after = "mask = y > 0\nz = torch.where(mask, torch.where(mask, x, 0).exp(), 0)\nreturn z"
    outcome = rewritten(_function(body), X, Y, MASK)
    assert outcome.source == _function(after)
    outcome.check((Y, X, MASK))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "m = torch.rand(len(x)) < 0.5\ny = x + 1\ny[m] = x[m] * 2\nreturn y",
            "m = (torch.rand(len(x)) < 0.5).to(x.device)\n"
            "y = x + 1\ny = torch.where(m[..., None], x * 2, y)\nreturn y",
        ),
        (
            "m = torch.rand(len(x)) < 0.5\ny = x + 1\ny[m] += x[m]\nreturn y, m",
            "m = torch.rand(len(x)) < 0.5\ny = x + 1\n"
            "y += torch.where(m.to(x.device)[..., None], x, 0)\nreturn y, m",
        ),
        (
            "m = torch.rand(len(x), device=x.device) < 0.5\ny = x + 1\ny[m] += x[m]\nreturn y",
            "m = torch.rand(len(x), device=x.device) < 0.5\ny = x + 1\n"
            "y += torch.where(m[..., None], x, 0)\nreturn y",
        ),
        (
            "m = torch.rand_like(x) < 0.5\ny = x + 1\ny[m] += x[m]\nreturn y",
            "m = torch.rand_like(x) < 0.5\ny = x + 1\ny += torch.where(m, x, 0)\nreturn y",
        ),
        (
            "m = torch.arange(len(x)) < x[:, 0]\ny = x + 1\ny[m] += x[m]\nreturn y",
            "m = torch.arange(len(x)) < x[:, 0]\ny = x + 1\n"
            "y += torch.where(m[..., None], x, 0)\nreturn y",
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
        "y[m] = x[m]\nreturn y",
        "z = y.view(-1)\nz[m.view(-1)] = x.view(-1)[m.view(-1)]\nreturn y",
        "z = y * 1\nw = z[0]\nz[m] = x[m]\nreturn w, z",
        "z = y * 1\nw = [z]\nfor _ in range(2):\n    z[m] = x[m]\nreturn w[0]",
        "z = y * 1\nfor _ in range(2):\n    z[m] = x[m] * 2\n    w = z\nreturn w",
        "z = y * 1\nw = z.view(-1)\nz[m] += x[m]\nreturn w",
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
    source = _function("z = x * 1\nz[x > 0] = z[x > 0].sqrt()\nreturn z")
    x = torch.tensor([[0.0, 4.0, -1.0]], requires_grad=True)
    outcome = rewritten(source, x, Y, MASK)
    outcome.check(exact=True)


def test_unsafe_where_nothing_is_known():
    source = _function("x = x * 1\nx[m] = y[m] + 1\nreturn x")
    text, (rewrite,), _ = offered(source, "y[m]", CATEGORY)
    assert "x = torch.where(m, y + 1, x)" in text
    assert rewrite.applicability is Applicability.UNSAFE
