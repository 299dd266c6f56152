"""`continue` and a bare `return`: what they skip is the other branch. In-place methods."""

import textwrap

import pytest
import torch
from torch.testing import assert_close

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten, rewritten_together
from tests.text import block

X = torch.tensor([0.9, -0.2, 0.7, 0.1])
TEST = "x.sum() > 0"


def _leaf(x):
    return x.clone().requires_grad_()


def _function(body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"import torch\n\n\ndef f(x):\n{lines}"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            block("""
                n = torch.zeros(4).long()
                if x.sum() > 0:
                    n.copy_(x)
                return n"""),
            "cuts off",
        ),
        (
            block("""
                y = x.clone()
                if x.sum() > 0:
                    y.uniform_()
                return y"""),
            "no assignment",
        ),
        (
            block("""
                y = x.clone()
                if x.sum() > 0:
                    y.copy_(torch.rand(4))
                return y"""),
            "random numbers",
        ),
        (
            block("""
                y = x.clone()
                if x.sum() > 0:
                    y.fill_(1)
                    z = y
                return y, z"""),
            "no value",
        ),
        (
            block("""
                for _ in range(2):
                    if x.sum() > 0:
                        continue
                    if x.max() > 1:
                        break
                    x = x + 1
                return x"""),
            "`if x.max() > 1:` in the branch",
        ),
        (
            block("""
                out = []
                if x.sum() > 0:
                    out.append(x)
                return torch.stack([*out, x])"""),
            "needs the elements that are appended",
        ),
        (
            block("""
                out = []
                if x.sum() > 0:
                    out.append(x)
                    x = x + out[0]
                else:
                    out.append(x)
                return x + out[0]"""),
            "the branch uses `out`, to which it appends",
        ),
        (
            block("""
                out = []
                if x.sum() > 0:
                    x = x + 1
                    out.append(x.exp())
                    x = x * 2
                else:
                    out.append(x)
                return x + out[0]"""),
            "",
        ),
    ],
)
def test_left_alone(body, reason):
    text, _, refusals = offered(_function(body), TEST, "data-dependent branch", X, rule="FG301")
    assert not text
    assert any(reason in one for one in refusals), refusals


FIXED = [
    (
        block("""
            y, n = x.clone(), torch.tensor(3)
            if x.sum() > 0:  # better
                y.copy_( x * 2 )
                n.zero_()
            else:
                n += 1
            return y, n"""),
        block("""
            y, n = x.clone(), torch.tensor(3)
            # better
            condition = x.sum() > 0
            y.copy_( torch.where(condition, x * 2, y))
            n.copy_(torch.where(condition, 0, n))
            n += torch.where(condition, 0, 1)
            return y, n"""),
    ),
    (
        block("""
            y = x.clone()
            if y.sum() > 0:
                y.fill_(0.5)
                y.clamp_(max=0.2)
            return y"""),
        block("""
            y = x.clone()
            condition = y.sum() > 0
            y.copy_(torch.where(condition, 0.5, y))
            y.copy_(torch.where(condition, y.clone().clamp(max=0.2), y))
            return y"""),
    ),
    (
        block("""
            y, z = x.clone(), x
            if x.sum() > 0:
                t = x + 1
                y.copy_(t)
                z = t * 2
            else:
                y.mul_(3)
            return y, z"""),
        block("""
            y, z = x.clone(), x
            condition = x.sum() > 0
            t = x + 1
            y.copy_(torch.where(condition, t, y))
            z = torch.where(condition, t * 2, z)
            y.mul_(torch.where(condition, 1, 3))
            return y, z"""),
    ),
    (
        block("""
            for i in range(3):
                if x.sum() > i:
                    continue  # enough
                x = x + 1
            return x"""),
        block("""
            for i in range(3):
                # enough
                x = torch.where(x.sum() > i, x, x + 1)
            return x"""),
    ),
    (
        block("""
            for i in range(2):
                m = x > i
                if ~m.any():
                    continue
                x = torch.where(m, x * 2, x)
            return x"""),
        block("""
            for i in range(2):
                m = x > i
                x = torch.where(m, x * 2, x)
            return x"""),
    ),
    (
        block("""
            m = x > 0
            e = x < -1
            if e.any():  # none
                m = m.clone()
                m[e] = True
            return x * m"""),
        block("""
            m = x > 0
            e = x < -1
            # none
            m = m.clone()
            m[e] = True
            return x * m"""),
    ),
    (
        block("""
            if torch.rand(1) < 0.3:
                x = x.flip(-1)
            return x"""),
        block("""
            x = torch.where(torch.rand(1).reshape(()) < 0.3, x.flip(-1), x)
            return x"""),
    ),
]


