"""Each row of the survey of real code: the category, the expression and the advice people get."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Variable

from fullgraph.compiler import source
from fullgraph.compiler.events import Break
from fullgraph.compiler.recorder import record
from fullgraph.diagnose.places import place_of
from fullgraph.diagnose.taxonomy import advise, classify, is_consequence, sentence

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


@dataclass
class Row:
    """What a person must be told about one function."""

    run: Callable[[Tensor], object]
    category: str
    expression: str
    advice: str
    """Words of the first advice."""
    said: str
    """Words of the sentence."""


ROWS = [
    Row(legacy_variable, "legacy Variable", "Variable(noise)", "Drop the wrapper", "empty wrapper"),
    Row(recurrent, "RNN module", "rnn(x)", "outside", "LSTM"),
    Row(item, "scalar extraction", "x.sum().item()", "0-d tensor", "Python number"),
    Row(int_of_tensor, "scalar extraction", "int(x.sum())", "0-d tensor", "Python number"),
    Row(float_of_tensor, "scalar extraction", "float(x.sum())", "0-d tensor", "Python number"),
    Row(mask_read, "boolean mask", "x[x > 0.5]", "zeros", "shape that depends on data"),
    Row(if_on_tensor, "data-dependent branch", "torch.sum(x) == 0", "torch.where", "branch"),
    Row(while_on_tensor, "data-dependent branch", "x.sum() < 100", "while_loop", "branch"),
    Row(numpy_on_shapes, "NumPy scalar", "int(np.prod(x.shape[:-1]))", "math.prod", "NumPy"),
    Row(masked_assignment, "masked assignment", "x[x > 0.5]", "torch.where", "written back"),
    Row(
        masked_assignment_of_a_function,
        "masked assignment",
        "x[x > 0.5]",
        "torch.where",
        "written back",
    ),
    Row(tensor_as_shape, "scalar extraction", "torch.ones(rows, 2)", "the caller", "number"),
    Row(
        packed,
        "packed sequence",
        "nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)",
        "outside",
        "lengths",
    ),
    Row(requires_grad, "requires_grad", "mask.requires_grad", "Detach", "requires_grad"),
    Row(equal_in_if, "tensor comparison", "torch.equal(x, x * 1)", "torch.where", "compares"),
    Row(nonzero, "nonzero", "(x > 0.5).nonzero()", "torch.where", "shape that depends on data"),
    Row(one_argument_where, "nonzero", "torch.where(x > 0.5)", "torch.where", "shape"),
    Row(
        assert_on_tensor,
        "tensor assert",
        "not torch.isnan(x).any()",
        "torch._assert_async",
        "assert",
    ),
    Row(
        sparse,
        "sparse tensor",
        "torch.sparse_coo_tensor(indices, torch.ones(2), (4, 4))",
        "dense",
        "sparse",
    ),
    Row(bincount, "bincount", "torch.bincount((x * 3).long().flatten())", "scatter_add", "length"),
    Row(warn, "warning", 'warnings.warn("large", stacklevel=1)', "is_compiling", "warning"),
    Row(logger_call, "print / logging", 'log.warning("large")', "is_compiling", "side effect"),
    Row(print_call, "print / logging", "print(x)", "is_compiling", "side effect"),
    Row(range_over_ndarray, "NumPy loop", "range(sizes[0])", "list", "NumPy array"),
    Row(sorted_ndarray, "NumPy loop", "sorted(np.array([3, 2]))", "np.sort", "NumPy array"),
    Row(
        numpy_ceil_item,
        "NumPy scalar",
        "np.ceil(x.shape[0] / 2).astype(int).item()",
        "math",
        "Python number",
    ),
    Row(mgrid, "NumPy function", "np.mgrid[0:3, 0:4]", "torch.meshgrid", "NumPy function"),
    Row(
        tensor_of_size,
        "scalar extraction",
        "torch.tensor(x.size()).tolist()",
        ".shape",
        "Python number",
    ),
    Row(python_random, "random number", "random.random()", "torch.where", "random"),
    Row(branch_on_uniform, "random number", "random.uniform(0, 1) < 1", "torch.where", "random"),
    Row(numpy_random, "random number", "np.random.rand()", "torch", "NumPy's random"),
    Row(math_of_tensor, "scalar extraction", "math.sqrt(x.sum())", "own method", "number"),
    Row(
        deprecated_argument,
        "legacy argument",
        "nn.MSELoss(size_average=False)",
        "reduction=",
        "deprecated",
    ),
]


def breaks(run: Callable[[Tensor], object]) -> tuple[Break, ...]:
    """The breaks of `run`, in order."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with (
        record() as recorder,
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        torch.compile(run, backend="eager")(torch.rand(3, 4, 4))
    return recorder.recording.breaks


def expression_of(brk: Break) -> str:
    """The source text of a break's place."""
    place = place_of(brk)
    file = source.read(place.file)
    assert file is not None
    node = file.node(place)
    return "" if node is None else file.segment(node)


AT_OTHER_PLACES = {"random.random()": "random.random() < 1"}
"""Since 2.14 `random.random()` is traced, and the branch on it breaks."""
ALSO = {"NumPy loop": "scalar extraction"}
"""Since 2.14 a NumPy number in `range` is told as any number out of a tensor."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.run.__name__)
def test_a_row_of_the_survey(row: Row) -> None:
    brk = breaks(row.run)[0]
    expression = expression_of(brk)
    assert expression in (row.expression, AT_OTHER_PLACES.get(row.expression))
    category = classify(brk, expression)
    if category == ALSO.get(row.category):
        pytest.skip("this torch does not tell NumPy from torch here")
    assert category == row.category
    assert row.said in sentence(brk, expression, None)
    assert row.advice in " ".join(a.text + a.after for a in advise(brk, expression)[:1])


def comprehension_after_a_skip(x):
    for _ in range(2):
        print(x.shape)
        x = x + 1
    return torch.stack([fn(x) for fn in fns])


def test_a_comprehension_after_a_skip_is_a_consequence() -> None:
    first, *others = breaks(comprehension_after_a_skip)
    assert not is_consequence(first)
    for brk in others:  # none on Python 3.12, which has no frame for a comprehension
        expression = expression_of(brk)
        assert is_consequence(brk)
        assert classify(brk, expression) == "comprehension"
        assert "frame of its own" in sentence(brk, expression, None)


def test_a_method_looked_up_before_a_break_is_a_consequence() -> None:
    first, second = breaks(numpy_on_shapes)
    assert not is_consequence(first)
    assert is_consequence(second)
    assert "Tensor.reshape" in sentence(second, expression_of(second), None)
