import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten, rewritten_together
from tests.text import block

HEAD = "import torch\n\n\n"
CATEGORY = "boolean mask"
torch.manual_seed(0)
X = torch.randn(6, 4, requires_grad=True)
Y = torch.randn(6, 4, requires_grad=True)
ROWS = torch.tensor([True, False, True, True, False, True])
MASK = torch.rand(6, 4) > 0.4


def _function(body, *names):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}def f({', '.join(names)}):\n{lines}"


@pytest.mark.parametrize(
    ("body", "read", "reason"),
    [
        ("return x[m]", "x[m]", "`x[m]` is returned"),
        (
            block("""
                bad = x[m]
                return x.sum() + len(f"{bad}")"""),
            "x[m]",
            "a text shows `bad`",
        ),
        (
            block("""
                y = x[m]
                return y.mean(), y"""),
            "x[m]",
            "`y` is used as it is",
        ),
        ("return torch.cat([x[m], x]).sum()", "x[m]", "`x[m]` is used as it is"),
        (
            "return torch.sort(x[m]).values.sum()",
            "x[m]",
            "`torch.sort(x[m])` needs the selected elements",
        ),
        ("return (x[m] * x[x > 0]).sum()", "x[m]", "`x[x > 0]` is selected by another mask"),
        ("return x[m].max(0).indices", "x[m]", "its indices are those among"),
        ("return x[m] @ torch.ones(3)", "x[m]", "needs the selected elements"),
        (
            block("""
                g = lambda v: v.sum()
                return g(x[m])"""),
            "x[m]",
            "`g(x[m])` needs the selected elements",
        ),
        ("return range(len(x[m]))", "x[m]", "`len(x[m])` is needed as a Python number"),
        ("return x.new_zeros(3, 4).index_add(0, i, x[m])", "x[m]", "only a part of"),
        ("return x[:, m[0]].sum(0)", "x[:, m[0]]", "needs the selected elements"),
        ("return x[m].view(3, -1).sum()", "x[m]", "needs the selected elements"),
        (
            block("""
                y = x
                if x.dim() > 1:
                    y = y[m]
                for _ in x:
                    y = y * 2
                return y.mean()"""),
            "y[m]",
            "not always what",
        ),
        (
            block("""
                y = x[m]
                return (lambda: y.sum())()"""),
            "x[m]",
            "used in a function inside",
        ),
    ],
)
def test_left_alone(body, read, reason):
    body = f"i = torch.tensor([0, 2, 1])\n{body}"
    text, rewrites, refusals = offered(_function(body, "x", "m"), read, CATEGORY, X, MASK)
    assert not rewrites and not text
    assert reason in refusals[0]


def test_what_is_not_nan_is_a_nansum_unless_it_is_complex():
    body = block("""
        y = x[~x.isnan()]  # numbers
        return torch.sum(y)""")
    mask = "x[~x.isnan()]"
    assert not offered(_function(body, "x"), mask, CATEGORY, X, shorter=True)[0]  # for the comment
    source = _function(body.replace("  # numbers", ""), "x")
    text, (made,), _ = offered(source, mask, CATEGORY, X, shorter=True)
    assert text == _function("return torch.nansum(x)", "x")
    assert made.assumes == ("`x` is not complex",)
    outcome = rewritten(source, X)
    assert "y = torch.where(~x.isnan(), x, 0)" in outcome.source
    assert outcome.applicability == [Applicability.SAFE]
    nan = torch.where(MASK, X.detach(), float("nan")).requires_grad_()
    outcome.check((nan,), ((X.detach() * float("nan")).requires_grad_(),))


def test_the_shorter_mean_of_what_is_not_nan():
    source = _function(
        block("""
            k = ~torch.isnan(x)
            x = x[k]
            return x.mean() + x.sum()"""),
        "x",
    )
    text, (made,), _ = offered(source, "x[k]", CATEGORY, X, rule="FG401", shorter=True)
    assert text == _function("return x.nanmean() + x.nansum()", "x")
    assert {*made.assumes} == {"`x` has an element that is not NaN", "`x` is not complex"}


def test_edges_that_are_selected_stay():
    source = _function(
        block("""
            e = e[:, e[0] != e[1]]
            return e"""),
        "e",
    )
    text, _, refusals = offered(source, "e[:, e[0] != e[1]]", CATEGORY, torch.randint(0, 4, (2, 9)))
    assert not text
    assert "`e` is returned, and how many there are depends on the data" in refusals[0]


