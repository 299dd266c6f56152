import pytest
import torch

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten, rewritten_together
from tests.text import block

HEAD = block("""
    import math
    import statistics

    import numpy as np
    import torch


""")
CATEGORY = "scalar extraction"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        ("return x[: x.sum().long().item()]", "x.sum().long().item()"),
        ("return x.view(int(x.sum()), -1)", "int(x.sum())"),
        ("return {x.sum().item(): x}", "x.sum().item()"),
        ("n = x.sum().item()\n    return f'{n}', x", "x.sum().item()"),
        ("n = x.sum().item()\n    return [x, x * 2][n > 1]", "x.sum().item()"),
        ("return x.split(x.long().tolist())", "x.long().tolist()"),
        ("return [x, x + 1, x, x, x][int(x.sum())]", "int(x.sum())"),
        ("sizes = x.long().tolist()\n    return x.split(sizes)", "x.long().tolist()"),
        ("n = int(x.sum())\n    return sum(x * i for i in range(n))", "int(x.sum())"),
        ("n = x.sum().item()\n    print(n)\n    return x * n", "x.sum().item()"),
        ("return torch.dropout(x, x.mean().abs().item(), True)", "x.mean().abs().item()"),
        ("return x[torch.tensor([0]), None, int(x.mean())]", "int(x.mean())"),
        (
            "return x + torch.randint(0, (x > 0).sum(), (2,))",
            "torch.randint(0, (x > 0).sum(), (2,))",
        ),
    ],
)
def test_left_alone(body, expression):
    text, _, refusals = offered(
        f"{HEAD}def f(x):\n    {body}\n", expression, CATEGORY, torch.ones(4)
    )
    assert not text and refusals


FIXED = [
    (
        "return x / max( 1, (x > 0).sum().item() )  # at least one",
        "return x / (x > 0).sum().clamp(min=1)  # at least one",
    ),
    (
        "total = max(x.abs().sum().item(), 1.0)\n    y = x / total\n    return y * total",
        "total = x.abs().sum().detach().clamp(min=1.0)\n    y = x / total\n    return y * total",
    ),
    (
        "n = float( x.sum() )\n\n    return x * (2 * n + 1)",
        "n = x.sum().detach()\n\n    return x * (2 * n + 1)",
    ),
    ("return x * math.sqrt(x.abs().sum())", "return x * x.abs().sum().detach().sqrt()"),
    (
        "return x * (2 * np.exp(-x.mean().item()) + 0.1)",
        "return x * (2 * (-x.mean().detach()).exp() + 0.1)",
    ),
    (
        "c = 0.2 * x.abs().max().item()\n    return torch.where(x <= c, x, c)",
        "c = 0.2 * x.abs().max().detach()\n    return torch.where(x <= c, x, c)",
    ),
    ("return x.clamp(max=x.mean().item())", "return x.clamp(max=x.mean().detach())"),
    (
        "return x.clamp(0, x.detach().mean())",
        "return x.clamp(min=0).clamp(max=x.detach().mean())",
    ),
    (
        "m = x.mean().item()\n    return x.clamp(-1, max=m), torch.clamp(x, m, 2.0)",
        "m = x.mean().detach()\n    return x.clamp(min=-1).clamp(max=m), "
        "x.clamp(min=m).clamp(max=2.0)",
    ),
    (
        "n = (x > 0).sum().item()\n    return x.add(x, alpha=1 / (n + 1)), x * (n // 2)",
        "n = (x > 0).sum()\n    return x.add(x * (1 / (n + 1))), x * (n // 2)",
    ),
    (
        "return torch.full_like(x, x.max().item()) + torch.tensor(x.min().item())",
        "return torch.empty_like(x).fill_(x.max().detach()) + x.min().detach()",
    ),
    (
        "total = 0.0\n    for row in x.view(2, 2):\n        total += row.sum().item()\n"
        "    return x + total",
        "total = 0.0\n    for row in x.view(2, 2):\n        total += row.sum().detach()\n"
        "    return x + total",
    ),
    (
        "a, b = x[:2].tolist()  # the first two\n    return a * x + b",
        "a, b = x[:2].detach().unbind()  # the first two\n    return a * x + b",
    ),
    (
        "a, b = x[:2].long().tolist()\n    return x * max(a, b, 1) + max(a, b)",
        "a, b = x[:2].long().unbind()\n"
        "    return x * b.clamp(min=a).clamp(min=1) + torch.maximum(a, b)",
    ),
    (
        "y = x\n    for i, v in enumerate(x.tolist()):\n        y = y + v * i\n    return y",
        "y = x\n    for i, v in enumerate(x.detach().unbind()):\n        y = y + v * i\n"
        "    return y",
    ),
    (
        "i = x.argmax().item()\n    t = torch.arange(4)\n    return x[t[i][None]].squeeze(0) * x",
        "i = x.argmax()\n    t = torch.arange(4)\n    return x[t[i[None]]].squeeze(0) * x",
    ),
    (
        "i = x.argmax().item()\n    return x[i] * x",
        "i = x.argmax()\n    return x[i[None]].squeeze(0) * x",
    ),
    (
        "y = x * 1\n    y[x.argmin().item()] = 0.0\n    return y",
        "y = x * 1\n    y[x.argmin()[None]] = 0.0\n    return y",
    ),
    (
        "n = len(x) - x.gt(0).sum().item()\n    return n * x",
        "n = len(x) - x.gt(0).sum()\n    return n * x",
    ),
    ("return x * -(x > 0).any().item()", "return x * -(x > 0).any().long()"),
    (
        "return torch.tensor([x.max().item(), 2.0], dtype=x.dtype)",
        "return torch.tensor([x.max().detach(), 2.0], dtype=x.dtype)",
    ),
]


