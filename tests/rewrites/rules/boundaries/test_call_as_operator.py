import pytest
import torch

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, rewritten

pytestmark = pytest.mark.compiles

HEAD = "import numpy as np\nimport torch\n\n\n"
X = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
CALLS = "def f(x):\n    return x * 2 + best(x).sum()\n"


def module(body, call="self.best(x).sum()"):
    return (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.count, self.net = 2, torch.nn.Linear(3, 3)\n\n"
        f"    def best(self, x):\n        {body}\n\n"
        f"    def forward(self, x):\n        return x * 2 + {call}\n"
    )


def refusals(source, x=X):
    outcome = rewritten(source, x)
    assert "FG904" not in outcome.rules, outcome.source
    return " ".join(outcome.refusals)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return torch.tensor(sum(self.net(x).tolist()[0]))", "`self.net` cannot be handed to"),
        ("self.last = x.tolist()\n        return x.long()", "`best` changes `self.last`"),
        ("x[0] = max(x.tolist()[0])\n        return x.long()", "`best` changes `x[0]`"),
        ("return torch.tensor(str(x.tolist()).count('0')), 'a'", ""),
        ("return x if x.tolist()[0][0] > 7 else x / 2", "a gradient flows through `best`"),
    ],
)
def test_left_alone(body, reason):
    call = "len(self.best(x))" if "'a'" in body else "self.best(x).sum()"
    needs = X.clone().requires_grad_() if "gradient" in reason else X
    assert reason in refusals(module(body, call), needs)


def test_forward_itself_and_nested_functions_are_left_alone():
    inner = "def g(x):\n        return max(x.tolist())[0]\n\n    return x * g(x)\n"
    assert "made anew inside a function" in refusals(f"{HEAD}def f(x):\n    {inner}")
    plain = f"{HEAD}def f(x):\n    return x * max(x.tolist())[0]\n"
    assert "lies in `f` itself" in refusals(plain)


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        (
            "order = [max(range(3), key=row.__getitem__) for row in x.tolist()]\n"
            "        return torch.tensor(order)",
            '"{space}::best", mutates_args=())\ndef _best_op(x: torch.Tensor) -> torch.Tensor:\n'
            "    order = [max(range(3), key=row.__getitem__) for row in x.tolist()]\n"
            "    return torch.tensor(order)\n\n\n@_best_op.register_fake\ndef _best_fake(x):\n"
            "    return x.new_empty((x.shape[0],), dtype=torch.int64)\n",
        ),
        (
            '"""Doc."""\n'
            "        found = [v for v in sorted(sum(x.tolist(), [])) if v > self.count]\n"
            "        return torch.tensor(found[1:]).long()",
            "def _best_op(x: torch.Tensor, count: int) -> torch.Tensor:\n"
            "    found = [v for v in sorted(sum(x.tolist(), [])) if v > count]\n"
            "    return torch.tensor(found[1:]).long()\n\n\n"
            "@_best_op.register_fake\ndef _best_fake(x, count):\n"
            "    return x.new_empty((count,), dtype=torch.int64)\n",
        ),
    ],
)
def test_operator(body, operator):
    source = module(body)
    outcome = rewritten(source, X)
    assert operator.partition("{space}")[2] in outcome.source, outcome.source
    assert outcome.rules == ["FG904"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)


def test_sizes_that_data_decide_and_ints():
    source = (
        f"{HEAD}def parts(x):\n    count = 1 + int(np.sum(np.unwrap(x.numpy()) > 3.5))\n"
        "    return torch.arange(count), count\n\n\n"
        "def f(x):\n    index, count = parts(x)\n"
        "    return torch.zeros(count, 3).index_add_(0, index, x[:1].expand(count, 3)), index\n"
    )
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG904"], outcome.refusals
    assert "-> tuple[torch.Tensor, int]:" in outcome.source
    size = "    size = torch.library.get_ctx().new_dynamic_size()\n"
    assert f"{size}    return x.new_empty((size,), dtype=torch.int64), size\n" in outcome.source
    assert outcome.after.fullgraph.ok and outcome.before.fullgraph.ok is False
    f, new = imported(source).f, torch.compile(imported(outcome.source).f, fullgraph=True)
    for x in (X, X * 3, X - 9):
        assert torch.equal(f(x)[0], new(x)[0])


def test_a_size_of_an_argument_may_be_chance_where_data_decide():
    source = (
        f"{HEAD}def kinds(x):\n    values = (x > 0).long().unique().numpy()\n"
        "    return torch.from_numpy(values)\n\n\ndef f(x):\n    return kinds(x).sum() + x[:2]\n"
    )
    outcome = rewritten(source, torch.tensor([1.0, -1.0]))
    assert "    return x.new_empty((size,), dtype=torch.int64)\n" in outcome.source


def test_statements_of_forward():
    source = (
        f"{HEAD}def f(x):\n    h = x * 2\n    # smooth\n    y = np.unwrap(h.numpy(), axis=0)\n"
        "    return torch.from_numpy(y).diff(dim=0) + 1\n"
    )
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG904"], outcome.refusals
    assert outcome.source.endswith(
        "def _y_of_f_op(h: torch.Tensor) -> torch.Tensor:\n"
        "    y = np.unwrap(h.numpy(), axis=0)\n    return torch.from_numpy(y)\n\n\n"
        "@_y_of_f_op.register_fake\ndef _y_of_f_fake(h):\n"
        "    return h.new_empty((h.shape[0], h.shape[1]))\n\n\n"
        "def f(x):\n    h = x * 2\n    # smooth\n    y = _y_of_f_op(h.detach())\n"
        "    return y.diff(dim=0) + 1\n"
    )
    outcome.check((X * 5,), exact=True)


def test_fix_proves_it_under_inductor_after_edits_of_the_code():
    source = (
        f"{HEAD}def ranks(x):\n    order = sorted(range(len(x)), key=x.tolist().__getitem__)\n"
        "    return torch.tensor(order)\n\n\n"
        "def f(x):\n    print('on')\n    return x[ranks(x[:, 0])] * 2\n"
    )
    f = imported(source).f
    fixes = fix(f, (X,))
    assert [made.rule for made in fixes.suggestions if made.accepted] == ["FG113", "FG111", "FG904"]
    assert fixes.whole.check.ok and fixes.whole.edits == "unsafe", fixes
    assert torch.equal(fixes.patched(unsafe=True)(X), f(X))