REDUCTIONS = [
    (MASK, "return x[m].mean()  # all", "return torch.where(m, x, 0).sum() / m.sum()  # all"),
    (MASK, "return -x[ m ] . sum( )", "return -torch.where(m, x, 0).sum( )"),
    (
        ROWS,
        "return x[m].mean()",
        "return torch.where(m[..., None], x, 0).sum() / (m.sum() * x.shape[-1])",
    ),
    (
        ROWS,
        "return x[m].mean(dim=0)",
        "return torch.where(m[..., None], x, 0).sum(dim=0) / m.sum()",
    ),
    (
        ROWS,
        "return x[m].sum(-1).mean()",
        "return torch.where(m, x.sum(-1), 0).sum() / m.sum()",
    ),
    (ROWS[:4], "return x[:, m].sum(1).exp()", "return torch.where(m, x, 0).sum(1).exp()"),
    (ROWS, "return x[m, 0].sum()", "return torch.where(m, x[:, 0], 0).sum()"),
    (
        ROWS,
        block("""
            k = x[m].argmax(-1)
            return (k == x.argmin(-1)[m]).float().mean()"""),
        block("""
            k = torch.where(m[..., None], x, 0).argmax(-1)
            return torch.where(m, (k == x.argmin(-1)).float(), 0).sum() / m.sum()"""),
    ),
    (
        ROWS,
        block("""
            p = x[m].softmax(-1)
            k = x.argmax(-1)[m]
            return (p.gather(1, k.unsqueeze(1)).squeeze(1) * p.sum(-1)).mean()"""),
        "p = torch.where(m[..., None], x, 0).softmax(-1)\nk = torch.where(m, x.argmax(-1), 0)\n"
        "return torch.where(m, p.gather(1, k.unsqueeze(1)).squeeze(1) * p.sum(-1), 0).sum()"
        " / m.sum()",
    ),
    (MASK, "return x[m].view(-1).sum()", "return torch.where(m, x, 0).sum()"),
    (MASK, "return torch.mean(x[m])", "return torch.sum(torch.where(m, x, 0)) / m.sum()"),
    (
        MASK,
        "return x.masked_select(m).abs().sum()",
        "return torch.where(m, x.abs(), 0).sum()",
    ),
    (
        MASK,
        "return (x > 0)[m].any() | (x[m] > 5).all()",
        "return ((x > 0) & m).any() | torch.where(m, x > 5, True).all()",
    ),
    (
        MASK,
        block("""
            y = x[m]  # selected

            y = y.sigmoid() - 0.5
            return y.sum() / y.shape[0]"""),
        block("""
            y = torch.where(m, x, 0)  # selected

            y = y.sigmoid() - 0.5
            return y.sum() / m.sum()"""),
    ),
]


def test_reductions():
    sources = [_function(before, "x", "m") for _, before, _ in REDUCTIONS]
    outcomes = rewritten_together(sources, [(X, mask) for mask, *_ in REDUCTIONS])
    for outcome, (mask, _, after) in zip(outcomes, REDUCTIONS, strict=True):
        assert outcome.source == _function(after, "x", "m")
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((X, torch.zeros_like(mask)), (X, torch.ones_like(mask)))


FOLLOWED = [
    (
        block("""
            a, b = x[m], y[m]
            return (a * b).sum()"""),
        block("""
            a, b = torch.where(m, x, 0), torch.where(m, y, 0)
            return (a * b).sum()"""),
    ),
    (
        block("""
            diff = x - y
            diff = diff[m]
            return diff.abs().mean()"""),
        block("""
            diff = x - y
            diff = torch.where(m, diff, 0)
            return diff.abs().sum() / m.sum()"""),
    ),
    (
        "return ((x[m] - y[m]) ** 2).mean()  # squares",
        "return (torch.where(m, x - y, 0) ** 2).sum() / m.sum()  # squares",
    ),
    (
        block("""
            a, b = x.abs() + 1, y.abs() + 1
            d = torch.log(a[m]) - torch.log(b[m])
            return ((d ** 2).mean() - 0.5 * d.mean() ** 2).sqrt()"""),
        block("""
            a, b = x.abs() + 1, y.abs() + 1
            d = torch.log(torch.where(m, a, 1)) - torch.log(torch.where(m, b, 1))
            return ((d ** 2).sum() / m.sum() - 0.5 * (d.sum() / m.sum()) ** 2).sqrt()"""),
    ),
    (
        block("""
            d = x[m]
            if x.dim() > 1:
                d = d + y[m]
            return d.prod()"""),
        block("""
            d = torch.where(m, x, 0)
            if x.dim() > 1:
                d = torch.where(m, d + y, 0)
            return torch.where(m, d, 1).prod()"""),
    ),
    (
        block("""
            total = 0
            for a, b, c in zip(x, y, m):
                total = total + (a[c] * b[c]).sum()
            return total"""),
        block("""
            total = 0
            for a, b, c in zip(x, y, m):
                total = total + (torch.where(c, a, 0) * torch.where(c, b, 0)).sum()
            return total"""),
    ),
]