def test_fixed():
    sources = [_function(before) for before, _ in FIXED]
    outcomes = rewritten_together(sources, [(_leaf(X),)] * len(FIXED))
    for outcome, (_, after) in zip(outcomes, FIXED, strict=True):
        assert outcome.rules == ["FG301"] * len(FIXED), outcome.refusals
        assert outcome.source.startswith(_function(after).rstrip("\n")), outcome.source
        outcome.check((_leaf(-X),), (_leaf(X * 4),), (_leaf(X * 0),))


def test_layers_that_are_skipped():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

            def forward(self, x):
                for layer in self.layers:
                    if x.mean() > 0.1:
                        continue
                    x = layer(x)
                return x
    """)
    outcome = rewritten(source, -X)
    assert (
        "            condition = x.mean() > 0.1\n"
        "            if not torch.compiler.is_compiling() and condition:\n"
        "                continue\n"
        "            x = torch.where(condition, x, layer(x))\n"
    ) in outcome.source
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check((X,), zero_is_none=True)


def test_a_skip_under_a_condition_of_python():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

            def forward(self, x):
                for layer in self.layers:
                    # layers are skipped
                    if self.training:
                        threshold = x.mean()
                        if threshold > 0.1:  # often
                            continue
                    y = layer(x)
                    x = x + y
                return x
    """)
    outcome = rewritten(source, -X)
    assert (
        "            # layers are skipped\n            if self.training:\n"
        "                threshold = x.mean()\n"
        "                condition = threshold > 0.1\n"
        "                if not torch.compiler.is_compiling() and condition:  # often\n"
        "                    continue\n                y = layer(x)\n"
        "                x = torch.where(condition, x, x + y)\n"
        "            else:\n                y = layer(x)\n                x = x + y\n        return"
    ) in outcome.source, (outcome.source, outcome.refusals)
    outcome.check((X,), zero_is_none=True)