def test_fixed():
    sources = [f"{HEAD}def f(x):\n    {before}\n" for before, _ in FIXED]
    outcomes = rewritten_together(sources, [(X.clone().requires_grad_(),)] * len(FIXED))
    for outcome, (_, after) in zip(outcomes, FIXED, strict=True):
        assert outcome.source == f"{HEAD}def f(x):\n    {after}\n", outcome.refusals
        assert set(outcome.applicability) == {Applicability.SAFE}, outcome.assumes
        outcome.check()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return x * (1 / x.sum().item())", "return x * (1 / x.sum().detach())"),
        ("return x + int(x.sum() * 3)", "return x + (x.sum() * 3).trunc().detach()"),
        ("return x * round(x.mean().item(), 2)", "return x * x.mean().detach().round(decimals=2)"),
        ("return x.sum().item(), x * 2", "return x.sum().detach(), x * 2"),
        ("return x.tolist(), x * 2", "return list(x.detach().unbind()), x * 2"),
        (
            "parts = []\n    for row in x.view(2, 2):\n        parts.append(row.max().item())\n"
            "    return x - sum(parts) / len(parts)",
            "parts = []\n    for row in x.view(2, 2):\n        parts.append(row.max().detach())\n"
            "    return x - sum(parts) / len(parts)",
        ),
        ("return x * math.log(x.sum())", "return x * x.sum().detach().log()"),
    ],
)
def test_unsafe(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    {before}\n", X)
    assert outcome.source == f"{HEAD}def f(x):\n    {after}\n", outcome.refusals
    assert set(outcome.applicability) == {Applicability.UNSAFE} and outcome.assumes
    assert outcome.after.default.ok and outcome.after.fullgraph.ok


def test_numbers_that_are_averaged():
    function = (
        f"{HEAD}def f(x):\n    rows = [row.max().%s() for row in x[None]]\n    return x - %s\n"
    )
    outcome = rewritten(function % ("item", "statistics.mean(rows)"), X)
    assert outcome.source == function % ("detach", "torch.stack(rows).mean()"), outcome.refusals
    outcome.check()
    added = function.replace("rows = [", "rows = []\n    for row in x[None]:\n        rows += [")
    added = added.replace(" for row in x[None]]", "]")
    outcome = rewritten(added % ("item", "statistics.mean(rows)"), X)
    assert outcome.source == added % ("detach", "torch.stack(rows).mean()"), outcome.refusals
    outcome.check()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float16, torch.float64])
def test_a_number_does_not_change_the_dtype(dtype):
    source = (
        f"{HEAD}def f(x, y):\n    n = y.sum().item()\n    return x * n, x + 2 * n, x.sum() - n\n"
    )
    for other in (torch.int64, torch.float32):
        y = torch.tensor([1.0, 2.0]).to(dtype)
        outcome = rewritten(source, torch.tensor([3, 4]).to(other), y)
        if outcome.rules:
            outcome.check()
        else:
            assert outcome.refusals


QUEUE = f"""{HEAD}class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.zeros(3, 8))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))
        self.K = 8

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        ptr = int(self.queue_ptr)
        assert self.K % n == 0  # for simplicity
        # replace the keys at ptr
        self.queue[:, ptr : ptr + n] = keys.T
        ptr = (ptr + n) % self.K  # move pointer
        self.queue_ptr[0] = ptr

    def forward(self, x):
        self.enqueue(x)
        return x @ self.queue.clone().detach()
"""


def test_the_pointer_of_a_queue():
    outcome = rewritten(QUEUE, torch.randn(4, 3))
    assert "ptr = self.queue_ptr.reshape(()).clone()\n" in outcome.source, outcome.refusals
    assert (
        "ptr + torch.arange(n, device=self.queue.device)] = keys.T.to(self.queue.dtype)"
        in outcome.source
    )
    assert "# replace the keys at ptr\n" in outcome.source
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check()


