"""Conditions on tensors, and on numbers that come out of tensors."""

import random

import torch

from docs.construct_programs.program import Collection

construct = Collection()


@construct("branch.if")
def _(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@construct("branch.while")
def _(x):
    while x.sum() < 100:
        x = x * 2
    return x


@construct("branch.ternary")
def _(x):
    return x + 1 if x.sum() > 0 else x - 1


@construct("branch.and")
def _(x):
    return x.sum() > 0 and x.max() > 0


@construct("branch.or")
def _(x):
    return x.sum() < 0 or x.max() > 0


@construct("branch.not")
def _(x):
    return x, not x.sum() > 0


@construct("branch.chained")
def _(x):
    return 0 < x.sum() < 10


@construct("branch.bool")
def _(x):
    return x, bool(x.sum() > 0)


@construct("scalar.bool")
def _(x):
    return x, bool(x.sum() > 0)


@construct("branch.comprehension")
def _(x):
    return [row for row in x if row > 0]


@construct("branch.in_list")
def _(x):
    return x, x[0] in [1, 2]


@construct("branch.in_tensor")
def _(x):
    return x, 1 in x


@construct("branch.list_index")
def _(x):
    return x, [x[0], x[1]].index(x[1])


@construct("assert.plain")
def _(x):
    assert (x > 0).all()
    return x + 1


@construct("assert.message")
def _(x):
    assert (x > 0).all(), "positive"
    return x + 1


@construct("assert.made_message")
def _(x):
    assert (x > 0).all(), f"positive, not {x.shape}"
    return x + 1


@construct("assert.negated")
def _(x):
    assert not (x < 0).any()
    return x + 1


@construct("assert.operators")
def _(x):
    assert (x > 0).all() and (x < 9).all()
    return x + 1


@construct("number.if")
def _(x):
    n = x.sum().item()
    if n > 0:  # here
        return x + 1
    return x - 1


@construct("number.while")
def _(x):
    n = x.sum().item()
    while n < 100:  # here
        n = n * 2
    return x * n


@construct("number.ternary")
def _(x):
    n = x.sum().item()
    return x + 1 if n > 0 else x - 1  # here


@construct("number.and")
def _(x):
    n = x.sum().item()
    return x, n > 0 and n < 100  # here


@construct("number.or")
def _(x):
    n = x.sum().item()
    return x, n < 0 or n < 100  # here


@construct("number.not")
def _(x):
    n = x.sum().item()
    return x, not n > 0  # here


@construct("number.chained")
def _(x):
    n = x.sum().item()
    return x, 0 < n < 100  # here


@construct("number.bool")
def _(x):
    n = x.sum().item()
    return x, bool(n)  # here


@construct("number.comprehension")
def _(x):
    numbers = x.tolist()
    return x, [n for n in numbers if n > 2]  # here


@construct("number.range")
def _(x):
    n = int(x.sum())
    for _ in range(n):  # here
        x = x + 1
    return x


@construct("number.assert_plain")
def _(x):
    n = x.sum().item()
    assert n > 0  # here
    return x + 1


@construct("number.assert_message")
def _(x):
    n = x.sum().item()
    assert n > 0, "positive"  # here
    return x + 1


@construct("number.assert_made_message")
def _(x):
    n = x.sum().item()
    assert n > 0, f"positive, not {x.shape}"  # here
    return x + 1


@construct("number.assert_negated")
def _(x):
    n = x.sum().item()
    assert not n < 0  # here
    return x + 1


@construct("number.assert_operators")
def _(x):
    n = x.sum().item()
    assert n > 0 and n < 100  # here
    return x + 1


@construct("random.if")
def _(x):
    if random.uniform(0, 1) < 2:
        return x + 1
    return x - 1


@construct("random.while")
def _(x):
    while random.uniform(0, 1) > 2:
        x = x + 1
    return x


@construct("random.ternary")
def _(x):
    return x + 1 if random.uniform(0, 1) < 2 else x - 1


@construct("random.and")
def _(x):
    return x, random.uniform(0, 1) < 2 and len(x) > 1


@construct("random.or")
def _(x):
    return x, random.uniform(0, 1) > 2 or len(x) > 1


@construct("random.slice_bound")
def _(x):
    n = random.randint(1, 2)
    return x[n : n + 1]


@construct("number.slice_bound")
def _(x):
    n = int(x.argmax())
    return x[: n + 1]  # here


LAYERS = torch.nn.ModuleList([torch.nn.Tanh(), torch.nn.ReLU()])


@construct("number.module_index")
def _(x):
    n = int(x.argmin())
    return LAYERS[n](x)  # here


@construct("random.module_index")
def _(x):
    return LAYERS[random.randint(0, 1)](x)


construct.calls(
    {
        "builtin.max_arguments": lambda x: max(x.sum(), x.mean()),
        "builtin.min_arguments": lambda x: min(x.sum(), x.mean()),
        "builtin.max_elements": lambda x: max([x.sum(), x.mean()]),
        "builtin.min_elements": lambda x: min([x.sum(), x.mean()]),
        "builtin.any_elements": lambda x: (x, any(row > 0 for row in x)),
        "builtin.all_elements": lambda x: (x, all(row > 0 for row in x)),
        "builtin.any_tensor": lambda x: (x, any(x > 0)),
        "builtin.all_tensor": lambda x: (x, all(x > 0)),
        "builtin.sorted": lambda x: sorted([x[0], x[1]]),
        "builtin.filter": lambda x: list(filter(lambda row: row > 0, x)),
        "method:equal": lambda x: (x, torch.equal(x, x + 1)),
        "method:allclose": lambda x: (x, torch.allclose(x, x + 1)),
        "method:is_nonzero": lambda x: (x, torch.is_nonzero(x.sum())),
    }
)
