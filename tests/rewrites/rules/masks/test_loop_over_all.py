import pytest
import torch
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

X = torch.randn(6, 4)
MIXTURE = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(4, 3)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        hit = torch.nn.functional.one_hot(self.gate(x).argmax(-1), 3).bool()
        y = torch.zeros_like(x)
        used = hit.sum(0)
        LOOP
        return y
"""
BODY = """
            rows = hit.T[k].squeeze(0)
            y = torch.where(rows[:, None], self.experts[k](x), y)"""


READ = """if torch.compiler.is_compiling():
            indices = range(len(self.experts))
        else:
            indices = HIT.tolist()
        for k in indices:"""
END = "\n        used = y"


@pytest.mark.parametrize(
    ("loop", "after", "hit"),
    [
        (
            "for k in used.nonzero():" + BODY,
            READ + BODY.replace(".squeeze(0)", ""),
            "used.nonzero().flatten()",
        ),
        (
            "found = torch.where(used > 0)[0]  # some\n        for k in found.tolist():" + BODY,
            "found = used > 0  # some\n        " + READ + BODY,
            "found.nonzero().flatten()",
        ),
        (
            "found = used.nonzero()\n        for k in found:\n            # all" + BODY + END,
            "found = used\n        "
            + READ
            + "\n            # all"
            + BODY.replace(".squeeze(0)", "")
            + END,
            "found.nonzero().flatten()",
        ),
        (
            block("""
                for k in used.nonzero():
                            k = k[0]
                            y = y + hit[:, k, None]"""),
            block("""
                for k in range(len(used)):
                            y = y + hit[:, k, None]"""),
            "",
        ),
        (
            "rows = hit.T\n        # used\n"
            "        for k in torch.greater(rows.sum(1), 0).nonzero():\n"
            "            one = rows[k].squeeze(0)[:, None]\n"
            '            y = y + self.get_submodule(f"experts.{k[0]}")(x) * one',
            "rows = hit.T\n        # used\n"
            "        occurs = torch.greater(rows.sum(1), 0)\n        "
            + READ.replace("self.experts", "occurs")
            + "\n            one = rows[k][:, None]\n"
            '            y = y + self.get_submodule(f"experts.{k}")(x) * one',
            "occurs.nonzero().flatten()",
        ),
        (
            "top = hit.int().argmax(1)\n        for k in top.unique():\n"
            "            y = torch.where((top == k)[:, None], self.experts[k](x), y)",
            "top = hit.int().argmax(1)\n        "
            + READ
            + "\n            y = torch.where((top == k)[:, None], self.experts[k](x), y)",
            "top.unique()",
        ),
    ],
)
def test_fixed(loop, after, hit):
    outcome = rewritten(MIXTURE.replace("LOOP", loop), X)
    assert outcome.source == MIXTURE.replace("LOOP", after.replace("HIT", hit))
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check((X * 0,), (-X,))


@pytest.mark.compiles
def test_eager_code_runs_no_layer_of_an_index_that_does_not_occur():
    outcome = rewritten(MIXTURE.replace("LOOP", "for k in used.nonzero():" + BODY), X)
    model = imported(outcome.source).Model()
    calls = []
    for expert in model.experts:
        expert.register_forward_hook(lambda expert, *_: calls.append(expert))
    with torch.no_grad():
        model.gate.bias[:] = torch.tensor([100.0, 0.0, -100.0])
    expected = model(X)
    assert calls == [model.experts[0]]
    expected.sum().backward()
    assert [one.weight.grad is None for one in model.experts] == [False, True, True]
    assert_close(torch.compile(model, backend="eager", fullgraph=True)(X), expected)
    assert len(calls) == 4, "compiled code computes all"


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        (
            "for k in used.nonzero():" + BODY + "\n        y = y + hit[:, k]",
            "`k` is read after the loop",
        ),
        (
            block("""
                for k in used.nonzero():
                            y = y + k"""),
            "`y + k` takes the index itself",
        ),
        (
            block("""
                for k in used.nonzero():
                            k = k[0]
                            y = y + len(f'{k=}')"""),
            "takes the index itself",
        ),
        (
            block("""
                for k in used.nonzero():
                            y = y + self.experts[k](x)"""),
            "an iteration does something also for",
        ),
        (
            block("""
                for k in used.unique():
                            y = y * (x > k)"""),
            "nothing says how many",
        ),
    ],
)
def test_left_alone(loop, reason):
    source = MIXTURE.replace("LOOP", loop)
    call = "used.unique()" if "unique" in loop else "used.nonzero()"
    category = "dynamic output shape" if "unique" in loop else "nonzero"
    text, _, refusals = offered(source, call, category, X, rule="FG410")
    assert not text
    assert reason in refusals[0]


def check_absent_classes(source, table, line, masked, **options):
    """Check that `line` is `masked` in a loop over all rows of `table`, and what is assumed."""
    outcome = rewritten(source, X, torch.tensor([0, 0, 2, 2, 2, 0]))
    loop = f"for c in range(len({table})):"
    start = source.index("for c in")
    inner = " " * (start - source.rindex("\n", 0, start) + 3)
    after = source.replace(
        "for c in labels.unique():", f"{loop}\n{inner}absent = (labels != c).all()"
    ).replace(line, masked)
    assert outcome.source == after, (outcome.source, outcome.refusals)
    assert outcome.assumes == [f"every element of `labels` is an index of `{table}`"]
    outcome.check((-X, torch.tensor([3, 1, 1, 0, 0, 2])), **options)


def test_a_sum_over_the_classes_that_occur():
    source = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = torch.nn.Parameter(torch.ones(4, 4))

    def forward(self, x, labels):
        loss = x.new_zeros(())
        for c in labels.unique():
            share = (labels == c).float()
            loss = loss + (share[:, None] * (x - self.centers[c]) ** 2).sum() / share.sum()
        return loss
"""
    check_absent_classes(
        source,
        "self.centers",
        "loss = loss + (share[:, None] * (x - self.centers[c]) ** 2).sum() / share.sum()",
        "loss = torch.where(absent, loss, loss + (share[:, None] * "
        "(x - self.centers[c]) ** 2).sum() / torch.where(absent, 1, share.sum()))",
        zero_is_none=True,
    )