LAYER = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                if x.mean() > 0:
                    return x
                return self.layer(x)"""),
            block("""
                condition = x.mean() > 0
                if not COMPILED and condition:
                    return x
                return torch.where(condition, x, self.layer(x))"""),
        ),
        (
            block("""
                if torch.equal(x, -x):
                    return x.clone()
                return self.layer(x)"""),
            block("""
                if not COMPILED and torch.equal(x, -x):
                    return x.clone()
                result = self.layer(x)
                if COMPILED and x.shape == (-x).shape:
                    result = torch.where((x == -x).all(), x, result)
                return result"""),
        ),
        (
            block("""
                if not x.mean() > 0:
                    x = x + self.layer(x)
                return x"""),
            block("""
                condition = x.mean() > 0
                if COMPILED or not condition:
                    x = torch.where(condition, x, x + self.layer(x))
                return x"""),
        ),
    ],
)
def test_eager_code_still_skips_a_layer(before, after):
    after = after.replace("COMPILED", "torch.compiler.is_compiling()")
    outcome = rewritten(LAYER + textwrap.indent(f"{before}\n", " " * 8), X - 2)
    assert outcome.source.strip().endswith(textwrap.indent(after, " " * 8)), outcome.source
    outcome.check((X - 2,), (X + 2,), zero_is_none=True)


def test_what_only_one_branch_assigns_and_nothing_reads_goes():
    before = block("""
        for i in range(2):
            skip = x.sum() > i
            if skip:
                scale = None
            else:
                scale = x.mean()
                x = x * scale
        return x""")
    after = block("""
        for i in range(2):
            skip = x.sum() > i
            scale = x.mean()
            x = torch.where(skip, x, x * scale)
        return x""")
    outcome = rewritten(_function(before), _leaf(X))
    assert outcome.source.startswith(_function(after).rstrip("\n")), (
        outcome.source,
        outcome.refusals,
    )
    outcome.check((_leaf(-X),))


def test_what_a_bare_return_skips():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer('mean', torch.zeros(4))

            def update(self, x):
                # only what is positive
                if x.sum() <= 0:
                    return
                self.mean.mul_(0.9).add_(x, alpha=0.1)
                self.mean.clamp_(max=1)

            def forward(self, x):
                self.update(x)
                return x - self.mean
    """)
    for first in (X, -X):  # what did not run is known by `register_buffer`
        outcome = rewritten(source, first)
        assert outcome.applicability == [Applicability.SAFE], outcome.refusals
        assert (
            "torch.where(condition, self.mean, self.mean.mul(0.9).add(x, alpha=0.1))"
            in outcome.source
        )
        outcome.check((X,), (-X,))


def test_a_buffer_that_its_first_batch_fills():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer('ready', torch.tensor([False]))
                self.register_buffer('book', torch.zeros(2, 4))

            def fill(self, x):
                if self.ready:
                    return
                self.book.copy_(x[: self.book.shape[0]])
                self.ready.fill_(True)

            def forward(self, x):
                self.fill(x)
                return x @ self.book.T
    """)
    outcome = rewritten(source, torch.randn(3, 4))
    assert (
        "        was_ready = self.ready.reshape(()).clone()\n"
        "        if not torch.compiler.is_compiling() and was_ready:\n            return\n"
        "        self.book.copy_(torch.where(was_ready, self.book, x[: self.book.shape[0]]))\n"
        "        self.ready.copy_(torch.where(was_ready, self.ready, True))\n"
    ) in outcome.source, (outcome.source, outcome.refusals)
    shape = "`x[: self.book.shape[0]]` has the shape of `self.book` also where it is not copied"
    assert outcome.assumes == [shape]
    outcome.check((torch.randn(3, 4),))
    batches = torch.randn(3, 4), torch.randn(1, 4)  # eager code takes fewer rows later
    before, after = (imported(one).Model() for one in (source, outcome.source))
    for batch in batches:
        assert_close(after(batch), before(batch), rtol=0, atol=0)


@pytest.mark.compiles
def test_what_a_bare_return_skips_stays_skipped_in_eager_code():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer('ready', torch.tensor(False))
                self.register_buffer('mean', torch.zeros(4))

            def center(self, x):
                if self.ready:  # once
                    return
                self.mean.copy_(x.mean(0))
                self.ready.fill_(True)

            def forward(self, x):
                self.center(x)
                return x - self.mean
    """)
    outcome = rewritten(source, torch.randn(3, 4))
    leave = block("""
        if not torch.compiler.is_compiling() and was_ready:  # once
                    return
    """)
    assert leave in outcome.source, (outcome.source, outcome.refusals)
    outcome.check()
    first, later = torch.randn(3, 4), torch.randn(5, 4)
    before, after = (imported(one).Model() for one in (source, outcome.source))
    compiled = torch.compile(after, backend="aot_eager", fullgraph=True)
    for run, batch in ((compiled, first), (compiled, later), (after, later)):
        assert_close(run(batch), before(batch))


def test_a_sum_that_begins_as_a_number():
    body = block("""
        total = 0.0
        for i in range(3):
            part = x[i]
            if part < 0:
                continue
            total = total + part * 2
        return total / 3""")
    outcome = rewritten(_function(body), _leaf(X))
    assert "total = torch.where(part < 0, total, total + part * 2)\n" in outcome.source
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check((_leaf(X + 1),), (_leaf(-X),))


