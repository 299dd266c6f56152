"""Each row of the survey of real code: the category, the expression and the advice people get."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from fullgraph.compiler.events import Break
from fullgraph.compiler.recording import record
from fullgraph.compiler.sources import read_source
from fullgraph.diagnose.causes import diagnose, place_of
from fullgraph.diagnose.explain import explain
from fullgraph.diagnose.taxonomy import is_consequence
from tests.diagnose import survey

pytestmark = pytest.mark.compiles


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
    Row(
        survey.legacy_variable,
        "legacy Variable",
        "Variable(noise)",
        "Drop the wrapper",
        "empty wrapper",
    ),
    Row(survey.recurrent, "RNN module", "rnn(x)", "outside", "LSTM"),
    Row(survey.item, "scalar extraction", "x.sum().item()", "0-d tensor", "Python scalar"),
    Row(survey.int_of_tensor, "scalar extraction", "int(x.sum())", "0-d tensor", "Python scalar"),
    Row(
        survey.float_of_tensor, "scalar extraction", "float(x.sum())", "0-d tensor", "Python scalar"
    ),
    Row(
        survey.mask_read,
        "boolean mask",
        "x[x > 0.5]",
        "torch.where(x > 0.5, x, 0)",
        "shape that depends on the values of its mask",
    ),
    Row(survey.if_on_tensor, "data-dependent branch", "torch.sum(x) == 0", "torch.where", "branch"),
    Row(survey.while_on_tensor, "data-dependent branch", "x.sum() < 100", "while_loop", "branch"),
    Row(survey.numpy_on_shapes, "NumPy scalar", "int(np.prod(x.shape[:-1]))", "math.prod", "NumPy"),
    Row(survey.masked_assignment, "masked assignment", "x[x > 0.5]", "torch.where", "written back"),
    Row(
        survey.masked_assignment_of_a_function,
        "masked assignment",
        "x[x > 0.5]",
        "torch.where",
        "written back",
    ),
    Row(survey.tensor_as_shape, "scalar extraction", "torch.ones(rows, 2)", "the caller", "number"),
    Row(
        survey.packed,
        "packed sequence",
        "nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)",
        "Pad, and mask",
        "lengths",
    ),
    Row(survey.requires_grad, "requires_grad", "mask.requires_grad", "Detach", "requires_grad"),
    Row(
        survey.equal_in_if, "tensor comparison", "torch.equal(x, x * 1)", "torch.where", "compares"
    ),
    Row(
        survey.nonzero,
        "nonzero",
        "(x > 0.5).nonzero()",
        "torch.where",
        "shape that depends on data",
    ),
    Row(survey.one_argument_where, "nonzero", "torch.where(x > 0.5)", "torch.where", "shape"),
    Row(
        survey.assert_on_tensor,
        "tensor assert",
        "torch.isnan(x).any()",
        "torch._assert_async",
        "assert",
    ),
    Row(
        survey.sparse,
        "sparse tensor",
        "torch.sparse_coo_tensor(indices, torch.ones(2), (4, 4))",
        "dense",
        "sparse",
    ),
    Row(
        survey.bincount,
        "bincount",
        "torch.bincount((x * 3).long().flatten())",
        "scatter_add",
        "length",
    ),
    Row(survey.warn, "warning", 'warnings.warn("large", stacklevel=1)', "is_compiling", "warning"),
    Row(
        survey.logger_call, "print / logging", 'log.warning("large")', "is_compiling", "side effect"
    ),
    Row(survey.print_call, "print / logging", "print(x)", "is_compiling", "side effect"),
    Row(survey.range_over_ndarray, "NumPy loop", "range(sizes[0])", "list", "NumPy array"),
    Row(survey.sorted_ndarray, "NumPy loop", "sorted(np.array([3, 2]))", "np.sort", "NumPy array"),
    Row(
        survey.numpy_ceil_item,
        "NumPy scalar",
        "np.ceil(x.shape[0] / 2).astype(int).item()",
        "math",
        "Python number",
    ),
    Row(survey.mgrid, "NumPy function", "np.mgrid[0:3, 0:4]", "torch.meshgrid", "NumPy function"),
    Row(
        survey.tensor_of_size,
        "scalar extraction",
        "torch.tensor(x.size()).tolist()",
        ".shape",
        "Python scalar",
    ),
    Row(survey.python_random, "random number", "random.random()", "torch.where", "random"),
    Row(
        survey.branch_on_uniform,
        "random number",
        "random.uniform(0, 1) < 1",
        "torch.where",
        "random",
    ),
    Row(survey.numpy_random, "random number", "np.random.rand()", "torch", "NumPy's random"),
    Row(
        survey.math_of_tensor,
        "scalar extraction",
        "math.sqrt(x.sum())",
        "own method",
        "Python scalar",
    ),
    Row(
        survey.deprecated_argument,
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
    file = read_source(place.file)
    assert file is not None
    node = file.node(place)
    return "" if node is None else file.segment(node)


AT_OTHER_PLACES = {"random.random()": "random.random() < 1"}
"""Since 2.14 `random.random()` is traced, and the branch on it breaks."""
ALSO = {"NumPy loop": "scalar extraction"}
"""Since 2.14 a NumPy number in `range` is told as any number out of a tensor."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.run.__name__)
def test_a_row_of_the_survey(row: Row) -> None:
    cause = explain(row.run, torch.rand(3, 4, 4), unmask=False).causes[0]
    if cause.category == ALSO.get(row.category):
        pytest.skip("this torch does not tell NumPy from torch here")
    assert cause.category == row.category
    assert cause.expression in (row.expression, AT_OTHER_PLACES.get(row.expression))
    assert row.said in cause.message
    assert row.advice in cause.advice[0].text + cause.advice[0].after


def test_a_comprehension_after_a_skip_is_a_consequence() -> None:
    first, *others = breaks(survey.comprehension_after_a_skip)
    assert not is_consequence(first)
    for brk in others:  # none on Python 3.12, which has no frame for a comprehension
        expression = expression_of(brk)
        assert is_consequence(brk)
        assert diagnose(brk, expression=expression).category == "comprehension"
        assert "frame of its own" in diagnose(brk, expression=expression).sentence


def test_a_method_looked_up_before_a_break_is_a_consequence() -> None:
    first, second = breaks(survey.numpy_on_shapes)
    assert not is_consequence(first)
    assert is_consequence(second)
    assert "Tensor.reshape" in diagnose(second, expression=expression_of(second)).sentence