@pytest.mark.parametrize(
    ("start", "width"),
    [
        ("(n.max() + 1 - 4).clamp(min=0)", "min(4, x.shape[-1])"),
        ("max(0, n.max().item() - 3)", "min(4, x.shape[-1])"),
        ("n.max() - 3", "4"),
    ],
)
def test_a_window_at_the_start_of_a_shorter_tensor(start, width):
    source = f"{HEAD}def f(x, n):\n    first = {start}\n    return x[..., first : first + 4] * 2\n"
    x, long = torch.randn(2, 6), torch.tensor([5, 3])
    outcome = rewritten(source, x, long)
    index = f"first + torch.arange({width}, device=x.device)"
    assert f"return x[..., {index}] * 2\n" in outcome.source, outcome.refusals
    outcome.check(exact=True)
    if width != "4":
        outcome.check((x[:, :3], torch.tensor([2])), (x[:, :0], torch.tensor([0])), exact=True)


def test_a_window_of_a_buffer_or_of_several_tensors_has_its_length():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer('table', torch.randn(6))

            def forward(self, x, y, n):
                first = (n - 3).clamp(min=0)
                p = self.table[first : first + 4]
                last = (n - 2).clamp(min=0)
                q, r = x[last : last + 3], 1
                s = y[last : last + 3]
                return p[:3] + q + r + s
    """)
    outcome = rewritten(source, torch.randn(6), torch.randn(9), torch.tensor(4))
    assert "min(" not in outcome.source.replace("(min=0)", ""), outcome.source
    assert "torch.arange(3, device=x.device)" in outcome.source, outcome.refusals
    outcome.check(exact=True)


def test_a_list_of_numbers_that_is_an_index_is_stacked():
    source = block("""
        import torch


        def position(times, time):
            return int((times == time).int().argmax())


        def f(times, wanted, x):
            at = [position(times, time) for time in wanted]
            return x[at] * 2
    """)
    times = torch.arange(5.0)
    outcome = rewritten(source, times, times[[3, 1]], torch.randn(5, 2))
    assert "return (times == time).int().argmax()\n" in outcome.source
    assert "return x[torch.stack(at)] * 2\n" in outcome.source
    assert "`at` is not empty" in outcome.assumes
    outcome.check((times, times[[0, 4, 2]], torch.randn(5, 2)), exact=True)


def test_an_index_into_a_tensor_that_stays_on_its_device_is_unsafe():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.alphas = torch.linspace(0, 1, 9)

            def forward(self, t):
                return self.alphas[t.item()] * 2
    """)
    outcome = rewritten(source, torch.tensor(3))
    assert "self.alphas[t[None]].squeeze(0) * 2" in outcome.source
    assert outcome.assumes == ["`t.item()` is on the device of `self.alphas`"]


PREVIOUS = "def previous(t){}:\n    return t - 1\n\n\n"


@pytest.mark.parametrize(
    ("returns", "parameter", "index"),
    [
        ("", "t", "previous(t)"),
        (" -> int | torch.Tensor", "t", "previous(t) - 0"),
        ("", "t: int", "t - 1"),
        ("", "t: 'int | torch.Tensor'", "t - 1"),
        ("", "t=3", "t - 1"),
    ],
)
def test_an_index_that_may_be_an_int_is_converted_once(returns, parameter, index):
    head = f"{HEAD}{PREVIOUS.format(returns)}def f(x, {parameter}):\n    p = {index}\n"
    outcome = rewritten(f"{head}    y = x[p] * 2\n    return y + x[p]\n", X, torch.tensor(3))
    assert outcome.source == (
        f"{head}    p = torch.as_tensor(p, device=x.device)\n"
        "    y = x[p[None]].squeeze(0) * 2\n    return y + x[p[None]].squeeze(0)\n"
    )
    assert {*outcome.applicability} == {Applicability.SAFE}
    outcome.check((X, 2), (X, torch.tensor(0)))


@pytest.mark.parametrize(
    ("returns", "body"),
    [
        ("", "p = t - 1\n    return x[p] * 2"),
        (" -> torch.Tensor", "p = previous(t)\n    return x[p] * 2"),
        (" -> 'list[int] | torch.Tensor'", "p = previous(t)\n    return x[p] * 2"),
        ("", "p = previous(t)\n    return [x[p] for p in (p, p)]"),
    ],
)
def test_an_index_that_is_a_tensor_is_not_converted(returns, body):
    source = f"{HEAD}{PREVIOUS.format(returns)}def f(x, t):\n    {body}\n"
    outcome = rewritten(source, X, torch.tensor(3))
    assert outcome.source == source.replace("x[p]", "x[p[None]].squeeze(0)")
    assert outcome.applicability == [Applicability.SAFE]


