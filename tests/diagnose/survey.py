"""One small function for each row of the survey of real code.

They stand in a file of their own because pytest rewrites the asserts of test files.
"""

from __future__ import annotations

import logging
import math
import random
import warnings

import numpy as np
import torch
from torch import nn
from torch.autograd import Variable

log = logging.getLogger("survey")
log.addHandler(logging.NullHandler())
log.propagate = False
noise = torch.ones(4)
rnn = nn.LSTM(4, 4)
fns = [torch.sin, torch.cos]


def legacy_variable(x):
    return x * Variable(noise)


def recurrent(x):
    return rnn(x)[0]


def item(x):
    total = max(x.sum().item(), 1.0)
    return x / total


def int_of_tensor(x):
    return x + int(x.sum())


def float_of_tensor(x):
    return x * float(x.sum())


def mask_read(x):
    diff = x[x > 0.5]
    return diff.sum()


def if_on_tensor(x):
    if torch.sum(x) == 0:
        return x * 0
    return x + 1


def while_on_tensor(x):
    while x.sum() < 100:
        x = x * 2
    return x


def numpy_on_shapes(x):
    return x.reshape(int(np.prod(x.shape[:-1])), -1)


def masked_assignment(x):
    x = x.clone()
    x[x > 0.5] += 1
    return x


def masked_assignment_of_a_function(x):
    x = x.clone()
    x[x > 0.5] = torch.pow(x[x > 0.5], 0.1) * 2
    return x


def tensor_as_shape(x):
    rows = x.sum().long() * 0 + 6
    return torch.ones(rows, 2)


def packed(x):
    lengths = torch.tensor([4, 3, 2])
    return nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data


def requires_grad(x):
    mask = x * 2
    mask.requires_grad = False
    return mask + 1


def equal_in_if(x):
    if torch.equal(x, x * 1):
        return x + 1
    return x - 1


def nonzero(x):
    return (x > 0.5).nonzero().t()


def one_argument_where(x):
    return torch.where(x > 0.5)[0]


def assert_on_tensor(x):
    assert not torch.isnan(x).any()
    return x + 1


def sparse(x):
    indices = torch.tensor([[0, 1], [1, 0]])
    return torch.sparse_coo_tensor(indices, torch.ones(2), (4, 4)).to_dense() * x.sum()


def bincount(x):
    return torch.bincount((x * 3).long().flatten())


def warn(x):
    warnings.warn("large", stacklevel=1)
    return x + 1


def logger_call(x):
    log.warning("large")
    return x + 1


def print_call(x):
    print(x)
    return x + 1


def range_over_ndarray(x):
    sizes = np.array([2, 3])
    for _ in range(sizes[0]):
        x = x + 1
    return x


def sorted_ndarray(x):
    return x + sorted(np.array([3, 2]))[0]


def numpy_ceil_item(x):
    return x * np.ceil(x.shape[0] / 2).astype(int).item()


def mgrid(x):
    return x.sum() + torch.from_numpy(np.mgrid[0:3, 0:4][0])


def tensor_of_size(x):
    h, w, _ = torch.tensor(x.size()).tolist()
    return x.reshape(w, h, -1)


def python_random(x):
    if random.random() < 1:
        x = x + 1
    return x


def branch_on_uniform(x):
    if random.uniform(0, 1) < 1:
        x = x + 1
    return x


def numpy_random(x):
    return x * np.random.rand()


def math_of_tensor(x):
    return x * math.sqrt(x.sum())


def deprecated_argument(x):
    return nn.MSELoss(size_average=False)(x, x * 2)


def comprehension_after_a_skip(x):
    for _ in range(2):
        print(x.shape)
        x = x + 1
    return torch.stack([fn(x) for fn in fns])
