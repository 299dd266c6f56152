import re
import textwrap

import pytest
import torch
from torch.testing import assert_close

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten, rewritten_together
from tests.text import block

HEAD = "import torch\n\n\n"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


def _leaf(x):
    return x.clone().requires_grad_()


def _function(body, *names):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}def f({', '.join(names or ('x',))}):\n{lines}"


def _model(init, forward):
    made = "".join(f"        {line}\n" for line in init.split("\n"))
    lines = "".join(f"        {line}\n" for line in forward.split("\n"))
    return (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n{made}\n    def forward(self, x):\n{lines}"
    )


@pytest.mark.parametrize(
    ("body", "test", "reason"),
    [
        (
            block("""
                if x.sum() > 0:
                    print('positive')
                return x"""),
            "x.sum() > 0",
            "",
        ),
        (
            block("""
                if x.sum() > 0:
                    y = x * 2
                else:
                    y = x.sum()
                return y"""),
            "x.sum() > 0",
            "shape",
        ),
        (
            block("""
                if x.sum() > 0:
                    x = torch.rand(4)
                return x"""),
            "x.sum() > 0",
            "random numbers",
        ),
        (
            block("""
                if x.sum() > 0:
                    y = x
                return y"""),
            "x.sum() > 0",
            "`y` has no value",
        ),
        (
            block("""
                if x.dim() > 1:
                    x = x * 2
                return x"""),
            "x.dim() > 1",
            "",
        ),
        (
            block("""
                if x.sum() > 0:
                    return x, 'up'
                return x, 'down'"""),
            "x.sum() > 0",
            "no tensor",
        ),
        (
            block("""
                if x > 0:
                    x = x * 2
                return x"""),
            "x > 0",
            "",
        ),
    ],
)
def test_left_alone(body, test, reason):
    inputs = X[0] if "if x.dim" in body else X
    known = () if "if x > 0" in body else (inputs,)
    text, _, refusals = offered(
        _function(body), test, "data-dependent branch", *known, rule="FG301"
    )
    assert not text
    assert any(reason in one for one in refusals) or not reason


def test_a_count_beside_an_early_return_is_not_lost():
    body = block("""
        if x.sum() > 0:
            self.calls += 1
            return x * 0
        return x""")
    source = _model("self.calls = 0", body)
    text, _, refusals = offered(source, "x.sum() > 0", "data-dependent branch", X, rule="FG301")
    assert not text
    assert refusals == ["`self.calls` is changed where it returns early"]