def test_followed():
    sources = [_function(before, "x", "y", "m") for before, _ in FOLLOWED]
    outcomes = rewritten_together(sources, [(X, Y, MASK)] * len(FOLLOWED))
    for outcome, (_, after) in zip(outcomes, FOLLOWED, strict=True):
        assert outcome.source == _function(after, "x", "y", "m")
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((Y, X, ~MASK))


def test_an_optional_mask_returns_early():
    outcome = rewritten(
        _function(
            block("""
                loss = x ** 2
                if m is not None:
                    loss = loss[m]  # valid

                # all
                loss = loss * 2
                return loss.mean()"""),
            "x",
            "m=None",
        ),
        X,
        MASK,
    )
    assert outcome.source == _function(
        block("""
            loss = x ** 2
            if m is not None:
                loss = torch.where(m, loss, 0)  # valid
                loss = loss * 2
                return loss.sum() / m.sum()

            # all
            loss = loss * 2
            return loss.mean()"""),
        "x",
        "m=None",
    )
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((X,), (X, ~MASK))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "(1 - torch.cosine_similarity(x[m], y[m], dim=-1)).mean()",
            "torch.where(m, 1 - torch.cosine_similarity(torch.where(m[..., None], x, 0), "
            "torch.where(m[..., None], y, 0), dim=-1), 0).sum() / m.sum()",
        ),
        (
            "(x[m] / y[m] < 1.25).float().mean(0)",
            "torch.where(m[..., None], (x / y < 1.25).float(), 0).sum(0) / m.sum()",
        ),
    ],
)
def test_rows(before, after):
    outcome = rewritten(_function(f"return {before}", "x", "y", "m"), X, Y, ROWS)
    assert outcome.source == _function(f"return {after}", "x", "y", "m")
    outcome.check()


SELECTED_INDICES = [
    (
        block("""
            k = i >= 0
            j = i[k] * 2
            return torch.zeros(9).scatter_add_(0, j, torch.ones_like(j, dtype=torch.float))"""),
        "k = i >= 0\nj = torch.where(k, i * 2, 0)\n"
        "return torch.zeros(9).scatter_add_(0, j, "
        "torch.where(k, torch.ones_like(j, dtype=torch.float), 0))",
    ),
    (
        block("""
            k = i >= 0
            row, col = torch.stack([i, i + 1])[:, k]  # edges
            return torch.zeros(5, 4).index_add(0, col, x[row].exp())"""),
        "k = i >= 0\nrow, col = torch.where(k, torch.stack([i, i + 1]), 0)  # edges\n"
        "return torch.zeros(5, 4).index_add(0, col, torch.where(k[..., None], "
        "torch.where(k[..., None], x[row], 0).exp(), 0))",
    ),
    (
        block("""
            k = i >= 0
            e = torch.stack([i, i + 1])[:, k]
            return torch.zeros(9).index_add_(0, e[1], x[:, 0][e[0]])"""),
        "k = i >= 0\ne = torch.where(k, torch.stack([i, i + 1]), 0)\n"
        "return torch.zeros(9).index_add_(0, torch.where(k, e[1], 0), "
        "torch.where(k, x[:, 0][torch.where(k, e[0], 0)], 0))",
    ),
    (
        block("""
            k = i >= 0
            j = i[k]
            return x[:, 0][j].log1p().sum() / max(len(j), 1)"""),
        block("""
            k = i >= 0
            j = torch.where(k, i, 0)
            return torch.where(k, x[:, 0][j], 0).log1p().sum() / k.sum().clamp(min=1)"""),
    ),
]


def test_indices_that_are_selected():
    index, x = torch.tensor([2, -1, 3, 0, -1]), torch.rand(6, 4, requires_grad=True)
    sources = [_function(before, "x", "i") for before, _ in SELECTED_INDICES]
    outcomes = rewritten_together(sources, [(x, index)] * len(SELECTED_INDICES))
    for outcome, (_, after) in zip(outcomes, SELECTED_INDICES, strict=True):
        assert outcome.source == _function(after, "x", "i")
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((x, index.flip(0)), (x, index * 0 - 1))


