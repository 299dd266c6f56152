import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

HEAD = "import torch\n\n\n"
CATEGORY = "scalar extraction"
X = torch.randn(2, 3, 4)


@pytest.mark.parametrize(
    "call",
    [
        "torch.tensor([x.sum(), x.max()]).tolist()",
        "torch.tensor([0.5, 1.5]).tolist()",
        "torch.tensor(x.shape, dtype=torch.float32).sum(0, keepdim=True).tolist()",
        "x.tolist()",
    ],
)
def test_left_alone(call):
    text, _, _ = offered(f"{HEAD}def f(x):\n    return {call}\n", call, CATEGORY, X, rule="FG222")
    assert not text


def test_what_was_not_seen_is_left_alone():
    call = "torch.tensor(x.size()).tolist()"
    _, _, refusals = offered(f"{HEAD}def f(x):\n    return {call}\n", call, CATEGORY, rule="FG222")
    assert refusals == ["what the tensor is made of is not known to be a shape"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("b, h, w = torch.tensor(x.size()).tolist()  # sizes", "b, h, w = x.size()  # sizes"),
        ("h, w = torch.tensor( x.shape[1:] ).tolist()", "h, w = x.shape[1:]"),
        ("(h, w) = torch.as_tensor([x.size(1), 4]).tolist()", "(h, w) = [x.size(1), 4]"),
        ("h, w = sorted(torch.tensor(x.shape).tolist())[1:]", "h, w = sorted(list(x.shape))[1:]"),
    ],
)
def test_fixed(before, after):
    source = f"{HEAD}def f(x):\n    {before}\n    return x.reshape(-1, w) * h\n"
    outcome = rewritten(source, X)
    assert outcome.source == source.replace(before, after), outcome.refusals
    outcome.check(exact=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("n = torch.tensor(x.shape[1:]).prod().item()", "n = math.prod(x.shape[1:])"),
        ("n = int(torch.as_tensor(x.size(0)))", "n = int(x.size(0))"),
        ("n = torch.tensor(x.size(0)).max().item()", "n = x.size(0)"),
        (
            "n = torch.ceil(torch.tensor(x.shape[-1]) / 4).int().item()",
            "n = math.ceil(x.shape[-1] / 4)",
        ),
        (
            "s = torch.tensor(x.shape[1:])\n    low = torch.min(s).to(torch.float32)\n"
            "    n = int(torch.min(6 / low, 9 / s.max()).item())",
            "s = x.shape[1:]\n    low = min(s)\n    n = int(min(6 / low, 9 / max(s)))",
        ),
    ],
)
def test_computed_in_python(before, after):
    source = f"import math\n{HEAD}def f(x):\n    {before}\n    return x.repeat(1, 1, n)\n"
    outcome = rewritten(source, X)
    assert outcome.source == source.replace(before, after), outcome.refusals
    assert ("in float32" in str(outcome.assumes)) == ("/" in before)
    outcome.check(exact=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "lengths = torch.tensor([len(one) for one in parts])\n"
            "    places = torch.arange(lengths.amax().item())",
            "lengths_list = [len(one) for one in parts]\n"
            "    lengths = torch.tensor(lengths_list)\n"
            "    places = torch.arange(max(lengths_list))",
        ),
        (
            "sizes = [len(one) for one in parts]\n    lengths = torch.tensor(sizes)\n"
            "    places = torch.arange(lengths.max().item())",
            "sizes = [len(one) for one in parts]\n    lengths = torch.tensor(sizes)\n"
            "    places = torch.arange(max(sizes))",
        ),
        (
            "lengths = [len(one) for one in parts]\n    lengths = torch.tensor(lengths)\n"
            "    places = torch.arange(int(lengths.max()))",
            "lengths = [len(one) for one in parts]\n    lengths_list = list(lengths)\n"
            "    lengths = torch.tensor(lengths_list)\n"
            "    places = torch.arange(int(max(lengths_list)))",
        ),
    ],
)
def test_a_list_beside_its_tensor(before, after):
    source = f"{HEAD}def f(*parts):\n    {before}\n    return places < lengths[:, None]\n"
    outcome = rewritten(source, X, X[:1])
    assert outcome.source == source.replace(before, after), outcome.refusals
    outcome.check(exact=True)


