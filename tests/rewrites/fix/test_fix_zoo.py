"""What the zoo of `fix` calls a change of results."""

import random

import numpy as np
import pytest
import torch

from benchmarks.fix_zoo import changes

pytestmark = pytest.mark.compiles

X = (torch.randn(4, requires_grad=True),)
layer = torch.nn.Linear(4, 4)


class Layer(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, x):
        return self.function(self.layer(x))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda x: x * np.random.rand(), lambda x: x * np.random.rand()),
        (lambda x: x * random.random(), lambda x: x * random.random()),
        (lambda x: (x, "a", 2, None), lambda x: (x + 0, "a", 2, None)),
        (Layer(lambda x: x * 0.0), Layer(lambda x: x.detach() * 0)),
    ],
)
def test_the_same(old, new):
    assert not changes(old, new, X, {})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda x: x, lambda x: x + 1),
        (lambda x: (x, 1.0), lambda x: (x, torch.tensor(1.0))),
        (lambda x: (x, 1.0), lambda x: (x,)),
        (lambda x: x.missing, lambda x: x),
        (lambda x: (x, "a"), lambda x: (x, "b")),
        (Layer(lambda x: x), Layer(lambda x: x.detach())),
        (Layer(lambda x: x.relu()), Layer(lambda x: x.detach().relu() + x * 0)),
    ],
)
def test_a_change(old, new):
    assert changes(old, new, X, {})


def test_a_number_may_become_a_tensor_of_the_same_value():
    def old(x):
        return x, float(x.detach().sum())

    def right(x):
        return x, x.sum()

    def wrong(x):
        return x, x.sum() + 1

    assert changes(old, right, X, {})
    assert not changes(old, right, X, {}, numbers=True)
    assert changes(old, wrong, X, {}, numbers=True)
    assert changes(old, lambda x: (x + 1, x.sum()), X, {}, numbers=True)