@pytest.mark.parametrize(
    "body",
    [
        "return x if p is None else x[p] * x",
        "return x[p] * 2 if x.dim() else x",
        "return [y[p] for y in (x,)]",
        "if x.dim() > 3:\n        return x\n    elif x[p].dim() == 0:\n        return x * 2",
        "for y in (x,): y = y[p]\n    return y",
    ],
)
def test_an_index_that_no_line_can_convert_is_unsafe(body):
    source = f"{HEAD}{PREVIOUS.format('')}def f(x, t):\n    p = previous(t)\n    {body}\n"
    outcome = rewritten(source, X, torch.tensor(3))
    assert outcome.source == source.replace("[p]", "[p[None]].squeeze(0)")
    assert outcome.assumes == ["`p` is a tensor in each call"]


def test_an_index_under_a_condition_on_it_is_left_to_the_branch():
    head = f"{HEAD}{PREVIOUS.format('')}def f(x, t):\n    p = previous(t)\n"
    source = f"{head}    return x[p] if p >= 0 else x.sum()\n"
    _, rewrites, refusals = offered(source, "x[p]", CATEGORY, X, torch.tensor(3), rule="FG201")
    assert not rewrites
    assert refusals == ["`p >= 0` decides whether it is read, and is a branch of its own"]


@pytest.mark.parametrize(
    "choice",
    [
        "    y = x[p] if p >= 0 else x.sum()\n",
        "    if p >= 0:\n        y = x[p]\n    else:\n        y = x.sum()\n",
    ],
)
def test_a_branch_on_an_index_converts_it_first(choice):
    head = f"{HEAD}{PREVIOUS.format('')}def f(x, t):\n    p = previous(t)\n"
    outcome = rewritten(f"{head}{choice}    return y * 2\n", X, torch.tensor(3))
    assert outcome.rules == ["FG301"], outcome.refusals
    assert outcome.source == (
        f"{head}    p = torch.as_tensor(p, device=x.device)\n"
        "    y = torch.where(p >= 0, x[p.clamp(min=0)[None]].squeeze(0), x.sum())\n"
        "    return y * 2\n"
    )
    outcome.check((X, 2), (X, 0))


def test_a_converted_index_that_is_returned_is_unsafe():
    body = "p = previous(t)\n    y = x[p] * 2\n    return y, p\n"
    source = f"{HEAD}{PREVIOUS.format('')}def f(x, t):\n    {body}"
    outcome = rewritten(source, X, torch.tensor(3))
    assert "    p = torch.as_tensor(p, device=x.device)\n" in outcome.source
    assert outcome.assumes == ["code that reads `p` later accepts a tensor on the device of `x`"]