def test_a_row_for_each_class_that_occurs():
    source = """import torch


def f(x, labels):
    means = torch.ones(4, x.shape[1])
    for c in labels.unique():
        share = (labels == c).float()
        means[c] = (share[:, None] * x).sum(0) / share.sum()
    return means
"""
    check_absent_classes(
        source,
        "means",
        "(share[:, None] * x).sum(0) / share.sum()",
        "torch.where(absent, means[c], (share[:, None] * x).sum(0) / "
        "torch.where(absent, 1, share.sum()))",
    )


def test_a_table_that_happens_to_be_as_long_says_nothing():
    loop = block("""
        for k in used.nonzero():
                    k = k[0]
                    y = y + x[k] * hit[:, k, None]""")
    outcome = rewritten(MIXTURE.replace("LOOP", loop), X[:3])
    assert "for k in range(len(used)):" in outcome.source, outcome.refusals


EAGER_READS_ONCE = """        if torch.compiler.is_compiling():
            indices = range(len(self.experts))
        else:
            indices = hit.nonzero().flatten().tolist()
        for k in indices:
            y = y + F.linear("""
"""The loop over all experts, of which eager code reads at once which occur."""

TABLE = """import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = torch.nn.Parameter(torch.ones(3, 4, 4))

    def forward(self, x, top):
        y = torch.zeros_like(x)
"""


class _Reads(TorchDispatchMode):
    """Count the operators by which Python reads data of a tensor."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.name().split("::")[1] in ("_local_scalar_dense", "nonzero", "is_nonzero")
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("experts", [4, 64])
def test_eager_code_reads_as_often_for_many_experts(experts):
    source = f"""{TABLE.replace("3, 4", f"{experts}, 4")}
        mask = F.one_hot(top, {experts}).permute(1, 0)
        # Those that a token goes to.
        hit = torch.greater(mask.sum(dim=-1), 0).nonzero()

        # All of them.
        for k in hit:
            k = k[0]
            y = y + F.linear(x, self.experts[k]) * mask[k][:, None]
        return y
