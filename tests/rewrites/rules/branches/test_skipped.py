"""`continue` and a bare `return`: what they skip is the other branch. In-place methods."""

import textwrap

import pytest
import torch
from torch.testing import assert_close

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten, rewritten_together

pytestmark = pytest.mark.compiles

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
        ("n = torch.zeros(4).long()\nif x.sum() > 0:\n    n.copy_(x)\nreturn n", "cuts off"),
        ("y = x.clone()\nif x.sum() > 0:\n    y.uniform_()\nreturn y", "no assignment"),
        ("y = x.clone()\nif x.sum() > 0:\n    y.copy_(torch.rand(4))\nreturn y", "random numbers"),
        ("y = x.clone()\nif x.sum() > 0:\n    y.fill_(1)\n    z = y\nreturn y, z", "no value"),
        (
            "for _ in range(2):\n    if x.sum() > 0:\n        continue\n    if x.max() > 1:\n"
            "        break\n    x = x + 1\nreturn x",
            "`if x.max() > 1:` in the branch",
        ),
        (
            "out = []\nif x.sum() > 0:\n    out.append(x)\nreturn torch.stack([*out, x])",
            "needs the elements that are appended",
        ),
        (
            "out = []\nif x.sum() > 0:\n    out.append(x)\n    x = x + out[0]\nelse:\n"
            "    out.append(x)\nreturn x + out[0]",
            "the branch uses `out`, to which it appends",
        ),
        (
            "out = []\nif x.sum() > 0:\n    x = x + 1\n    out.append(x.exp())\n    x = x * 2\n"
            "else:\n    out.append(x)\nreturn x + out[0]",
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
        "y, n = x.clone(), torch.tensor(3)\nif x.sum() > 0:  # better\n    y.copy_( x * 2 )\n"
        "    n.zero_()\nelse:\n    n += 1\nreturn y, n",
        "y, n = x.clone(), torch.tensor(3)\n# better\ncondition = x.sum() > 0\n"
        "y.copy_( torch.where(condition, x * 2, y))\n"
        "n.copy_(torch.where(condition, 0, n))\nn += torch.where(condition, 0, 1)\n"
        "return y, n",
    ),
    (
        "y = x.clone()\nif y.sum() > 0:\n    y.fill_(0.5)\n    y.clamp_(max=0.2)\nreturn y",
        "y = x.clone()\ncondition = y.sum() > 0\n"
        "y.copy_(torch.where(condition, 0.5, y))\n"
        "y.copy_(torch.where(condition, y.clone().clamp(max=0.2), y))\nreturn y",
    ),
    (
        "y, z = x.clone(), x\nif x.sum() > 0:\n    t = x + 1\n    y.copy_(t)\n    z = t * 2\n"
        "else:\n    y.mul_(3)\nreturn y, z",
        "y, z = x.clone(), x\ncondition = x.sum() > 0\nt = x + 1\n"
        "y.copy_(torch.where(condition, t, y))\nz = torch.where(condition, t * 2, z)\n"
        "y.mul_(torch.where(condition, 1, 3))\nreturn y, z",
    ),
    (
        "for i in range(3):\n    if x.sum() > i:\n        continue  # enough\n    x = x + 1\n"
        "return x",
        "for i in range(3):\n    # enough\n    x = torch.where(x.sum() > i, x, x + 1)\nreturn x",
    ),
    (
        "for i in range(2):\n    m = x > i\n    if ~m.any():\n        continue\n"
        "    x = torch.where(m, x * 2, x)\nreturn x",
        "for i in range(2):\n    m = x > i\n    x = torch.where(m, x * 2, x)\nreturn x",
    ),
    (
        "m = x > 0\ne = x < -1\nif e.any():  # none\n    m = m.clone()\n    m[e] = True\n"
        "return x * m",
        "m = x > 0\ne = x < -1\n# none\nm = m.clone()\nm[e] = True\nreturn x * m",
    ),
    (
        "if torch.rand(1) < 0.3:\n    x = x.flip(-1)\nreturn x",
        "x = torch.where(torch.rand(1).reshape(()) < 0.3, x.flip(-1), x)\nreturn x",
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
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))\n\n"
        "    def forward(self, x):\n        for layer in self.layers:\n"
        "            if x.mean() > 0.1:\n                continue\n"
        "            x = layer(x)\n        return x\n"
    )
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
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))\n\n"
        "    def forward(self, x):\n        for layer in self.layers:\n"
        "            # layers are skipped\n            if self.training:\n"
        "                threshold = x.mean()\n                if threshold > 0.1:  # often\n"
        "                    continue\n"
        "            y = layer(x)\n            x = x + y\n        return x\n"
    )
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
            "if x.mean() > 0:\n    return x\nreturn self.layer(x)",
            "condition = x.mean() > 0\nif not COMPILED and condition:\n    return x\n"
            "return torch.where(condition, x, self.layer(x))",
        ),
        (
            "if torch.equal(x, -x):\n    return x.clone()\nreturn self.layer(x)",
            "if not COMPILED and torch.equal(x, -x):\n    return x.clone()\n"
            "result = self.layer(x)\nif COMPILED and x.shape == (-x).shape:\n"
            "    result = torch.where((x == -x).all(), x, result)\nreturn result",
        ),
        (
            "if not x.mean() > 0:\n    x = x + self.layer(x)\nreturn x",
            "condition = x.mean() > 0\nif COMPILED or not condition:\n"
            "    x = torch.where(condition, x, x + self.layer(x))\nreturn x",
        ),
    ],
)
def test_eager_code_still_skips_a_layer(before, after):
    after = after.replace("COMPILED", "torch.compiler.is_compiling()")
    outcome = rewritten(LAYER + textwrap.indent(f"{before}\n", " " * 8), X - 2)
    assert outcome.source.strip().endswith(textwrap.indent(after, " " * 8)), outcome.source
    outcome.check((X - 2,), (X + 2,), zero_is_none=True)


