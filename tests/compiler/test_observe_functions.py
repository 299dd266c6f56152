"""Values of the expressions of functions, from one run in eager."""

import ast
import inspect

import numpy as np
import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.facts import ValueSummary
from fullgraph.compiler.observe import observe_functions
from fullgraph.compiler.sources import read_source


def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2


def function(x: torch.Tensor, zeros: tuple[float, ...]) -> object:
    for zero in zeros:
        x = halve(x) + zero
    if x.sum() > 1e9:
        return None
    return f"{np.float32(1)}", np.ones((2, 3), dtype=np.int8), zeros[5]


def summaries() -> dict[str, ValueSummary]:
    lines, first = inspect.getsourcelines(function)
    run = lambda: function(torch.ones(4), (0.0, -0.0, float("nan"), float("nan")))  # noqa: E731
    found = observe_functions(run, [Position(__file__, first + len(lines) - 1)])
    assert found.raised == "IndexError: tuple index out of range"
    source = read_source(__file__)
    assert source is not None
    return {
        source.segment(node): seen
        for node in source.parents
        if isinstance(node, ast.expr) and (seen := found.at(source.position(node, "function")))
    }


def test_values_of_a_function_and_of_the_functions_that_it_calls() -> None:
    seen = summaries()
    assert seen["x / 2"].is_tensor
    assert seen["x / 2"].dtypes == {"float32"}
    assert seen["x / 2"].shapes == {(4,)}
    assert seen["x / 2"].count == 4
    assert seen["halve"].names == (f"{__name__}.halve",)
    assert list(map(str, seen["zero"].values)) == ["0.0", "-0.0", "nan"]
    assert seen["zeros"].items == ("float",)
    assert "None" not in seen


def test_arrays_have_dtype_and_shape() -> None:
    seen = summaries()["np.ones((2, 3), dtype=np.int8)"]
    assert seen.is_ndarray and not seen.tensors
    assert [(one.kind, one.dtype, one.shape) for one in seen.arrays] == [
        ("ndarray", "int8", (2, 3))
    ]
