import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import copy

    import torch

    OPTIONS = {'a': 1}


""")
WITHOUT_COPY = HEAD.removeprefix("import copy\n\n")
X = torch.randn(4)


@pytest.mark.parametrize(
    "call",
    ["copy.deepcopy(x)", "copy.copy(x.shape)", "copy.deepcopy(x, {})"],
)
def test_left_alone(call):
    x = X.clone().requires_grad_()
    text, _, refusals = offered(f"{HEAD}def f(x):\n    y = {call}\n    return x\n", call, "copy", x)
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("copy.deepcopy(x)  # keep", "x.clone()  # keep"),
        ("copy.deepcopy( x )", "x.clone()"),
        ("copy.deepcopy(x + 1)", "(x + 1).clone()"),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    y = {before}\n    return y * 2\n", X)
    assert outcome.source == f"{WITHOUT_COPY}def f(x):\n    y = {after}\n    return y * 2\n"
    outcome.check(exact=True)


def test_a_shallow_copy_of_a_tensor_shares_its_memory():
    source = f"{HEAD}def f(x):\n    x = x * 1\n    y = copy.copy(x)\n    x += 1\n    return y * 2\n"
    outcome = rewritten(source, X)
    assert "y = x.detach()\n" in outcome.source
    outcome.check(exact=True)


def test_a_list_of_tensors_is_unsafe():
    source = f"{HEAD}def f(x):\n    a = [x, x + 1]\n    b = copy.deepcopy(a)\n    return b[1]\n"
    outcome = rewritten(source, X)
    assert "b = [each.clone() for each in a]\n" in outcome.source
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)


def test_a_deep_copy_of_nested_containers():
    source = (
        f"{HEAD}def f(x):\n    a = {{'n': 1, 'all': [x, (x + 1,)]}}\n"
        "    b = copy.deepcopy(a)\n    b['all'][0] += 1\n    b['all'].append(x)\n"
        "    return a['all'][0], b['all'][0], b['all'][1][0], len(a['all'])\n"
    )
    outcome = rewritten(source, X)
    assert "b = _clone_tensors(a)\n" in outcome.source and "import copy" not in outcome.source
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)


def test_the_import_stays_where_something_else_uses_it():
    other = "\n\ndef g(x):\n    return copy.copy(x)\n"
    source = f"{HEAD}def f(x):\n    return copy.deepcopy(x) + 1\n{other}"
    text, _, _ = offered(source, "copy.deepcopy(x)", "copy", X)
    assert text.startswith(HEAD) and "x.clone() + 1" in text


def test_a_deep_copy_of_constants_is_a_shallow_one():
    source = f"{HEAD}def f(x):\n    d = copy.deepcopy(OPTIONS)\n    return x * d['a']\n"
    text, _, _ = offered(source, "copy.deepcopy(OPTIONS)", "copy", X)
    assert "d = dict(OPTIONS)\n" in text


def test_a_shallow_copy_of_a_dict():
    source = f"{HEAD}def f(x):\n    d = copy.copy(OPTIONS)\n    return x * d['a']\n"
    text, _, _ = offered(source, "copy.copy(OPTIONS)", "copy", X)
    assert "d = dict(OPTIONS)" in text


def test_a_dict_of_tensors_is_unsafe():
    source = (
        f"{HEAD}def f(x):\n    a = {{'k': x}}\n    b = copy.deepcopy(a)\n    return b['k'] * 2\n"
    )
    outcome = rewritten(source, X)
    assert "b = {key: each.clone() for key, each in a.items()}\n" in outcome.source
    assert outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)
