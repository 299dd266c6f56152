"""Scalars, shapes that depend on data, masks, and the text of tensors."""

import functools

import numpy as np
import torch
from torch import nn

from docs.construct_programs.program import Collection

construct = Collection()
WORDS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
RNN, LSTM, GRU = nn.RNN(4, 4), nn.LSTM(4, 4), nn.GRU(4, 4)


@construct("mask.augmented")
def _(x):
    y = x.clone()
    y[x > 2] += 1
    return y


@construct("mask.store_number")
def _(x):
    y = x.clone()
    y[x > 2] = 1
    return y


@construct("mask.store_tensor")
def _(x):
    y = x.clone()
    y[x > 2] = x.sum()
    return y


@construct("mask.store_selection")
def _(x):
    y = x.clone()
    z = x.tanh()[x > 2]
    y[x > 2] = z  # here
    return y


@construct("numpy.iterate")
def _(x):
    for i in np.arange(3):
        x = x + i
    return x


@construct("numpy.range")
def _(x):
    for i in range(np.arange(3)[2]):
        x = x + i
    return x


class OldFunction(torch.autograd.Function):
    """A function that reads what it saved by the old name."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_variables
        return grad * x


WEIGHT = nn.Parameter(torch.ones(4))


@construct("attribute:saved_variables")
def _(x):
    return OldFunction.apply(x * WEIGHT)


@construct("store:requires_grad")
def _(x):
    y = x * 2
    y.requires_grad = True
    return y


@construct("store:data")
def _(x):
    y = x * 2
    y.data = x + 1
    return y


@construct("store:grad")
def _(x):
    y = x * 2
    y.grad = None
    return y


@construct("method:backward")
def _(x):
    y = x.clone().requires_grad_()
    (y * 2).sum().backward()  # here
    return x + 1


@construct("method:register_hook")
def _(x):
    y = x.detach().requires_grad_()
    z = y * 2
    z.register_hook(lambda g: g * 2)
    return z + 1


@construct("method:retain_grad")
def _(x):
    y = x.detach().requires_grad_() * 2
    y.retain_grad()  # here
    return x + 1


class Cached:
    """An object with a cached property."""

    @functools.cached_property
    def value(self):
        return 1


CACHED = Cached()


@construct("python.cached_property")
def _(x):
    return x + CACHED.value


@construct("call:torch.nn.utils.rnn.pad_packed_sequence")
def _(x):
    packed = nn.utils.rnn.pack_padded_sequence(x.view(2, 2, 1), torch.tensor([2, 1]))
    return nn.utils.rnn.pad_packed_sequence(packed)[0]  # here


construct.calls(
    {
        "method:item": lambda x: x * x.sum().item(),
        "method:tolist": lambda x: (x, x.tolist()),
        "scalar.int": lambda x: x * int(x.sum()),
        "scalar.float": lambda x: x * float(x.sum()),
        "scalar.complex": lambda x: (x, complex(x.sum())),
        "scalar.range": lambda x: [x + i for i in range(x.sum().long())],
        "scalar.list_index": lambda x: x * WORDS[x.argmax()],
        "scalar.dict_index": lambda x: x * {0: 1, 3: 2}.get(x.argmax(), 5),
        "scalar.slice_bound": lambda x: x[: x.argmax()],
        "numpy.int": lambda x: x * int(np.prod(x.shape)),
        "numpy.float": lambda x: x * float(np.mean(x.shape)),
        "numpy.bool": lambda x: (x, bool(np.prod(x.shape) > 1)),
        "numpy.item": lambda x: x * np.prod(x.shape).item(),
        "numpy.tolist": lambda x: (x, np.arange(3).tolist()),
        "mask.read": lambda x: x[x > 2],
        "method:nonzero": lambda x: (x > 2).nonzero(),
        "method:where": lambda x: torch.where(x > 2),
        "method:argwhere": lambda x: torch.argwhere(x > 2),
        "method:masked_select": lambda x: x.masked_select(x > 2),
        "method:unique": lambda x: torch.unique(x),
        "method:unique_consecutive": lambda x: torch.unique_consecutive(x),
        "method:repeat_interleave": lambda x: x.repeat_interleave(x.long()),
        "method:bincount": lambda x: torch.bincount(x.long()),
        "method:one_hot": lambda x: nn.functional.one_hot(x.long()),
        "method:histc": lambda x: torch.histc(x),
        "method:combinations": lambda x: torch.combinations(x),
        "method:count_nonzero": lambda x: torch.count_nonzero(x),
        "method:masked_scatter": lambda x: x.masked_scatter(x > 2, x + 1),
        "method:isin": lambda x: torch.isin(x, x + 1),
        "method:searchsorted": lambda x: torch.searchsorted(x, x),
        "method:split": lambda x: x.split([1, 3]),
        "method:numpy": lambda x: x.numpy() + 1,
        "method:cpu": lambda x: x.cpu() + 1,
        "method:data_ptr": lambda x: (x, x.data_ptr() % 16),
        "method:tensor_split": lambda x: x.tensor_split(torch.tensor([1, 3])),
        "scalar.size_argument": lambda x: torch.zeros(x.argmax()),
        "attribute:nbytes": lambda x: (x, x.nbytes),
        "method:storage": lambda x: (x, len(x.storage())),
        "method:untyped_storage": lambda x: (x, x.untyped_storage().nbytes()),
        "method:storage_offset": lambda x: (x, x.storage_offset()),
        "method:stride": lambda x: (x, x.stride()),
        "method:is_contiguous": lambda x: (x, x.is_contiguous()),
        "method:numel": lambda x: (x, x.numel()),
        "method:requires_grad_": lambda x: (x * 2).requires_grad_(),
        "method:detach_": lambda x: (x * 2).detach_(),
        "method:share_memory_": lambda x: (x * 2).share_memory_(),
        "method:to_sparse": lambda x: x.to_sparse().to_dense(),
        "method:set_": lambda x: (x * 2).set_(x),
        "method:resize_": lambda x: (x * 2).resize_(2),
        "method:map_": lambda x: (x * 2).map_(x, lambda a, b: a + b),
        "method:apply_": lambda x: (x * 2).apply_(lambda a: a + 1),
        "method:pin_memory": lambda x: x.pin_memory() if torch.cuda.is_available() else x,
        "attribute:grad_fn": lambda x: (x, (x * 2).grad_fn is None),
        "attribute:grad": lambda x: (x, x.grad),
        "attribute:is_leaf": lambda x: (x, x.is_leaf),
        "attribute:data": lambda x: x.data + 1,
        "attribute:_version": lambda x: (x, x._version),
        "attribute:requires_grad": lambda x: (x, x.requires_grad),
        "text.fstring": lambda x: (x, f"{x}"),
        "text.str": lambda x: (x, str(x)),
        "text.repr": lambda x: (x, repr(x)),
        "text.format": lambda x: (x, format(x.sum(), ".2f")),
        "text.format_method": lambda x: (x, "{}".format(x)),  # noqa: UP032,
        "output.print": lambda x: (x + 1, print("text")),
        "output.print_tensor": lambda x: (x + 1, print(x)),
        "layer:RNN": lambda x: RNN(x[None])[0],
        "layer:LSTM": lambda x: LSTM(x[None])[0],
        "layer:GRU": lambda x: GRU(x[None])[0],
        "legacy.size_average": lambda x: nn.functional.mse_loss(x, x, size_average=False),
        "legacy.size_average_layer": lambda x: nn.MSELoss(size_average=False)(x, x),
        "call:torch.autograd.Variable": lambda x: torch.autograd.Variable(x) + 1,
        "call:torch.nn.Parameter": lambda x: nn.Parameter(x) + 1,
        "call:torch.sparse_coo_tensor": lambda x: torch.sparse_coo_tensor(
            torch.zeros(1, 4, dtype=torch.long), x, (4,)
        ).to_dense(),
        "call:torch.sparse.mm": lambda x: torch.sparse.mm(torch.eye(4).to_sparse(), x[:, None]),
        "call:torch.nn.utils.rnn.pack_padded_sequence": lambda x: (
            nn.utils.rnn.pack_padded_sequence(x.view(2, 2, 1), torch.tensor([2, 1])).data
        ),
        "call:torch.nn.utils.rnn.pad_sequence": lambda x: nn.utils.rnn.pad_sequence([x, x]),
        "call:torch.nn.utils.rnn.pack_sequence": lambda x: nn.utils.rnn.pack_sequence([x, x]).data,
        "call:torch.nested.nested_tensor": lambda x: torch.nested.nested_tensor([x, x]).unbind()[0],
    }
)