FIXED = [
    (
        block("""
            if x.sum() > 2:
                return x
            y = x * 2
            y[0] = y[1] - 1
            return x * y"""),
        block("""
            condition = x.sum() > 2
            y = x * 2
            y[0] = y[1] - 1
            return torch.where(condition, x, x * y)"""),
    ),
    (
        block("""
            k = x.detach()
            if x.sum() > 0:
                a, b = k.sort()
                c = a * 2
                c[1:] = c[1:] - b[:-1]
                x = x * c
            return x"""),
        block("""
            k = x.detach()
            a, b = k.sort()
            c = a * 2
            c[1:] = c[1:] - b[:-1]
            x = torch.where(x.sum() > 0, x * c, x)
            return x"""),
    ),
    (
        block("""
            k = x.detach()
            if x.sum() > 0:
                x = x * (k.abs().std() / 2)
            return x"""),
        block("""
            k = x.detach()
            x = torch.where(x.sum() > 0, x * (k.abs().std() / 2), x)
            return x"""),
    ),
    (
        block("""
            with torch.no_grad():
                k = x * 1
                if k.sum() > 0:
                    k = k.pow(0.5)
            return x * k"""),
        block("""
            with torch.no_grad():
                k = x * 1
                k = torch.where(k.sum() > 0, k.pow(0.5), k)
            return x * k"""),
    ),
    (
        block("""
            if  x.sum( ) > 0 :  # up
                y = x*2
            else:
                # down
                y = x - 1
            return y"""),
        block("""
            # up
            # down
            y = torch.where(x.sum( ) > 0, x*2, x - 1)
            return y"""),
    ),
    (
        block("""
            if x.sum() > 2:
                y = x * 2
            elif x.sum() > 0:  # small
                y = x * 3
            else:
                y = x - 1
            return y"""),
        block("""
            # small
            y = torch.where(x.sum() > 2, x * 2, torch.where(x.sum() > 0, x * 3, x - 1))
            return y"""),
    ),
    (
        "return torch.relu(x * (1 / len(x)) if x.sum() > 0 else -x)  # sign",
        "return torch.relu(torch.where(x.sum() > 0, x * (1 / len(x)), -x))  # sign",
    ),
    (
        block("""
            # scaled
            y = 1 + (x / x.norm() if x.norm() > 0 else x)
            return y"""),
        block("""
            # scaled
            condition = x.norm() > 0
            y = 1 + torch.where(condition, x / torch.where(condition, x.norm(), 1), x)
            return y"""),
    ),
    (
        block("""
            x = x * 1
            if x.sum() > 0:
                x += 1  # up
            else:
                x *= 2
            return x"""),
        block("""
            x = x * 1
            condition = x.sum() > 0
            x += torch.where(condition, 1, 0)  # up
            x *= torch.where(condition, 1, 2)
            return x"""),
    ),
    (
        block("""
            y = x.clone()
            if x.sum() > 0:
                y.mul_( 2 )
            return y"""),
        block("""
            y = x.clone()
            y.mul_( torch.where(x.sum() > 0, 2, 1) )
            return y"""),
    ),
    (
        block("""
            y = x.clone()
            if x.sum() > 0:
                y[0] = x[1]
            else:
                y[0] = x[2]
            return y"""),
        block("""
            y = x.clone()
            y[0] = torch.where(x.sum() > 0, x[1], x[2])
            return y"""),
    ),
    (
        block("""
            d = {}
            if x.sum() > 0:
                d['a'] = x * 2
                d['b'] = x
            else:
                d['a'] = -x
                d['b'] = x
            return d['a']"""),
        block("""
            d = {}
            d['a'] = torch.where(x.sum() > 0, x * 2, -x)
            d['b'] = x
            return d['a']"""),
    ),
    (
        block("""
            k = x > 0
            if k.sum() == 0:
                return x * 0
            return x / k.sum()"""),
        block("""
            k = x > 0
            return torch.where(k.sum() == 0, x * 0, x / k.sum().clamp(min=1))"""),
    ),
    (
        block("""
            y = x.softmax(0)
            if torch.isnan(y).any():
                y = torch.nan_to_num(y, nan=0.5)
            return y"""),
        block("""
            y = x.softmax(0)
            y = torch.nan_to_num(y, nan=0.5)
            return y"""),
    ),
    (
        block("""
            if x.sum() > 0:
                k = x > 0.1
                x = x * k
                return x.sum()
            else:
                x = x[:2]
                return x.mean()"""),
        block("""
            k = x > 0.1
            return torch.where(x.sum() > 0, (x * k).sum(), x[:2].mean())"""),
    ),
    (
        block("""
            y = x.exp()
            if torch.isnan(y).any():
                y = torch.nan_to_num(y, nan=0.5)
            return y"""),
        block("""
            y = x.exp()
            y = torch.where(torch.isnan(y).any(), torch.nan_to_num(y, nan=0.5), y)
            return y"""),
    ),
]


def test_fixed():
    sources = [_function(before) for before, _ in FIXED]
    outcomes = rewritten_together(sources, [(_leaf(X),)] * len(FIXED))
    for outcome, (_, after) in zip(outcomes, FIXED, strict=True):
        assert outcome.source == _function(after)
        assert set(outcome.rules) == {"FG301"}
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((_leaf(-X),), (_leaf(X * 4),), (_leaf(X * 0),))


@pytest.mark.parametrize(
    "body",
    [
        block("""
            if x.sum() > 0:
                if x.max() > 1:
                    return x * 2  # large
                return x * 3
            return x - 1"""),
        block("""
            if not (x.sum() > 0 and x.max().item() > 0.5):
                x = x * 2
            return x"""),
    ],
)
def test_conditions_together(body):
    outcome = rewritten(_function(body), _leaf(X))
    assert set(outcome.rules) == {"FG301"}
    assert set(outcome.applicability) == {Applicability.SAFE}
    outcome.check((_leaf(-X),), (_leaf(X * 4),), (_leaf(X * 0),))


def test_an_attribute_of_the_model_in_both_ways():
    source = _model(
        "self.last = None",
        block("""
            if x.sum() > 0:
                self.last = x * 2
            else:
                self.last = x * 3
            return self.last"""),
    )
    outcome = rewritten(source, _leaf(X))
    assert "self.last = torch.where(x.sum() > 0, x * 2, x * 3)\n" in outcome.source
    outcome.check((_leaf(-X),))