"""
    top = torch.tensor([0, 0, 2, 2, 2, 0])
    outcome = rewritten(source, X, top)
    new = f"""
        mask = F.one_hot(top, {experts}).permute(1, 0)
        # Those that a token goes to.
        hit = torch.greater(mask.sum(dim=-1), 0)

        # All of them.
{EAGER_READS_ONCE}"""
    assert new in outcome.source, outcome.source
    outcome.check((X, torch.tensor([1] * 6)))
    model = imported(outcome.source).Model()
    with _Reads() as reads:
        model(X, top)
    assert reads.count == 3, "two in `one_hot`, and one `nonzero`"


def test_eager_code_leaves_out_products_with_a_row_of_a_table():
    source = f"""{TABLE}
        mask = F.one_hot(top, 3).T
        hit = (mask.sum(-1) > 0).nonzero().flatten()
        for k in hit.tolist():
            y = y + F.linear(x, self.experts[k]) * mask[k][:, None]
        return y
"""
    outcome = rewritten(source, X, torch.tensor([0, 0, 2, 2, 2, 0]))
    new = f"""        hit = mask.sum(-1) > 0
{EAGER_READS_ONCE}"""
    assert new in outcome.source
    outcome.check((X, torch.tensor([1] * 6)))


def test_eager_code_leaves_out_an_absent_class_of_what_is_added_up():
    source = f"""{TABLE}
        classes = torch.unique(top + 0)
        for k in classes:
            share = (top == k).float()[:, None]
            y = y + (share * (x @ self.experts[k])).sum(0) / share.sum()
        return y
"""
    outcome = rewritten(source, X, torch.tensor([0, 0, 2, 2, 2, 0]))
    new = """        classes = top + 0
        if torch.compiler.is_compiling():
            indices = range(len(self.experts))
        else:
            indices = classes.unique().tolist()
        for k in indices:
            absent = (classes != k).all()
            share = ("""
    assert new in outcome.source, outcome.source
    model = imported(outcome.source).Model()
    with _Reads() as reads:
        model(X, torch.tensor([0, 0, 2, 2, 2, 0]))
    assert not reads.count, "no class is looked for in an iteration of its own"
    outcome.check((X, torch.tensor([1] * 6)))


def test_counts_may_lack_the_last_classes():
    source = f"""{TABLE}
        hit = (torch.bincount(top) > 0).nonzero().flatten()
        for k in hit.tolist():
            y = y + (top == k)[:, None] * (x @ self.experts[k])
        return y
"""
    outcome = rewritten(source, X, torch.tensor([0, 0, 2, 2, 2, 0]))
    assert "            indices = hit.nonzero().flatten().tolist()" in outcome.source, (
        outcome.refusals
    )
    new, x = imported(outcome.source).Model(), X.clone()
    assert new(x, torch.zeros(6, dtype=torch.int64)).shape == x.shape


def test_a_mask_from_elsewhere_may_be_shorter_than_the_list_of_layers():
    source = f"""{TABLE.replace("top)", "top, hit)")}
        for k in hit.nonzero().flatten().tolist():
            y = y + (top == k)[:, None] * (x @ self.experts[k])
        return y
"""
    top = torch.tensor([0, 0, 1, 1, 1, 0])
    outcome = rewritten(source, X, top, torch.tensor([True, True]))
    assert "indices = hit.nonzero().flatten().tolist()" in outcome.source, outcome.refusals
    assert outcome.assumes[1:] == ["`hit` has no more elements than `self.experts`"]
    outcome.check((X, top, torch.tensor([True, False, False])))


def test_every_element_has_to_be_an_index():
    loop = "top = hit.int().argmax(1)\n        for k in top.unique():\n"
    line = "            y = torch.where((top == k)[:, None], self.experts[k](x), y)"
    outcome = rewritten(MIXTURE.replace("LOOP", loop + line), X)
    assert outcome.assumes[1:] == ["every element of `top` is an index of `self.experts`"]
