"""The survey's twelve snippets, and two controls that stay broken, as functions to be fixed."""

from __future__ import annotations

import logging
import random
import warnings

import numpy as np
import torch
from torch import isnan, nn, tensor
from torch.autograd import Variable

log = logging.getLogger("snippets")
log.addHandler(logging.NullHandler())
log.propagate = False


def wrapper(x):
    return x * Variable(torch.ones(4), requires_grad=False)


def masked_mean(losses):
    m = losses > 0.5
    return losses[m].mean()


def masked_update(x):
    x = x * 1
    x[x > 0.5] = pow(x[x > 0.5], 0.1) * 2
    return x


def product_of_sizes(x):
    return x.reshape(int(np.prod(x.shape[:-1])), -1)


def normalised(s):
    v = s > 0
    return s / max(1, v.sum().item())


def early_return(x):
    t = (x > 0).float()
    if t.sum() == 0:
        return x * 0
    return x / t.sum()


def checked(h):
    assert not isnan(h).any()
    return h + 1


def sometimes(y):
    p = 0.5
    if random.random() < p:
        y = y + 1
    return y


def logged(x):
    y = x + 1
    log.warning("large")
    return y * 2


def warned(x):
    y = x + 1
    warnings.warn("large", stacklevel=1)
    return y * 2


def sizes_as_tensor(x):
    h, w = tensor(x.size()[-2:]).tolist()
    return x.reshape(w, h)


def no_gradient(x):
    m = x * 2
    m.requires_grad = False
    return m + 1


def first_hits(x):
    rows = []
    for row in x:
        hits = (row > 0.5).nonzero()
        if len(hits) > 0:
            rows.append(hits[0, 0])
        else:
            rows.append(torch.tensor(-1))
    return torch.stack(rows)


def size_from_data(x):
    i = (x * 3).long().abs()
    return torch.zeros(int(i.max()) + 1)


lstm = nn.LSTM(4, 4)


def recurrent(x):
    return lstm(x)[0]


def halve_until_small(x):
    small = False
    for step in range(6):
        x = x / 2
        if step > 1 and x.abs().max() < 0.1:
            small = True
            break
    if not small:
        warnings.warn("still large", stacklevel=2)
    return x


def mean_of_some(x):
    some = x[x > 0.5]
    if some.numel() == 0:
        return x.mean()
    return some.sum() / some.numel()