def test_a_buffer_that_counts():
    source = _model(
        "self.register_buffer('n', torch.zeros(()))",
        block("""
            if x.sum() > 0:
                self.n += 1
            return x + self.n"""),
    )
    outcome = rewritten(source, _leaf(X))
    assert "self.n += torch.where(x.sum() > 0, 1, 0)\n" in outcome.source
    outcome.check((_leaf(-X),))


def test_no_gradient_becomes_nan():
    outcome = rewritten(
        _function(
            block("""
                n = x.norm()
                if n > 0:
                    x = x / n
                return x""")
        ),
        _leaf(X),
    )
    assert "x = torch.where(condition, x / torch.where(condition, n, 1), x)" in outcome.source
    outcome.check((_leaf(X * 0),), zero_is_none=True)


def test_unsafe_where_a_gradient_of_zero_takes_the_place_of_none():
    w = torch.ones(4, requires_grad=True)
    source = _function(
        block("""
            if x.sum() > 0:
                x = x * w
            return x"""),
        "x",
        "w",
    )
    outcome = rewritten(source, X, w)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert "`w` may get a gradient of zero where it got none" in outcome.assumes
    outcome.check((-X, _leaf(w.detach())), zero_is_none=True)


def test_unsafe_where_a_number_becomes_a_tensor():
    outcome = rewritten(_function("return x, 1.0 if x.sum() > 0 else 2.0"), X)
    assert outcome.applicability == [Applicability.UNSAFE]
    assert outcome.after.default.ok and outcome.after.fullgraph.ok


def test_an_index_that_the_test_keeps_inside_stays_inside():
    source = _function(
        block("""
            p = t - 9
            return x[p[None]] if p >= 0 else x[:1] * 0"""),
        "x",
        "t",
    )
    outcome = rewritten(source, X, torch.tensor(10))
    assert "x[torch.where(condition, p[None], 0)]" in outcome.source
    outcome.check((X, torch.tensor(2)))


def test_a_buffer_that_only_the_branch_not_taken_copies():
    source = _model(
        block("""
            self.width = 4
            self.register_buffer('anchor', torch.ones(self.width))"""),
        block("""
            if torch.equal(self.anchor, x):
                return self.anchor.clone()
            return x * 2"""),
    )
    outcome = rewritten(source, X.clone())
    line = "return torch.where((self.anchor == x).all(), self.anchor, x * 2)\n"
    assert line in outcome.source
    outcome.check((torch.ones(4),), (torch.ones(3),))


def test_an_assignment_to_an_empty_selection_needs_no_condition():
    body = block("""
        y = x * 2
        m = x > 0.5
        if m.any():
            y[m] = 0
        return y""")
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.source == _function(
        block("""
            y = x * 2
            m = x > 0.5
            y[m] = 0
            return y""")
    )
    outcome.check((_leaf(-X),))


@pytest.mark.compiles
@pytest.mark.parametrize("test", ["m.any()", "m.sum() > 0"])
def test_updates_of_selected_columns_need_no_condition(test):
    branch = block("""
        _, low = torch.min(x[:, m], dim=0)
        y[:, m] *= 0.5
        y[low, m] = 1.0""")
    head = block("""
        y = x * 2
        m = (x > 0.5).sum(0) > 1
    """)
    inner = branch.replace("\n", "\n    ")
    x = _leaf(torch.stack([X, X.flip(0), X - 1]))
    text, *_ = offered(
        _function(f"{head}if {test}:\n    {inner}\nreturn y"),
        test,
        "data-dependent branch",
        x,
        rule="FG301",
    )
    assert text == _function(f"{head}{branch}\nreturn y")
    compiled = torch.compile(imported(text).f, fullgraph=True, backend="eager")
    for value in (x, _leaf(x.detach() * 0)):
        old = imported(_function(f"{head}if {test}:\n    {inner}\nreturn y")).f(value)
        new = compiled(value)
        assert_close(new, old)
        assert_close(*(torch.autograd.grad(one.sum(), value)[0] for one in (new, old)))


@pytest.mark.parametrize(
    "update",
    [
        *("y[m] *= w", "y[m] = w + y[m]", "y[m] = n", "y[m] = x[m].max()"),
        *("y[rows, m] = 2.0", "y[rows, m] *= 2.0"),
    ],
)
def test_an_update_that_does_not_fit_an_empty_selection_is_left_alone(update):
    body = f"y = x * 2\nm = x > 0.5\nn = x[m][:2]\nif m.any():\n    {update}\nreturn y"
    if "rows" in update:
        body = body.replace("x * 2", "x.expand(3, 4) * 2")
    names, values = ("x", "w", "rows"), (X, X[:2], torch.tensor([0, 1]))
    text, _, refusals = offered(
        _function(body, *names), "m.any()", "data-dependent branch", *values, rule="FG301"
    )
    assert not text
    assert "where it selects nothing" in refusals[0]