def test_a_divisor_that_a_parameter_keeps_from_zero():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self, classes=2, smooth=1e-5):
                super().__init__()
                self.classes, self.smooth = classes, smooth

            def one(self, a, b):
                return 1 - (a * b).sum() / (a.sum() + b.sum() + self.smooth)

            def forward(self, x, y):
                loss = 0.0
                for c in range(self.classes):
                    here = (y == c).float()
                    if here.sum() == 0:
                        continue  # not there
                    loss = loss + self.one(x, here)
                return loss
    """)
    outcome = rewritten(source, _leaf(X), torch.tensor([0, 1, 1, 0]))
    assert "torch.where(here.sum() == 0, loss, loss + self.one(x, here))" in outcome.source
    outcome.check((_leaf(X), torch.tensor([1, 1, 1, 1])), zero_is_none=True)


def test_a_flag_that_a_way_changes_decides_by_what_it_was():
    source = block("""
        import torch


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer('mean', torch.zeros(4))
                self.register_buffer('ready', torch.tensor(False))

            def forward(self, x):
                if not self.ready:
                    self.mean.copy_(x)
                    self.ready.fill_(True)
                else:
                    self.mean.mul_(0.9).add_(x, alpha=0.1)
                return x - self.mean
    """)
    outcome = rewritten(source, X)
    assert "was_ready = self.ready.clone()\n" in outcome.source
    assert "self.mean.mul(0.9).add(x, alpha=0.1)" in outcome.source
    outcome.check((X,), (-X,))


def test_both_branches_append_to_a_list():
    before = block("""
        out = []
        for w in (1.0, 2.0):
            if x.sum() > w:
                out.append(torch.full(x.shape[:1], -1))
                continue
            i = torch.cdist(x[:, None] * w, x[:, None]).argmin(-1)
            out.append(i)
            x = x + w
        return x, torch.stack(out)""")
    after = block("""
        out = []
        for w in (1.0, 2.0):
            condition = x.sum() > w
            i = torch.cdist(x[:, None] * w, x[:, None]).argmin(-1)
            out.append(torch.where(condition, torch.full(x.shape[:1], -1), i))
            x = torch.where(condition, x, x + w)
        return x, torch.stack(out)""")
    outcome = rewritten(_function(before), _leaf(X))
    assert outcome.source == _function(after)
    outcome.check((_leaf(-X),), (_leaf(X * 4),))


LISTS = [
    (
        block("""
            losses = []
            for row in x.view(2, 2):
                if row.sum() > 0:
                    continue
                losses.append(row.abs().sum())
            return torch.stack(losses).mean()"""),
        block("""
            losses = []
            kept = []
            for row in x.view(2, 2):
                condition = row.sum() > 0
                losses.append(torch.where(condition, 0, row.abs().sum()))
                kept.append(torch.logical_not(condition))
            return torch.stack(losses).sum() / torch.stack(kept).sum()"""),
    ),
    (
        block("""
            out = []
            for v in x:
                if v > 0:
                    out.append(v * v)
            return sum(out) / len(out)"""),
        block("""
            out = []
            kept = []
            for v in x:
                condition = v > 0
                out.append(torch.where(condition, v * v, 0))
                kept.append(condition)
            return sum(out) / sum(kept)"""),
    ),
    (
        block("""
            out = [  ]
            for row in x.view(2, 2):
                if row.sum() > 0:
                    out.append(row)
            return sum(out) + x.sum()"""),
        block("""
            out = [  ]
            for row in x.view(2, 2):
                out.append(torch.where(row.sum() > 0, row, 0))
            return sum(out) + x.sum()"""),
    ),
]


def test_lists_to_which_one_way_appends_are_added_up_or_averaged() -> None:
    inputs = torch.tensor([1.0, 2.0, -3.0, -1.0], requires_grad=True)
    sources = [_function(before) for before, _ in LISTS]
    outcomes = rewritten_together(sources, [(inputs,)] * len(LISTS))
    for outcome, (_, after) in zip(outcomes, LISTS, strict=True):
        assert outcome.source == _function(after)
        outcome.check((torch.tensor([-1.0, -2.0, 3.0, 1.0], requires_grad=True),))


@pytest.mark.parametrize(
    ("body", "fixed"),
    [
        (
            block("""
                # rarely
                if x.sum() > 0:
                    return x + self.fc(x)
                return x"""),
            block("""
                # rarely
                condition = x.sum() > 0
                if torch.compiler.is_compiling() or condition:
                    return torch.where(condition, x + self.fc(x), x)
                return x"""),
        ),
        (
            block("""
                empty = x.sum() < 0
                if not empty:
                    y = x * 2
                    return self.fc(y)
                return x"""),
            block("""
                empty = x.sum() < 0
                if torch.compiler.is_compiling() or not empty:
                    y = x * 2
                    return torch.where(empty, x, self.fc(y))
                return x"""),
        ),
    ],
)
def test_eager_code_skips_the_work_of_an_early_return(body, fixed):
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        torch.manual_seed(0)\n"
        "        self.fc = torch.nn.Linear(4, 4)\n\n    def forward(self, x):\n"
    )
    outcome = rewritten(source + lines, X)
    assert outcome.source == source + textwrap.indent(fixed + "\n", " " * 8)
    outcome.check((-X,), zero_is_none=True)


GUARDED_LIST = """import torch