@pytest.mark.parametrize("change", ["n.append(9)", "n[0] = 9", "n += [9]", "grow(n)", "del n[0]"])
def test_a_list_that_may_change_is_copied(change):
    head = f"{HEAD}def grow(sizes):\n    sizes.append(9)\n\n\n"
    body = (
        f"n = list(x.shape)\n    s = torch.tensor(n)\n    {change}\n"
        "    return x.repeat(1, 1, s.max().item()) * s.float().mean()"
    )
    outcome = rewritten(f"{head}def f(x):\n    {body}\n", X)
    assert "s_list = list(n)\n    s = torch.tensor(s_list)\n" in outcome.source, outcome.refusals
    outcome.check((X.repeat(2, 1, 1),), exact=True)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("s = torch.tensor(x.shape)", "`s` is needed as a tensor"),
        (
            "s = torch.tensor([len(x), 2])\n    s[s > 4] = 4",
            "`s` changes after it is made",
        ),
        (
            "s = torch.tensor([len(x), 2])\n    s[1:].zero_()",
            "`s` changes after it is made",
        ),
        (
            "s = torch.tensor([len(x), 2])\n    rest = s[1:]\n    rest.zero_()",
            "`s` changes after it is made",
        ),
        (
            "s = torch.tensor([len(x), 2])\n    torch.clamp(s, max=4, out=s)",
            "`s` changes after it is made",
        ),
        (
            "s = torch.tensor([len(x), 2], dtype=torch.bool)",
            "the tensor is bool, which not all integers fit in",
        ),
    ],
)
def test_sizes_that_are_needed_as_a_tensor(made, reason):
    call = "s.max().item()"
    body = f"{made}\n    return x.repeat(1, 1, {call}) * s.float().mean()"
    text, _, refusals = offered(f"{HEAD}def f(x):\n    {body}\n", call, CATEGORY, X, rule="FG222")
    assert not text and refusals == [reason]


def test_numbers_that_are_not_of_the_shape_alone():
    source = f"{HEAD}def f(x):\n    n, s = torch.tensor([2, 0.5]).tolist()\n    return x * n * s\n"
    text, _, refusals = offered(
        source, "torch.tensor([2, 0.5]).tolist()", CATEGORY, X, rule="FG222"
    )
    assert not text and refusals == ["what the tensor is made of is not all integers"]


@pytest.mark.parametrize(
    ("rows", "after"),
    [
        ("torch.stack([torch.tensor(s) for s in sizes]).max(0)[0]", "max(column)"),
        ("torch.stack([torch.tensor(s) for s in sizes]).min(dim=0).values", "min(column)"),
        ("torch.tensor(sizes).amax(0)", "max(column)"),
    ],
)
def test_largest_sizes_of_a_list_of_images(rows, after):
    images = [torch.randn(3, 4, 5), torch.randn(3, 6, 2)]
    source = (
        f"{HEAD}def f(images):\n    sizes = [list(one.shape) for one in images]\n"
        f"    size = {rows}.tolist()\n"
        "    batch = images[0].new_zeros([len(images)] + size)\n"
        "    return batch + images[0].sum()\n"
    )
    fixed = rewritten(source, images)
    assert f"    size = [{after} for column in zip(*sizes)]\n" in fixed.source
    assert fixed.applicability == [Applicability.SAFE]
    fixed.check(([torch.randn(3, 5, 5), torch.randn(2, 7, 9)],))


@pytest.mark.parametrize(
    "rows",
    [
        "torch.tensor([[0.5, 1.0], [2.0, 3.0]]).amax(0)",
        "torch.stack([one.long().sum(0) for one in images]).amax(0)",
        "torch.tensor([list(one.shape) for one in images]).amax(1)",
    ],
)
def test_columns_that_are_no_sizes(rows):
    call = f"{rows}.tolist()"
    source = f"{HEAD}def f(images):\n    return images[0] * {call}[0]\n"
    images = [torch.randn(3, 4, 5), torch.randn(3, 4, 5)]
    text, _, _ = offered(source, call, CATEGORY, images, rule="FG222")
    assert not text