def test_what_only_one_branch_assigns_and_nothing_reads_goes():
    before = (
        "for i in range(2):\n    skip = x.sum() > i\n    if skip:\n        scale = None\n"
        "    else:\n        scale = x.mean()\n        x = x * scale\nreturn x"
    )
    after = (
        "for i in range(2):\n    skip = x.sum() > i\n    scale = x.mean()\n"
        "    x = torch.where(skip, x, x * scale)\nreturn x"
    )
    outcome = rewritten(_function(before), _leaf(X))
    assert outcome.source.startswith(_function(after).rstrip("\n")), (
        outcome.source,
        outcome.refusals,
    )
    outcome.check((_leaf(-X),))


def test_what_a_bare_return_skips():
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.register_buffer('mean', torch.zeros(4))\n\n"
        "    def update(self, x):\n        # only what is positive\n        if x.sum() <= 0:\n"
        "            return\n        self.mean.mul_(0.9).add_(x, alpha=0.1)\n"
        "        self.mean.clamp_(max=1)\n\n"
        "    def forward(self, x):\n        self.update(x)\n        return x - self.mean\n"
    )
    for first in (X, -X):  # what did not run is known by `register_buffer`
        outcome = rewritten(source, first)
        assert outcome.applicability == [Applicability.SAFE], outcome.refusals
        assert (
            "torch.where(condition, self.mean, self.mean.mul(0.9).add(x, alpha=0.1))"
            in outcome.source
        )
        outcome.check((X,), (-X,))


def test_a_buffer_that_its_first_batch_fills():
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.register_buffer('ready', torch.tensor([False]))\n"
        "        self.register_buffer('book', torch.zeros(2, 4))\n\n"
        "    def fill(self, x):\n        if self.ready:\n            return\n"
        "        self.book.copy_(x[: self.book.shape[0]])\n        self.ready.fill_(True)\n\n"
        "    def forward(self, x):\n        self.fill(x)\n        return x @ self.book.T\n"
    )
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


def test_what_a_bare_return_skips_stays_skipped_in_eager_code():
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.register_buffer('ready', torch.tensor(False))\n"
        "        self.register_buffer('mean', torch.zeros(4))\n\n"
        "    def center(self, x):\n        if self.ready:  # once\n            return\n"
        "        self.mean.copy_(x.mean(0))\n        self.ready.fill_(True)\n\n"
        "    def forward(self, x):\n        self.center(x)\n        return x - self.mean\n"
    )
    outcome = rewritten(source, torch.randn(3, 4))
    leave = "if not torch.compiler.is_compiling() and was_ready:  # once\n            return\n"
    assert leave in outcome.source, (outcome.source, outcome.refusals)
    outcome.check()
    first, later = torch.randn(3, 4), torch.randn(5, 4)
    before, after = (imported(one).Model() for one in (source, outcome.source))
    compiled = torch.compile(after, backend="aot_eager", fullgraph=True)
    for run, batch in ((compiled, first), (compiled, later), (after, later)):
        assert_close(run(batch), before(batch))


def test_a_sum_that_begins_as_a_number():
    body = (
        "total = 0.0\nfor i in range(3):\n    part = x[i]\n    if part < 0:\n        continue\n"
        "    total = total + part * 2\nreturn total / 3"
    )
    outcome = rewritten(_function(body), _leaf(X))
    assert "total = torch.where(part < 0, total, total + part * 2)\n" in outcome.source
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check((_leaf(X + 1),), (_leaf(-X),))