@pytest.mark.parametrize(
    "update",
    [
        "y[m] *= w",
        "y[m] += torch.relu(y[m]).mean(1, keepdim=True)",
        "k = y[m] * 2\n    y[m] = k - 1",
        "y[m, 1] = 3",
        "y[m] = torch.nn.functional.softmax(x[m, :], dim=1)",
        "y[..., 1][m] = x.sum()",
        "_, low = torch.min(y[:, k], 0)\n    y[low, k] = 1",
        "y[x[0, k].long(), k] = x[:, k].sum(dim=0)",
    ],
)
def test_an_update_that_fits_an_empty_selection(update):
    x = torch.stack([X, X.flip(0), X - 1])
    test = "k.any()" if "k]" in update else "m.any()"
    head = block("""
        m = x[:, 0] > 0.5
        k = x[0] > 0.5
        y = x * 2
    """)
    source = _function(f"{head}if {test}:\n    {update}\nreturn y", "x", "w")
    w = torch.tensor([1.0, 2.0, 3.0, 4.0])
    text, *_ = offered(source, test, "data-dependent branch", x, w, rule="FG301")
    assert update.replace("\n    ", "\n") in textwrap.dedent(text).replace("\n    ", "\n"), text
    for value in (x, -x.abs()):
        assert_close(imported(text).f(value, w), imported(source).f(value, w))


def test_an_update_at_indices_that_are_no_mask_needs_the_condition():
    source = _function(
        block("""
            y = x * 2
            if ids.any():
                y[ids] *= 2
            return y"""),
        "x",
        "ids",
    )
    ids = torch.tensor([1, 3])
    text, *_ = offered(source, "ids.any()", "data-dependent branch", X, ids, rule="FG301")
    assert "y[ids] *= torch.where(ids.any(), 2, 1)\n" in text
    for value in (ids, ids * 0):
        assert_close(imported(text).f(X, value), imported(source).f(X, value))


@pytest.mark.parametrize(
    "branch", ["m = ~m\n    y[m] = 0", "m[0] = True\n    y[m] = 0", "y[x < 0] = 0"]
)
def test_an_assignment_through_another_mask_needs_the_condition(branch):
    body = f"y = x * 2\nm = x > 0.5\nif m.any():\n    {branch}\nreturn y"
    text, *_ = offered(_function(body), "m.any()", "data-dependent branch", X, rule="FG301")
    assert re.search(r"y\[.*\] = torch.where\((condition|m.any\(\)), 0, y", text), text


def test_a_fill_of_an_empty_selection_needs_no_condition():
    body = block("""
        m = x[0] > 0.5
        if m.any():
            x = x.masked_fill(m[None, :], 2)
        return x""")
    outcome = rewritten(_function(body), _leaf(X[None] * torch.ones(3, 1)))
    fixed = block("""
        m = x[0] > 0.5
        x = x.masked_fill(m[None, :], 2)
        return x""")
    assert outcome.source == _function(fixed)
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((_leaf(-X[None].repeat(2, 1)),))
    wider = _function(body.replace("x[0]", "x").replace("[None, :]", "[:, None]"))
    text, *_ = offered(wider, "m.any()", "data-dependent branch", X, rule="FG301")
    assert not text


def test_output_of_a_branch_stays_in_eager():
    body = block("""
        y = x * 1
        for i in range(2):
            if x.sum() > i:
                print('large', i)
                continue
            y = y + x
        return y""")
    outcome = rewritten(_function(body), X)
    guard = "if not torch.compiler.is_compiling() and x.sum() > i:\n            print("
    assert guard in outcome.source
    assert "nobody needs this output from the compiled program" in outcome.assumes
    outcome.check((X * 0,))


def test_a_dict_that_only_one_way_fills_is_left_alone():
    source = _function(
        block("""
            d = {}
            if x.sum() > 0:
                d['a'] = x * 2
            return x, len(d)""")
    )
    text, _, refusals = offered(source, "x.sum() > 0", "data-dependent branch", X, rule="FG301")
    assert not text
    assert "only one branch sets `d['a']`" in refusals[0]