class Model(torch.nn.Module):
    classes = "present"
    limit = 1

    def forward(self, x):
        losses = []
        for row in x.view(2, 2):
            high = row.clamp(min=0)
            {}
                losses.append((row * high).sum())
        return torch.stack(losses).mean()
"""


@pytest.mark.parametrize(
    ("test", "condition", "computed"),
    [
        (
            'if self.classes == "present" and high.sum() == 0:\n                continue\n'
            "            if True:",
            '(high.sum() == 0) & (self.classes == "present")',
            "",
        ),
        (
            "if not (self.limit and high.sum() == 0):",
            "(high.sum() == 0) & bool(self.limit)",
            "",
        ),
        (
            "if not self.limit or row.sum() > 0:",
            "(row.sum() > 0) | (not self.limit)",
            "`row.sum() > 0` can be computed whatever `not self.limit` is",
        ),
    ],
)
def test_a_test_of_python_beside_one_of_a_tensor_decides_which_elements_count(
    test, condition, computed
):
    source = GUARDED_LIST.format(test).replace("            if True:\n    ", "")
    x = torch.tensor([1.0, 2.0, -3.0, -1.0], requires_grad=True)
    outcome = rewritten(source, x)
    assert f"            condition = {condition}\n" in outcome.source
    assert outcome.source.count("append(") == 2
    assert any(computed == one for one in outcome.assumes) or not computed
    outcome.check((_leaf(x.detach().abs()),))
    settings = {'classes = "present"': 'classes = "all"', "limit = 1": "limit = 0"}
    for old, new in settings.items():
        models = [imported(one.replace(old, new)).Model() for one in (source, outcome.source)]
        for y in (x, _leaf(x.detach().abs())):
            first, second = (model(y) for model in models)
            torch.testing.assert_close(first, second)
            grads = [torch.autograd.grad(one, y)[0] for one in (first, second)]
            torch.testing.assert_close(*grads)


def test_a_test_of_python_may_guard_the_one_of_a_tensor():
    source = GUARDED_LIST.format("if row is None or row.sum() > 0:")
    text, _, reasons = offered(source, "row.sum() > 0", "data-dependent branch", X, rule="FG301")
    assert not text
    assert "`row is None` may decide whether `row.sum() > 0` can be computed" in reasons
