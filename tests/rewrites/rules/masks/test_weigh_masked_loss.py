import pytest
import torch
from torch.testing import assert_close

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten, rewritten_together
from tests.text import block

HEAD = block("""
    import torch
    import torch.nn.functional as F
    from torch import nn


""")
CATEGORY = "boolean mask"
torch.manual_seed(0)
X = torch.randn(6, 4, requires_grad=True)
Y = torch.rand(6, 4)
ROWS = torch.tensor([True, False, True, True, False, True])
MASK = torch.rand(6, 4) > 0.4
LABELS = torch.randint(0, 4, (6,))


def _function(expression):
    body = expression if "return " in expression else f"return {expression}"
    return f"{HEAD}def f(x, y, m):\n    {body}\n"


def _model(made, call):
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.loss = {made}\n\n    def forward(self, x, y, m):\n        return {call}\n"
    )


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("F.mse_loss(x[m], y[m], reduction='none')", "gives a loss for each selected element"),
        ("F.mse_loss(x[m], y[m], reduction=F.kind)", "is not spelled out"),
        ("F.mse_loss(x[m], y.flatten()[: m.sum()])", "only one side of `F.mse_loss`"),
        ("F.gaussian_nll_loss(x[m], y[m], y[m])", "needs the selected elements"),
        ("F.mse_loss(x[m], y[y > 0])", "`y[y > 0]` is selected by another mask"),
    ],
)
def test_left_alone(expression, reason):
    text, _, refusals = offered(_function(expression), "x[m]", CATEGORY, X, Y, MASK)
    assert not text
    assert reason in refusals[0]


FUNCTIONS = [
    (
        MASK,
        "F.l1_loss( x[m], y[m] )  # both",
        'F.l1_loss( torch.where(m, x, 0), torch.where(m, y, 0), reduction="sum" ) / m.sum()'
        "  # both",
    ),
    (
        ROWS,
        "F.mse_loss(input=x[m], target=y[m])",
        "F.mse_loss(input=torch.where(m[..., None], x, 0), target=torch.where(m[..., None], y, 0), "
        'reduction="sum") / (m.sum() * x.shape[-1])',
    ),
    (
        MASK,
        "F.smooth_l1_loss(x[m].exp(), y[m], reduction='sum', beta=0.5)",
        "F.smooth_l1_loss(torch.where(m, torch.where(m, x, 0).exp(), 0), "
        "torch.where(m, y, 0), reduction='sum', beta=0.5)",
    ),
    (
        MASK,
        "F.binary_cross_entropy(x.sigmoid()[m], y[m])",
        "F.binary_cross_entropy(torch.where(m, x.sigmoid(), 0), torch.where(m, y, 0), "
        'reduction="sum") / m.sum()',
    ),
    (
        MASK,
        "F.binary_cross_entropy_with_logits(x[m], y[m])",
        "F.binary_cross_entropy_with_logits(torch.where(m, x, 0), torch.where(m, y, 0), "
        'weight=m, reduction="sum") / m.sum()',
    ),
    (
        MASK,
        "z = x[m]\n    return F.binary_cross_entropy_with_logits(z, torch.ones_like(z))",
        "z = torch.where(m, x, 0)\n    return F.binary_cross_entropy_with_logits("
        'z, torch.ones_like(z), weight=m, reduction="sum") / m.sum()',
    ),
]


def test_functions():
    sources = [_function(before) for _, before, _ in FUNCTIONS]
    outcomes = rewritten_together(sources, [(X, Y, mask) for mask, *_ in FUNCTIONS])
    for outcome, (mask, _, after) in zip(outcomes, FUNCTIONS, strict=True):
        assert outcome.source == _function(after)
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((X, Y, torch.zeros_like(mask)), (X, Y, torch.ones_like(mask)))