def test_a_divisor_that_a_parameter_keeps_from_zero():
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n"
        "    def __init__(self, classes=2, smooth=1e-5):\n        super().__init__()\n"
        "        self.classes, self.smooth = classes, smooth\n\n"
        "    def one(self, a, b):\n"
        "        return 1 - (a * b).sum() / (a.sum() + b.sum() + self.smooth)\n\n"
        "    def forward(self, x, y):\n        loss = 0.0\n        for c in range(self.classes):\n"
        "            here = (y == c).float()\n            if here.sum() == 0:\n"
        "                continue  # not there\n            loss = loss + self.one(x, here)\n"
        "        return loss\n"
    )
    outcome = rewritten(source, _leaf(X), torch.tensor([0, 1, 1, 0]))
    assert "torch.where(here.sum() == 0, loss, loss + self.one(x, here))" in outcome.source
    outcome.check((_leaf(X), torch.tensor([1, 1, 1, 1])), zero_is_none=True)


def test_a_flag_that_a_way_changes_decides_by_what_it_was():
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.register_buffer('mean', torch.zeros(4))\n"
        "        self.register_buffer('ready', torch.tensor(False))\n\n"
        "    def forward(self, x):\n        if not self.ready:\n            self.mean.copy_(x)\n"
        "            self.ready.fill_(True)\n        else:\n"
        "            self.mean.mul_(0.9).add_(x, alpha=0.1)\n        return x - self.mean\n"
    )
    outcome = rewritten(source, X)
    assert "was_ready = self.ready.clone()\n" in outcome.source
    assert "self.mean.mul(0.9).add(x, alpha=0.1)" in outcome.source
    outcome.check((X,), (-X,))


def test_both_branches_append_to_a_list():
    before = (
        "out = []\nfor w in (1.0, 2.0):\n    if x.sum() > w:\n"
        "        out.append(torch.full(x.shape[:1], -1))\n        continue\n"
        "    i = torch.cdist(x[:, None] * w, x[:, None]).argmin(-1)\n    out.append(i)\n"
        "    x = x + w\nreturn x, torch.stack(out)"
    )
    after = (
        "out = []\nfor w in (1.0, 2.0):\n    condition = x.sum() > w\n"
        "    i = torch.cdist(x[:, None] * w, x[:, None]).argmin(-1)\n"
        "    out.append(torch.where(condition, torch.full(x.shape[:1], -1), i))\n"
        "    x = torch.where(condition, x, x + w)\nreturn x, torch.stack(out)"
    )
    outcome = rewritten(_function(before), _leaf(X))
    assert outcome.source == _function(after)
    outcome.check((_leaf(-X),), (_leaf(X * 4),))


LISTS = [
    (
        "losses = []\nfor row in x.view(2, 2):\n    if row.sum() > 0:\n        continue\n"
        "    losses.append(row.abs().sum())\nreturn torch.stack(losses).mean()",
        "losses = []\nkept = []\nfor row in x.view(2, 2):\n    condition = row.sum() > 0\n"
        "    losses.append(torch.where(condition, 0, row.abs().sum()))\n"
        "    kept.append(torch.logical_not(condition))\n"
        "return torch.stack(losses).sum() / torch.stack(kept).sum()",
    ),
    (
        "out = []\nfor v in x:\n    if v > 0:\n        out.append(v * v)\n"
        "return sum(out) / len(out)",
        "out = []\nkept = []\nfor v in x:\n    condition = v > 0\n"
        "    out.append(torch.where(condition, v * v, 0))\n    kept.append(condition)\n"
        "return sum(out) / sum(kept)",
    ),
    (
        "out = [  ]\nfor row in x.view(2, 2):\n    if row.sum() > 0:\n        out.append(row)\n"
        "return sum(out) + x.sum()",
        "out = [  ]\nfor row in x.view(2, 2):\n"
        "    out.append(torch.where(row.sum() > 0, row, 0))\nreturn sum(out) + x.sum()",
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
            "# rarely\nif x.sum() > 0:\n    return x + self.fc(x)\nreturn x",
            "# rarely\ncondition = x.sum() > 0\n"
            "if torch.compiler.is_compiling() or condition:\n"
            "    return torch.where(condition, x + self.fc(x), x)\nreturn x",
        ),
        (
            "empty = x.sum() < 0\nif not empty:\n    y = x * 2\n    return self.fc(y)\nreturn x",
            "empty = x.sum() < 0\nif torch.compiler.is_compiling() or not empty:\n"
            "    y = x * 2\n    return torch.where(empty, x, self.fc(y))\nreturn x",
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
