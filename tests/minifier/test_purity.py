"""Which calls of a graph write to their arguments, draw random numbers, or keep their place."""

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from fullgraph.minifier.graphs import draws_random, is_barrier, writes_arguments


def call(target, *args, **kwargs):
    op = "call_method" if isinstance(target, str) else "call_function"
    return fx.Graph().create_node(op, target, args, kwargs)


@pytest.mark.parametrize(
    ("node", "writes"),
    [
        (call("add_", 1), True),
        (call("add", 1), False),
        (call("__eq__", 1), False),
        (call("__len__"), False),
        (call(F.relu, inplace=True), True),
        (call(F.relu, inplace=False), False),
        (call(torch.relu_), True),
        (call(torch.add, 1, out=2), True),
        (call(operator.setitem, 1, 2, 3), True),
        (call(operator.iadd, 1, 2), True),
        (call(operator.invert, 1), False),
        (call(F.batch_norm, 1, 2, 3, training=True), True),
        (call(F.batch_norm, 1, 2, 3, training=False), False),
        (call(torch.ops.aten.add_.Tensor, 1, 2), True),
        (call(torch.ops.aten.add.Tensor, 1, 2), False),
    ],
    ids=str,
)
def test_writes_arguments(node, writes):
    assert writes_arguments(node) is writes
    assert is_barrier(node) or not writes


@pytest.mark.parametrize(
    ("node", "draws"),
    [
        (call("uniform_"), True),
        (call(torch.rand, 3), True),
        (call(F.scaled_dot_product_attention, 1, 2, 3), False),
        (call(F.scaled_dot_product_attention, 1, 2, 3, None, 0.1), True),
        (call(F.scaled_dot_product_attention, 1, 2, 3, dropout_p=0.1), True),
        (call(torch.add, 1, 2), False),
    ],
    ids=str,
)
def test_draws_random(node, draws):
    assert draws_random(node) is draws
    assert is_barrier(node) or not draws