def test_a_converted_index_is_on_the_device_of_the_table():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.alphas = torch.linspace(0, 1, 9)

            def previous(self, t):
                return t - 1

            def forward(self, t):
                p = self.previous(t)
                return self.alphas[p] * 2
    """)
    outcome = rewritten(source, torch.tensor(3))
    assert "        p = torch.as_tensor(p, device=self.alphas.device)\n" in outcome.source
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((5,))


@pytest.mark.compiles
def test_a_number_that_is_kept_is_unsafe_and_proved_by_value():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.stats = {}\n\n"
        "    def forward(self, x):\n        self.stats['sum'] = x.sum().item()\n"
        "        return x * 2\n"
    )
    fixes = fix(imported(source).Model(), X, inductor=False)
    assert fixes.after.causes and not fixes.after_unsafe.causes, fixes
    (suggestion,) = fixes.suggestions
    assert suggestion.applicability is Applicability.UNSAFE and suggestion.accepted
    assert "self.stats['sum'] = x.sum().detach()" in suggestion.diff


def test_a_number_goes_through_functions_of_the_file():
    source = (
        f"{HEAD}def _peak(x):\n    return x.abs().max().item()\n\n\n"
        "def scaled(x, by):\n    return x * by\n\n\n"
        "def f(x):\n    return scaled(x, _peak(x) + 1)\n"
    )
    outcome = rewritten(source, X.clone().requires_grad_())
    assert "return x.abs().max().detach()\n" in outcome.source, outcome.refusals
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check()


def test_the_sum_of_an_attribute_is_unsafe():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.total = 0.0\n\n"
        "    def forward(self, x):\n        self.total += x.sum().item()\n        return x * 2\n"
    )
    outcome = rewritten(source, X)
    assert "self.total += x.sum().detach().double()\n" in outcome.source
    assert outcome.applicability == [Applicability.UNSAFE]


STATISTICS = (
    f"{HEAD}class Model(torch.nn.Module):\n"
    "    def __init__(self):\n        super().__init__()\n"
    "        self.mean, self.var, self.count = 0.0, 1.0, 0\n\n"
    "    def forward(self, rewards):\n"
    "        n = rewards.numel()\n        total = self.count + n\n"
    "        delta = rewards.mean().item() - self.mean\n"
    "        self.mean += delta * n / total\n"
    "        self.var = (self.var * self.count + rewards.var().item() * n) / total\n"
    "        self.count = total\n"
    "        return (rewards - self.mean) / (self.var + 1e-8)\n"
)


@pytest.mark.compiles
def test_statistics_of_half_precision_are_kept_in_float64():
    rewards = 3 * torch.randn(20_000, generator=torch.Generator().manual_seed(0)).half()
    outcome = rewritten(STATISTICS, rewards)
    after = STATISTICS
    for read in ("rewards.mean()", "rewards.var()"):
        after = after.replace(f"{read}.item()", f"{read}.detach().double()")
    assert outcome.source == after, outcome.refusals
    eager, edited = imported(STATISTICS).Model(), imported(outcome.source).Model()
    compiled = torch.compile(edited, fullgraph=True, backend="eager")
    for factor in (1, 2, 3):
        expected = eager(factor * rewards)
        actual = compiled(factor * rewards)
        assert actual.dtype is torch.half and actual.isfinite().all()
        torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(float(edited.var), eager.var)


def test_statistics_that_meet_a_loss_keep_its_dtype():
    loss = "return rewards.sum() * self.mean"
    source = STATISTICS.replace("return (rewards - self.mean) / (self.var + 1e-8)", loss)
    outcome = rewritten(source, X)
    assert "delta = rewards.mean().detach() - self.mean\n" in outcome.source
    assert "rewards.var().detach().double() * n" in outcome.source
    assert imported(outcome.source).Model()(X).dtype is X.dtype


@pytest.mark.compiles
def test_what_torch_says_of_a_conversion_is_no_output():
    source = f"{HEAD}def f(x, w):\n    return x * float((x * w).sum()), w\n"
    w = torch.ones(4, requires_grad=True)
    fixes = fix(imported(source).f, (X, w), inductor=False)
    assert not fixes.after.causes, fixes


TABLE = torch.randn(5, 7)
INDEX = torch.tensor([3, 0, 2, 1, 4])


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        ("p = i[0]\n    y = x[p]\n    y += 1\n    return x", "x[p]"),
        ("n = i[0].item()\n    return x[:n]", "i[0].item()"),
        ("n = i[0].item()\n    return x[:n].max(0)", "i[0].item()"),
        ("n = i[0].item()\n    return x[:n].sum(1)", "i[0].item()"),
        ("n = i[0].item()\n    return x[::n].sum(0)", "i[0].item()"),
        ("n = i[0].item()\n    return torch.roll(x, n)", "i[0].item()"),
        ("n = i[0].item()\n    return torch.roll(x, (n, 1), (0, 1))", "i[0].item()"),
    ],
)
def test_tables_and_lengths_left_alone(body, expression):
    source = f"{HEAD}def f(x, i):\n    {body}\n"
    text, _, _ = offered(source, expression, CATEGORY, TABLE, INDEX)
    assert not text


TABLES = [
    (
        "p = i[0]\n    return x[p] + 1  # one",
        "p = i[0]\n    return x[p[None]].squeeze(0) + 1  # one",
    ),
    (
        "n = i.argmin().item()\n    return torch.roll(x, -n, dims=1)",
        "n = i.argmin()\n    return x.index_select(1, "
        "(torch.arange(x.shape[1], device=x.device) + n) % x.shape[1])",
    ),
    (
        "n = i.argmin().item()\n    return x[0].roll(n - 9)",
        "n = i.argmin()\n    return x[0].index_select(0, "
        "(torch.arange(x[0].shape[0], device=x[0].device) - (n - 9)) % x[0].shape[0])",
    ),
    (
        "n = int(i.argmin())\n    return x[1, :n].mean(0)",
        "n = i.argmin()\n    return torch.where(torch.arange(x.shape[1], device=x.device) < n, "
        "x[1], 0).sum(0) / n.clamp(max=x.shape[1])",
    ),
    (
        "n = i.argmin().item()\n    return x[:n].sum()",
        "n = i.argmin()\n    return torch.where((torch.arange(x.shape[0], device=x.device) < n)"
        "[:, None], x, 0).sum()",
    ),
]


def test_tables_and_lengths():
    sources = [f"{HEAD}def f(x, i):\n    {before}\n" for before, _ in TABLES]
    table = TABLE.clone().requires_grad_()
    outcomes = rewritten_together(sources, [(table, INDEX)] * len(TABLES))
    for outcome, (_, after) in zip(outcomes, TABLES, strict=True):
        assert outcome.source == f"{HEAD}def f(x, i):\n    {after}\n"
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((table, INDEX + 1), (table, -INDEX))


SPANS = [
    (
        "out = []\n    for b, (s, e) in enumerate(spans.tolist()):\n"
        "        out.append(x[b, s:e].mean(dim=0))\n    return torch.stack(out)",
        "out = []\n    for b, (s, e) in enumerate(spans.unbind()):\n"
        "        positions = torch.arange(x.shape[1], device=x.device)\n"
        "        inside = ((positions >= s) & (positions < e))[:, None]\n"
        "        out.append(torch.where(inside, x[b], 0).sum(dim=0) / inside.sum())\n"
        "    return torch.stack(out)",
    ),
    (
        "return torch.stack([x[:, s : e + 1].amax(1) for s, e in spans.tolist()])",
        "return torch.stack([torch.where(((torch.arange(x.shape[1], device=x.device) >= s) & "
        "(torch.arange(x.shape[1], device=x.device) < e + 1))[:, None], x, "
        'float("-inf")).amax(1) for s, e in spans.unbind()])',
    ),
    (
        "first, second = spans.tolist()\n    low, high = second\n"
        "    return torch.logsumexp(x[first[0] :, low:high], dim=(0, 1))",
        "first, second = spans.unbind()\n    low, high = second\n"
        "    rows = torch.arange(x.shape[0], device=x.device)\n"
        "    columns = torch.arange(x.shape[1], device=x.device)\n"
        "    inside = (rows >= first[0])[:, None, None] & ((columns >= low) & (columns < high))"
        "[:, None]\n"
        '    return torch.logsumexp(torch.where(inside, x, float("-inf")), dim=(0, 1))',
    ),
]


def test_reductions_over_slices_with_bounds_from_nested_lists():
    sources = [f"{HEAD}def f(x, spans):\n    {before}\n" for before, _ in SPANS]
    x, spans = torch.randn(2, 6, 3, requires_grad=True), torch.tensor([[0, 3], [2, 5]])
    outcomes = rewritten_together(sources, [(x, spans)] * len(SPANS))
    for outcome, (_, after) in zip(outcomes, SPANS, strict=True):
        assert outcome.source == f"{HEAD}def f(x, spans):\n    {after}\n"
        assert set(outcome.applicability) == {Applicability.UNSAFE}
        outcome.check((x, torch.tensor([[0, 2], [3, 9]])))


FILLS = [
    (
        "for row, n in enumerate(i):\n        x[row, n:] = 0\n    return x",
        "for row, n in enumerate(i):\n        x[row].masked_fill_("
        "torch.arange(x.shape[1], device=x.device) >= n, 0)\n    return x",
    ),
    (
        "n = i[2].item()\n    x[..., 1:n, :2] = i[0].item()\n    return x",
        "n = i[2]\n    positions = torch.arange(x.shape[-2], device=x.device)\n"
        "    inside = ((positions >= 1) & (positions < n))[:, None]\n"
        "    x[..., :, :2].masked_fill_(inside, i[0])\n    return x",
    ),
    (
        "n = i[2].item()\n    x[1:n, :2] = 7\n    return x",
        "n = i[2]\n    positions = torch.arange(x.shape[0], device=x.device)\n"
        "    inside = ((positions >= 1) & (positions < n))[:, None]\n"
        "    x[:, :2].masked_fill_(inside, 7)\n    return x",
    ),
    (
        "y = torch.zeros(5, 7)\n    y[..., : i[4]] = x[:, : i[4]]\n    return y",
        "y = torch.zeros(5, 7)\n    y.copy_(torch.where("
        "torch.arange(y.shape[-1], device=y.device) < i[4], x, y))\n    return y",
    ),
]


def test_slices_that_are_assigned_become_masks():
    sources = [f"{HEAD}def f(x, i):\n    x = x.clone()\n    {before}\n" for before, _ in FILLS]
    outcomes = rewritten_together(sources, [(TABLE, INDEX)] * len(FILLS))
    for outcome, (_, after) in zip(outcomes, FILLS, strict=True):
        assert outcome.source == f"{HEAD}def f(x, i):\n    x = x.clone()\n    {after}\n"
        outcome.check((TABLE, INDEX + 1), (TABLE, INDEX * 9))


ASSIGNED = [
    ("x[i[0]] = y", "x[i[0][None]] = y.to(x.dtype)"),
    ("x[i[0]] = x[1].clone()", "x[i[0][None]] = x[1].clone()"),
    ("x[i[0]] = torch.zeros_like(x)[1]", "x[i[0][None]] = torch.zeros_like(x)[1]"),
    ("x[x > 1] = y.sum().item() / 3", "x[x > 1] = (y.sum().detach() / 3).to(x.dtype)"),
    ("x[x > 1] = x.max().item()", "x[x > 1] = x.max().detach()"),
    ("x[0] = y.sum().item()", "x[0] = y.sum().detach()"),
    (
        "n = i[0].item()\n    x[:, n : n + 2] = y[:2]",
        "n = i[0]\n    x[:, n + torch.arange(2, device=x.device)] = y[:2].to(x.dtype)",
    ),
    (
        "n = i[0]\n    # both\n    x[1:, n : n + 2] = y[:2]\n    x[0, n : n + 2] = y[0]",
        "n = i[0]\n    # both\n    positions = n + torch.arange(2, device=x.device)\n"
        "    x[1:, positions] = y[:2].to(x.dtype)\n    x[0, positions] = y[0].to(x.dtype)",
    ),
    (
        "n = i[0]\n    x[1:, n : n + 2] = 0.0\n    n = i[1]\n    x[0, n : n + 2] = 1.0",
        "n = i[0]\n    x[1:, n + torch.arange(2, device=x.device)] = 0.0\n    n = i[1]\n"
        "    x[0, n + torch.arange(2, device=x.device)] = 1.0",
    ),
]


def test_what_is_assigned_keeps_being_converted():
    body = "{}\n    return x\n"
    sources = [f"{HEAD}def f(x, y, i):\n    x = x.clone()\n    {body}" for _ in ASSIGNED]
    sources = [one.format(before) for one, (before, _) in zip(sources, ASSIGNED, strict=True)]
    inputs = TABLE.double(), torch.arange(7.0), INDEX
    outcomes = rewritten_together(sources, [inputs] * len(sources))
    for outcome, source, (_, after) in zip(outcomes, sources, ASSIGNED, strict=True):
        assert outcome.source.endswith(body.format(after)), source
        outcome.check()


def test_a_length_may_not_be_negative():
    source = f"{HEAD}def f(x, i):\n    n = i[0].item()\n    return x[:n].sum(0)\n"
    _, (rewrite,), _ = offered(source, "i[0].item()", CATEGORY, TABLE, INDEX)
    assert rewrite.applicability is Applicability.UNSAFE
    assert "the bounds of the slice are not negative" in rewrite.assumes[0]


@pytest.mark.parametrize(
    ("call", "after"),
    [
        (
            "float(scale), int(zp)",
            "scale.detach(), zp.to(torch.int32)",
        ),
        (
            "scale.item(), 3",
            "scale.detach(), torch.tensor(3, dtype=torch.int32, device=x.device)",
        ),
        (
            "zero_point=zp.item(), scale=0.1",
            "zero_point=zp.int(), scale=torch.tensor(0.1, dtype=torch.float32, device=x.device)",
        ),
    ],
)
def test_fake_quantization_by_tensors(call, after):
    body = (
        "scale = (x.abs().max() / 7).clamp(min=1e-8)\n"
        "    zp = (x.mean() / scale).round().long().clamp(-8, 7)\n"
        "    return torch.fake_quantize_per_tensor_affine(x, {}, quant_min=-8, quant_max=7)"
    )
    source = f"{HEAD}def f(x):\n    {body}\n"
    outcome = rewritten(source.format(call), X)
    assert outcome.source == source.format(after)
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check((-3 * X,))


def test_a_branch_on_a_number_that_is_a_length_too():
    body = (
        "outs = []\n    for i in range(len(x)):\n        n = int(m[i].sum())\n"
        "        if n == 0:\n            outs.append(torch.zeros_like(x[i, 0]))\n"
        "        else:\n            outs.append(x[i, :n].mean(0))\n    return torch.stack(outs)"
    )
    x, m = torch.randn(3, 5, 4), torch.arange(5) < torch.tensor([[3], [5], [0]])
    outcome = rewritten(f"{HEAD}def f(x, m):\n    {body}\n", x, m)
    assert outcome.rules == ["FG201", "FG301"]
    assert {*outcome.applicability} == {Applicability.SAFE}
    outcome.check((x, ~m), (x, m & False))


@pytest.mark.parametrize(
    "value", ["(x > 0).float().mean()", "torch.rand(()).neg()", "x.detach().sum()"]
)
def test_what_requires_no_gradient_is_not_detached(value):
    source = f"{HEAD}def f(x):\n    share = {value}.item()\n    return x * share\n"
    outcome = rewritten(source, X.clone().requires_grad_())
    assert outcome.source == source.replace(".item()", "")
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((-X,))


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        ("", "m.float().sum()"),  # of a mask
        ("p = torch.nn.functional.one_hot(x.argmax(0), 4).float().mean(0)", "(p * (p + 1).log())"),
        (
            "y = x.data.clone()\n    y[0] = 2\n    y.index_fill_(0, x.argmax()[None], 0.5)",
            "y.sum()",
        ),
    ],
)
def test_what_is_made_of_integers_or_filled_is_not_detached(lines, value):
    number = f"{value}.sum().item()"
    source = f"{HEAD}def f(x, m):\n    {lines or 'pass'}\n    return x * {number}\n"
    outcome = rewritten(source, X.clone().requires_grad_(), X > 0)
    assert outcome.source == source.replace(".item()", "")
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((-X, X > 9))


def test_what_is_changed_by_a_gradient_is_detached():
    body = "    y = torch.zeros(4)\n    y[0] = x.sum()\n    return x * y.sum().item()\n"
    source = f"{HEAD}def f(x):\n{body}"
    outcome = rewritten(source, X.clone().requires_grad_())
    assert outcome.source == source.replace(".item()", ".detach()")
    outcome.check((-X,))


@pytest.mark.parametrize(("value", "suffix"), [("x.detach().max()", ""), ("x.max()", ".detach()")])
def test_a_buffer_without_gradient_is_not_detached(value, suffix):
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('top', torch.zeros(()))\n\n"
        f"    def forward(self, x):\n        self.top.copy_(torch.maximum(self.top, {value}))\n"
        "        return x * self.top.item()\n"
    )
    outcome = rewritten(source, X)
    assert outcome.source == source.replace("self.top.item()", f"self.top{suffix}")


@pytest.mark.parametrize("hint", ["", ": torch.Tensor"])
def test_what_is_converted_may_be_a_number(hint):
    source = f"{HEAD}def f(x, t{hint}):\n    n = int(t)\n    return x * n\n"
    outcome = rewritten(source, X, torch.tensor(3))
    assert outcome.assumes == ([] if hint else ["`t` is a tensor in each call"])


CONVERTED = "torch.as_tensor(t, dtype=torch.int64, device=table.device)"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (
            "step = int(t)\n    return x * table[step]",
            f"step = {CONVERTED}\n    return x * table[step[None]].squeeze(0)",
        ),
        ("return x * table[int(t)]", f"return x * table[{CONVERTED}[None]].squeeze(0)"),
        (
            "step = int(t)\n    y = x * table[step]\n    return y - table[step - 1]",
            f"step = {CONVERTED}\n    y = x * table[step[None]].squeeze(0)\n"
            "    return y - table[(step - 1)[None]].squeeze(0)",
        ),
    ],
)
def test_an_index_that_int_converts_may_be_a_number(body, after):
    head = f"{HEAD}def f(x, table, t):\n    "
    outcome = rewritten(f"{head}{body}\n", X, X * 3, torch.tensor(3))
    assert outcome.source == f"{head}{after}\n"
    assert outcome.applicability == [Applicability.SAFE]
    assert outcome.after.fullgraph.ok
    table = (X * 3).requires_grad_()
    numbers = (2, 1.7, True, torch.tensor(0), torch.tensor(3, dtype=torch.uint8))
    outcome.check(*((X, table, t) for t in numbers))


@pytest.mark.parametrize(
    "body",
    [
        "step = int(t)\n    return x * table[step] * step",
        "step = int(t)\n    if x.dim() > 1:\n        return x\n    return x * table[step]",
        "step = int(t)\n    table = table * 2\n    return x * table[step]",
        "step = int(t)\n    return x * (table[step] if x.dim() == 1 else 2)",
    ],
)
def test_an_index_is_not_converted_where_its_tensor_may_be_another(body):
    source = f"{HEAD}def f(x, table, t):\n    {body}\n"
    outcome = rewritten(source, X, X * 3, torch.tensor(3))
    assert "step = t\n" in outcome.source
    assert outcome.assumes == ["`t` is a tensor in each call"]


@pytest.mark.parametrize(
    ("number", "after"),
    [
        ("bool((x > 0).all())", "(x > 0).all()"),
        ("bool(x.sum())", "x.sum() != 0"),
        ("bool(x.mean() > 1)", "x.mean() > 1"),
    ],
)
def test_a_returned_truth_value_stays_a_tensor(number, after):
    fixed = rewritten(f"{HEAD}def f(x):\n    return x * 2, {number}\n", X)
    assert f"return x * 2, {after}\n" in fixed.source
    assert fixed.applicability == [Applicability.UNSAFE]
    assert fixed.after.default.ok and fixed.after.fullgraph.ok
    before, now = imported(fixed.original), imported(fixed.source)
    for x in (X, X - 2, X * 0, X.abs() * 9):
        assert before.f(x)[1] == bool(now.f(x)[1])


@pytest.mark.parametrize(
    ("change", "suffix"), [("y = x * 2", ""), ("t += 1", ".clone()"), ("t[...] = 0", ".clone()")]
)
def test_a_number_is_copied_where_its_tensor_changes(change, suffix):
    body = f"    n = t.item()\n    {change}\n    return x * n + t, n\n"
    outcome = rewritten(f"{HEAD}def f(x, t):\n{body}", X, torch.tensor(3))
    after = body.replace("t.item()", f"t{suffix}")
    if not suffix:  # what is returned is no other tensor
        after = after.replace(", n\n", ", n.clone()\n")
    assert outcome.source == f"{HEAD}def f(x, t):\n{after}", outcome.refusals


def test_a_function_that_says_that_it_returns_a_bool_does():
    source = (
        f"{HEAD}def is_done(x) -> bool:\n    return bool(x.sum() > 1)\n\n\n"
        "def f(x):\n    return x * 2, is_done(x)\n"
    )
    text, _, refusals = offered(source, "bool(x.sum() > 1)", CATEGORY, X, rule="FG201")
    assert not text and refusals == ["the function says that it returns a bool"]