def test_what_is_counted_has_as_many_places_as_told():
    body = block("""
        k = (i >= 0) & (i < 3)
        return torch.bincount(3 * i[k] + i[k], minlength=9)""")
    outcome = rewritten(_function(body, "i"), torch.tensor([2, -1, 1, 255, 0]))
    assert outcome.source == _function(
        "k = (i >= 0) & (i < 3)\nreturn torch.zeros(9, dtype=torch.long, device=k.device)"
        ".scatter_add_(0, torch.where(k, 3 * i + i, 0).flatten(), k.flatten().long())",
        "i",
    )
    assert outcome.assumes == ["no element of `3 * i[k] + i[k]` is 9 or more"]
    outcome.check((torch.tensor([[2, 7, 1], [-1, 0, 2]]),), exact=True)


def test_a_count_may_decide_a_branch_that_other_rules_mend():
    body = block("""
        y = x[m]  # kept
        if y.numel() == 0:
            return x.mean()
        return y.sum() / len(y)""")
    outcome = rewritten(_function(body, "x", "m"), X, MASK)
    assert outcome.source == _function(
        block("""
            y = torch.where(m, x, 0)  # kept
            return torch.where(m.sum() == 0, x.mean(), y.sum() / m.sum().clamp(min=1))"""),
        "x",
        "m",
    )
    outcome.check((X, torch.zeros_like(MASK)))


def test_what_follows_a_choice_goes_into_both_ways():
    body = block("""
        if x[0] > 0:
            x = x[m]  # some
        else:
            x = x[:1]
        # all
        return x.mean()""")
    row = X[:, 0].detach().abs()
    text, (rewrite,), _ = offered(_function(body, "x", "m"), "x[m]", CATEGORY, row, ROWS)
    assert text == _function(
        block("""
            if x[0] > 0:
                x = torch.where(m, x, 0)  # some
                return x.sum() / m.sum()
            else:
                x = x[:1]
                # all
                return x.mean()"""),
        "x",
        "m",
    )
    assert rewrite.applicability is Applicability.SAFE


def test_a_mask_that_is_needed_twice_gets_a_name():
    outcome = rewritten(
        _function(
            block("""
                # positive
                return x[x > 0].mean()"""),
            "x",
        ),
        X,
    )
    assert outcome.source == _function(
        block("""
            # positive
            mask = x > 0
            return torch.where(mask, x, 0).sum() / mask.sum()"""),
        "x",
    )
    outcome.check(((-X.detach().abs()).requires_grad_(),))


def test_no_gradient_comes_from_what_is_not_selected():
    source = _function("return (torch.sqrt(x[~torch.isnan(x)].abs()) / 2).mean()", "x")
    x = X.detach().clone()
    x[0, 0], x[1, 1] = float("nan"), 0.5
    outcome = rewritten(source, x.requires_grad_())
    outcome.check()
    (grad,) = torch.autograd.grad(_run(outcome.source, x), x)
    assert grad[0, 0] == 0 and grad.isfinite().all()


def test_standard_deviation_of_nothing_one_and_some():
    outcome = rewritten(_function("return x[m].std(), x[m].var()", "x", "m"), X, MASK)
    one = torch.zeros_like(MASK)
    one[2, 2] = True
    outcome.check((X.detach(), one), (X.detach(), torch.zeros_like(MASK)))


@pytest.mark.parametrize(
    ("body", "assumption"),
    [
        ("return x[m].max()", "the mask selects an element"),
        ("return x[:, m[0]].min(dim=1).values", "the mask selects an element"),
        ("return x[m].median()", "nothing that is selected is NaN"),
        ("return torch.quantile(x[m], 0.25)", "nothing that is selected is NaN"),
        ("return x.half()[m].mean()", "the sum fits in float16"),
    ],
)
def test_unsafe(body, assumption):
    outcome = rewritten(_function(body, "x", "m"), X, MASK)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert any(assumption in clause for clause in outcome.assumes)
    outcome.check()


def test_unsafe_where_nothing_is_known():
    text, (rewrite,), _ = offered(_function("return x[m].mean()", "x", "m"), "x[m]", CATEGORY)
    assert "torch.where(m, x, 0).sum() / m.sum()" in text
    assert rewrite.applicability is Applicability.UNSAFE
    assert rewrite.assumes == ("the mask is boolean and has the shape of `x`",)


def test_whole_numbers():
    source = _function("return x[m].max() + x[m].sum()", "x", "m")
    outcome = rewritten(source, torch.arange(24).view(6, 4), MASK)
    assert "torch.where(m, x, torch.iinfo(torch.int64).min).max()" in outcome.source
    outcome.check(exact=True)


def _run(source, *args):
    space = {}
    exec(source, space)
    return space["f"](*args)


def test_the_mean_of_rows_counts_the_elements_of_the_widest_tensor():
    outcome = rewritten(_function("return (w[m] * x[m]).mean()", "x", "w", "m"), X, X[:, :1], ROWS)
    assert outcome.source.endswith(".sum() / (m.sum() * x.shape[-1])\n"), outcome.source