def test_a_branch_that_gathers_and_a_number_that_counts():
    body = block("""
        n = 0
        for row in x:
            if row.sum() > 1:
                n += 1
        if (k >= 0).sum() == 0:
            return x.sum() * 0
        return x.gather(1, k.clamp(min=0)).sum() / max(n, 1)""")
    outcome = rewritten(_function(body, "x", "k"), X.view(2, 2), torch.tensor([[1], [0]]))
    assert "n = torch.where(row.sum() > 1, n + 1, n)" in outcome.source
    clause = "the indices of `x.gather(1, k.clamp(min=0))` are always in range"
    assert clause in outcome.assumes
    assert outcome.after.default.ok and outcome.after.fullgraph.ok


def test_an_update_of_a_slice():
    body = block("""
        y = torch.zeros_like(x)
        for i in range(0, 4, 2):
            k = x[i:i + 2]
            if k.max() < 0.8:
                continue
            y[i:i + 2] += k * 2
        return y""")
    outcome = rewritten(_function(body), X)
    assert "    y[i:i + 2] += torch.where(k.max() < 0.8, 0, k * 2)\n" in outcome.source
    outcome.check((-X,), (X * 4,))


@pytest.mark.parametrize(
    "branch", ["    y = torch.zeros_like(y)", "    x += 1\n    return torch.zeros_like(y)"]
)
def test_a_guard_against_nan_would_not_keep_it_from_the_gradient(branch):
    source = _function(f"y = x.log()\nif torch.isnan(y).any():\n{branch}\nreturn y")
    text, _, (reason,) = offered(
        source, "torch.isnan(y).any()", "data-dependent branch", _leaf(X * 0 + 1), rule="FG301"
    )
    assert not text
    assert "after the compiled call" in reason


LOSS = """m = x[:, 0] > 0
if m.any():
    y = torch.nn.functional.cross_entropy(x, torch.where(m, t, -100))
else:
    y = x.sum() * 0
return y"""


def test_the_loss_of_no_element_is_of_all_where_it_is_not_selected():
    """Its mean would be NaN, and the gradient with it, although `torch.where` takes the zero."""
    x, t = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
    outcome = rewritten(_function(LOSS, "x", "t"), _leaf(x), t)
    assert "cross_entropy(x, torch.where(m | ~m.any(), t, -100))" in outcome.source
    assert "is finite also where all elements are selected" in str(outcome.assumes)
    outcome.check((_leaf(-x.abs()), t))


def test_what_overflows_is_clamped_without_a_subgraph():
    body = block("""
        if x.isinf().any() or x.isnan().any():
            bound = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-bound, max=bound)
        return x""")
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.rules == ["FG301"]
    assert "torch.where(x.isinf().any() | x.isnan().any(), torch.clamp(" in " ".join(
        outcome.source.replace("(\n", "(").split()
    )
    outcome.check((_leaf(X / 0),))