@pytest.mark.parametrize(
    ("options", "index"),
    [("", "-100"), (", ignore_index=1", "1"), (", label_smoothing=0.1", "-100")],
)
def test_targets_are_ignored(options, index):
    outcome = rewritten(_function(f"F.cross_entropy(x[m], y[m]{options})"), X, LABELS, ROWS)
    where = f"torch.where(m[..., None], x, 0), torch.where(m, y, {index})"
    assert outcome.source == _function(f"F.cross_entropy({where}{options})")
    assert outcome.assumes == ["`y` holds class indices in each call"]
    outcome.check((X, LABELS, torch.zeros_like(ROWS)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "k = y != n\n    return F.cross_entropy(x[k], y[k])",
            "return F.cross_entropy(x, y, ignore_index=n)",
        ),
        (
            "k = y != n\n    return F.cross_entropy(x[k], y[k]) * k.sum()",
            "k = y != n\n    return F.cross_entropy(x, y, ignore_index=n) * k.sum()",
        ),
        ("return F.nll_loss(x[y != -100], y[y != -100])", "return F.nll_loss(x, y)"),
        ("k = x[:, 0] != n\n    return F.cross_entropy(x[k], y[k])", ""),
        ("k = y != n\n    y = y.clamp(min=0)\n    return F.cross_entropy(x[k], y[k])", ""),
        ("k = y == n\n    return F.cross_entropy(x[k], y[k])", ""),
    ],
)
def test_a_label_that_is_left_out_may_be_ignored(before, after):
    source = f"{HEAD}def f(x, y, n):\n    {before}\n"
    read = "x[" + before.partition("(x[")[2].partition("]")[0] + "]"
    text, made, _ = offered(source, read, CATEGORY, X, LABELS, 1, rule="FG402", shorter=True)
    assert text == (f"{HEAD}def f(x, y, n):\n    {after}\n" if after else "")
    assert all(one.applicability is Applicability.UNSAFE and one.assumes for one in made)


@pytest.mark.compiles
def test_an_attribute_says_which_label_is_left_out():
    labels = torch.tensor([0, -1, 2, -1, 3, 1])
    source = _model("-1", "F.cross_entropy(x[y != self.ignore], y[y != self.ignore])")
    source = source.replace("self.loss", "self.ignore").replace(", m):", "):")
    read = "x[y != self.ignore]"
    text, _, _ = offered(source, read, CATEGORY, X, labels, rule="FG402", shorter=True)
    assert "        return F.cross_entropy(x, y, ignore_index=self.ignore)\n" in text
    old, new = imported(source).Model(), imported(text).Model()
    compiled = torch.compile(new, backend="eager", fullgraph=True)
    for given in (labels, torch.full_like(labels, -1)):
        results = [one(X, given) for one in (old, new, compiled)]
        gradients = [torch.autograd.grad(one, X)[0] for one in results]
        for result, gradient in zip(results[1:], gradients[1:], strict=True):
            assert_close(result, results[0], equal_nan=True)
            assert_close(gradient, gradients[0])


def test_labels_that_a_module_made_elsewhere_ignores():
    body = block("""
        def f(x, y):
            k = y != -100
            return made[0](x[k], y[k])
    """)
    source = f"{HEAD}made = [nn.CrossEntropyLoss()]\n\n\n{body}"
    text, made, _ = offered(source, "x[k]", CATEGORY, X, LABELS, rule="FG402", shorter=True)
    assert "    return made[0](x, y)\n" in text
    assert made[0].assumes == (
        "`x` is finite where `y` is `-100`",
        "`made[0]` has the default options",
    )


def test_targets_of_several_dimensions():
    outcome = rewritten(
        _function("F.cross_entropy(x[m], y[m])"),
        torch.randn(2, 3, 5, requires_grad=True),
        torch.randint(0, 5, (2, 3)),
        torch.tensor([[True, False, True], [False, True, True]]),
    )
    assert "F.cross_entropy(torch.where(m[..., None], x, 0).flatten(0, -2), " in outcome.source
    outcome.check()


@pytest.mark.parametrize(
    ("made", "call", "after"),
    [
        (
            "nn.L1Loss()",
            "self.loss(x[m], y[m])",
            "self.loss(torch.where(m, x, 0), torch.where(m, y, 0)) * m.numel() / m.sum()",
        ),
        (
            "nn.MSELoss(reduction='sum')",
            "self.loss(x[m], y[m])",
            "self.loss(torch.where(m, x, 0), torch.where(m, y, 0))",
        ),
    ],
)
def test_modules(made, call, after):
    outcome = rewritten(_model(made, call), X, Y, MASK)
    assert outcome.source == _model(made, after)
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((X, Y, ~MASK))


def test_a_module_of_classes():
    source = _model("nn.CrossEntropyLoss(ignore_index=2)", "self.loss(x[m], y[m])")
    outcome = rewritten(source, X, LABELS, ROWS)
    assert "torch.where(m, y, 2)" in outcome.source
    outcome.check()


def test_unsafe_where_a_module_is_made_elsewhere():
    source = f"{HEAD}made = [nn.MSELoss()]\n\n\ndef f(x, y, m):\n    return made[0](x[m], y[m])\n"
    outcome = rewritten(source, X, Y, MASK)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert outcome.assumes == ["`made[0]` has the default options"]
    outcome.check()