def test_what_equal_tensors_share_needs_no_branch():
    body = block("""
        if torch.equal(x, y):
            q = k = x.exp()
        else:
            q, k = x.exp(), y.exp()  # both
        return q * k""")
    outcome = rewritten(_function(body, "x", "y"), X, X + 1)
    assert outcome.source == _function(
        block("""
            q, k = x.exp(), y.exp()  # both
            return q * k"""),
        "x",
        "y",
    )
    assert outcome.assumes == ["nothing tells `x` and `y` apart where they are equal"]
    outcome.check((X, X.clone()), (X, X[:1]))
    attribute = block("""
        if torch.equal(x, y):
            q = x * y.x
        else:
            q = x * y.y
        return q""")
    text = offered(_function(attribute, "x", "y"), "torch.equal(x, y)", "data-dependent branch")[0]
    assert "y.x" in text or not text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                y = x[n] if n >= 0 else x.sum()
                return y"""),
            block("""
                y = torch.where(n >= 0, x[n.clamp(min=0)[None]].squeeze(0), x.sum())
                return y"""),
        ),
        (
            block("""
                if n < 0:
                    return x.sum()
                return x[n] * 2"""),
            "return torch.where(n < 0, x.sum(), x[n.clamp(min=0)[None]].squeeze(0) * 2)",
        ),
    ],
)
@pytest.mark.parametrize("annotation", ["", ": int | torch.Tensor"])
def test_an_index_that_may_be_negative(before, after, annotation):
    head = f"{HEAD}def f(x, n{annotation}):\n"
    source = head + "".join(f"    {line}\n" for line in before.split("\n"))
    outcome = rewritten(source, X, torch.tensor(2))
    converts = "n = torch.as_tensor(n, device=x.device)\n" if annotation else ""
    lines = (converts + after).split("\n")
    assert outcome.source == head + "".join(f"    {line}\n" for line in lines)
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((X, torch.tensor(-1)), *(((X, 2), (X, -1)) if annotation else ()))


def test_one_of_several_indices_has_to_be_in_range():
    body = block("""
        if i < 2:
            y = x[:, i]
        else:
            y = x[:, 0]
        return y""")
    source = _function(body, "x", "i")
    category = "data-dependent branch"
    inputs = X.expand(3, 4), torch.tensor(1)
    _, (made,), _ = offered(source, "i < 2", category, *inputs, rule="FG301")
    assert made.assumes == ("the indices of `x[:, i]` are always in range",)


def test_eager_and_compiled_code_are_one_without_a_subgraph():
    body = block("""
        if x.sum() > 0:
            x = x * 2
        return x""")
    text, (made,), _ = offered(
        _function(body), "x.sum() > 0", "data-dependent branch", X, rule="FG301"
    )
    assert "torch.where" in text
    assert made.as_compiled is None


@pytest.mark.parametrize("body", ["torch = x * 2", "torch: int = 2", "for torch in (1, 2): pass"])
def test_where_a_variable_is_named_torch_the_branch_stays(body):
    branch = "    if x.sum() > 0:\n        x = x + torch\n    return x\n"
    source = f"{HEAD}def f(x):\n    {body}\n{branch}"
    text, _, refusals = offered(source, "x.sum() > 0", "data-dependent branch", X)
    assert text == "" and "a variable is named `torch`, as the module is" in refusals, refusals


def test_an_import_in_another_function_is_not_enough():
    other = block("""
        def g(x):
            import torch
            return torch.ones(3)
    """)
    source = f"{other}\n\ndef f(x):\n    if x.sum() > 0:\n        x = x + 1\n    return x\n"
    outcome = rewritten(source, torch.ones(3))
    assert outcome.source.startswith("import torch\n")
    assert "torch.where(x.sum() > 0, x + 1, x)" in outcome.source
    outcome.check((-torch.ones(3),))


@pytest.mark.parametrize("value", ["a * 1", "b.sum()"])
def test_where_both_returns_are_one_the_test_of_shapes_goes(value):
    early = value.replace("b", "a")
    source = (
        f"{HEAD}def f(a, b):\n    # quick\n    if torch.equal(a, b):\n"
        f"        return {early}\n    return {value}\n"
    )
    outcome = rewritten(source, X, X.clone())
    assert outcome.source == f"{HEAD}def f(a, b):\n    # quick\n    return {value}\n"
    outcome.check((X, X * 2), (X, X[:2]))


@pytest.mark.parametrize(
    ("branch", "lines"),
    [
        (
            "    h, c = torch.aminmax(x, dim=0)",
            block("""
                new_h, new_c = torch.aminmax(x, dim=0)
                h = torch.where(condition, new_h, h)
                c = torch.where(condition, new_c, c)"""),
        ),
        (
            "    h, c = torch.aminmax(x, dim=0)\n    h = h + c",
            block("""
                new_h, new_c = torch.aminmax(x, dim=0)
                h = torch.where(condition, new_h + new_c, h)
                c = torch.where(condition, new_c, c)"""),
        ),
        (
            "    low, high = torch.aminmax(x, dim=0)\n    h.copy_(torch.min(h, low))",
            block("""
                low, high = torch.aminmax(x, dim=0)
                h.copy_(torch.where(condition, torch.min(h, low), h))"""),
        ),
    ],
)
def test_several_names_are_bound_in_a_branch(branch, lines):
    x, h, c = torch.randn(3, 4), torch.randn(4), torch.randn(4)
    names = ("x", "h", "c")
    fixed = rewritten(_function(f"if x.sum() > 0:\n{branch}\nreturn h + c", *names), x.abs(), h, c)
    after = _function(f"condition = x.sum() > 0\n{lines}\nreturn h + c", *names)
    assert fixed.source == after, fixed.refusals
    fixed.check((-x.abs(), h, c))


def test_branches_that_bind_the_same_names_run_by_themselves():
    body = block("""
        if x.sum() > 0:
            h, c = torch.aminmax(x, dim=0)
        else:
            h, c = torch.aminmax(-x, dim=0)
        return h + c * 2""")
    x = torch.randn(3, 4)
    fixed = rewritten(_function(body), x.abs())
    assert fixed.rules == ["FG302"]
    fixed.check((-x.abs(),))


GUIDED = block("""
    if x.sum() > self.low and x.sum() < self.high:
        out = x + self.scale * (self.net(x + 1) - x)
    else:
        out = self.net(x + 1)
    return out * 2""")


@pytest.mark.parametrize("name", ["net", "net_out"])
def test_a_layer_that_both_branches_call_is_called_once(name):
    init = block("""
        self.net = torch.nn.Linear(4, 4)
        self.scale, self.low, self.high = 3.0, -9.0, 9.0""")
    body = GUIDED if name == "net" else f"{name} = 1.0\n{GUIDED} * {name}"
    outcome = rewritten(_model(init, body), X)
    called = "net_out" if name == "net" else "net_out_2"
    assert outcome.rules == ["FG301"], outcome.refusals
    assert f"        {called} = self.net(x + 1)\n        out = torch.where(" in outcome.source
    assert f"x + self.scale * ({called} - x), {called})\n" in outcome.source
    assert outcome.source.count("self.net(") == 1
    assert outcome.after.fullgraph.ok
    outcome.check((_leaf(X),), (_leaf(X * 9),), (_leaf(X * -99),))


IN_PLACE_BRANCHES = (
    block("""
        if t:
            return self.fc(x)
        return self.act(self.fc(x))"""),
    block("""
        if t:
            return self.fc(x)
        y = self.fc(x)
        return self.act(y)"""),
    block("""
        if t:
            y = self.fc(x)
        else:
            y = self.act(self.fc(x))
        return y"""),
    "return self.fc(x) if t else self.act(self.fc(x))",
)


@pytest.mark.parametrize(
    ("body", "act", "calls"),
    [
        *((body, "ReLU(inplace=True)", 2) for body in IN_PLACE_BRANCHES),
        (IN_PLACE_BRANCHES[3], "Sequential(torch.nn.ReLU(True))", 2),
        (IN_PLACE_BRANCHES[0], "ReLU()", 1),
    ],
)
def test_no_result_is_shared_that_a_layer_changes_in_place(body, act, calls):
    init = f"self.fc = torch.nn.Linear(4, 4)\nself.act = torch.nn.{act}"
    outcome = rewritten(_model(init, f"t = x.sum() > 0\n{body}"), X)
    assert outcome.rules == ["FG301"], outcome.refusals
    assert outcome.source.count("self.fc(") == calls, outcome.source
    outcome.check((_leaf(X),), (_leaf(-X),))


def test_a_layer_is_not_called_before_its_operand_is_assigned():
    init = "self.net = torch.nn.Linear(4, 4)"
    line = "return (x := x * 2) + (self.net(x) if t else -self.net(x))"
    source = _model(init, f"t = x.sum() > 0\n{line}")
    outcome = rewritten(source, X)
    assert "net_out" not in outcome.source
    assert "(x := x * 2) + torch.where(t, self.net(x), -self.net(x))" in outcome.source
    outcome.check((_leaf(X),), (_leaf(X * -9),))


@pytest.mark.parametrize(
    ("one", "other", "lines"),
    [
        ("torch.tanh(x) * 2", "torch.tanh(x)", []),
        ("x.exp() * 2", "x.exp()", []),
        ("twice(x) * 3", "x - twice(x)", ["twice_out = twice(x)"]),
        ("twice(x) * 3", "x - twice(x + 1)", []),
        ("twice(x) * twice(x)", "x - 1", []),
        (
            "twice(twice(x)) + twice(x - 1)",
            "twice(x - 1) - twice(twice(x))",
            ["twice_out = twice(twice(x))", "twice_out_2 = twice(x - 1)"],
        ),
        (
            "twice(x * twice_out) + twice(x - 1)",
            "twice(x - 1) - twice(x * twice_out)",
            ["twice_out_2 = twice(x * twice_out)", "twice_out_3 = twice(x - 1)"],
        ),
        ("torch.mv(w, x) + x @ w", "torch.mv(w, x)", []),
        ("torch.matmul(w, x) * 2", "torch.matmul(w, x)", ["matmul_out = torch.matmul(w, x)"]),
    ],
)
def test_only_calls_of_functions_and_products_are_shared(one, other, lines):
    function = f"if x.sum() > 0:\n    y = {one}\nelse:\n    y = {other}\nreturn y * 2"
    more = ["twice_out=2.0"] if "twice_out" in one else []
    source = _function(function, "x", "w", *more).replace(
        "def f", "def twice(x):\n    return x * 2\n\n\ndef f"
    )
    outcome = rewritten(source, X, torch.eye(4))
    assert outcome.rules == ["FG301"], outcome.refusals
    found = [line.strip() for line in outcome.source.splitlines()]
    assert [line for line in found if re.match(r"\w+_out(_\d)? =", line)] == lines
    outcome.check((_leaf(X), torch.eye(4)), (_leaf(-X), torch.eye(4)))


def test_a_call_that_the_condition_makes_too_leaves_the_condition_its_name():
    branches = "    y, z = twice(x) * x, x\nelse:\n    y, z = twice(x), x * 2\n"
    source = _function(f"if twice(x).sum() > 0:\n{branches}return y * z")
    source = source.replace("def f", "def twice(x):\n    return x * 2\n\n\ndef f")
    outcome = rewritten(source, X)
    assert "    condition = twice(x).sum() > 0\n" in outcome.source
    assert outcome.source.count("sum() > 0") == 1
    outcome.check((_leaf(X),), (_leaf(-X),))


def test_a_shared_call_reads_what_the_branches_assigned_before_it():
    function = block("""
        if x.sum() > 0:
            x = x * 3
            y = twice(x) + 1
        else:
            y = twice(x)
        return y * x""")
    source = _function(function).replace("def f", "def twice(x):\n    return x * 2\n\n\ndef f")
    outcome = rewritten(source, X)
    assert "_out" not in outcome.source
    outcome.check((_leaf(X),), (_leaf(-X),))


SHARED = [  # statements, and what becomes of them
    (
        block("""
            if x.sum() > 0:
                return twice(x) * 3
            # else
            return x - twice(x)"""),
        block("""
            # else
            twice_out = twice(x)
            return torch.where(x.sum() > 0, twice_out * 3, x - twice_out)"""),
    ),
    (
        block("""
            if x.sum() > 0:
                return twice(x)
            y = twice(x)
            z = twice(-x)
            return z + 3 * (y - z)"""),
        block("""
            condition = x.sum() > 0
            y = twice(x)
            z = twice(-x)
            return torch.where(condition, y, z + 3 * (y - z))"""),
    ),
    (
        block("""
            if x.sum() > 0:
                return twice(x)
            y = twice(x)
            y = y + 1
            return y * 3"""),
        block("""
            condition = x.sum() > 0
            y = twice(x)
            y = y + 1
            return torch.where(condition, twice(x), y * 3)"""),
    ),
    (
        block("""
            if x.sum() > 0:
                return twice(x)
            x = x * 2
            y = twice(x)
            return y * 3"""),
        block("""
            condition = x.sum() > 0
            early = twice(x)
            x = x * 2
            y = twice(x)
            return torch.where(condition, early, y * 3)"""),
    ),
    (
        block("""
            if s > 1 and x.sum() > 0:
                return twice(x) * 3
            return x - twice(x)"""),
        block("""
            if s > 1:
                twice_out = twice(x)
                return torch.where(x.sum() > 0, twice_out * 3, x - twice_out)
            return x - twice(x)"""),
    ),
    (
        block("""
            y = x + (twice(x) * 3 if x.sum() > 0 else x - twice(x))
            return y"""),
        block("""
            twice_out = twice(x)
            y = x + torch.where(x.sum() > 0, twice_out * 3, x - twice_out)
            return y"""),
    ),
    (
        "return [twice(y) * 3 if y > 0 else y - twice(y) for y in x]",
        "return [torch.where(y > 0, twice(y) * 3, y - twice(y)) for y in x]",
    ),
]


def test_calls_are_shared_after_an_early_return_and_in_conditional_expressions():
    head = "import torch\n\n\ndef twice(x):\n    return x * 2\n\n\ndef f(x, s):\n"
    sources, results = (
        [head + textwrap.indent(one[side], "    ") + "\n" for one in SHARED] for side in (0, 1)
    )
    outcomes = rewritten_together(sources, [(X, 2)] * len(SHARED))
    for outcome, result in zip(outcomes, results, strict=True):
        assert outcome.source == result, outcome.refusals
        outcome.check((_leaf(X), 2), (_leaf(-X), 2), (_leaf(X), 1))


def test_a_layer_of_an_early_return_is_called_once_and_others_not_in_eager_code():
    body = block("""
        s = x.max()
        if s == 0.9:
            return self.net(x)
        c = self.net(x)
        return c + s * (c - self.net(-x))""")
    outcome = rewritten(_model("self.net = torch.nn.Linear(4, 4)", body), X)
    assert "c = self.net(x)\n        return torch.where(condition, c, c + s" in outcome.source
    leave = block("""
        if not torch.compiler.is_compiling() and condition:
                    return self.net(x)
    """)
    assert leave in outcome.source  # eager code calls no more layers than before
    outcome.check((_leaf(X),), (_leaf(-X),), zero_is_none=True)
