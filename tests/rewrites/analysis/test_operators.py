"""The operator table says what torch's schemas say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fullgraph.rewrites.analysis import torch_names as table

SCRIPT = Path(__file__).parents[3] / "docs/operators.py"


@pytest.mark.slow
@pytest.mark.compiles
def test_the_table_is_that_of_the_running_torch() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_only_operators_on_elements_are_elementwise() -> None:
    assert table.ELEMENTWISE.isdisjoint(table.RANDOM | table.IN_PLACE)
    assert table.ELEMENTWISE.isdisjoint({"sum", "softmax", "cumsum", "sort", "equal", "transpose"})
    assert {"absolute", "where", "softsign", "type_as", "logsigmoid"} <= table.ELEMENTWISE


def test_a_function_that_may_return_its_operand_is_a_view() -> None:
    assert {"reshape", "float", "dropout", "Dropout2d", "Sequential"} <= table.VIEWS
    assert table.VIEWS.isdisjoint({"clone", "relu", "ReLU", "exp", "ELU", "Linear"})


def test_dropout_that_is_off_by_default_draws_nothing() -> None:
    assert {"rand_like", "gumbel_softmax", "AlphaDropout", "LSTM"} <= table.RANDOM
    assert table.RANDOM.isdisjoint({"scaled_dot_product_attention", "MultiheadAttention", "Linear"})


def test_layers_without_parameters_hold_no_other_layers() -> None:
    without = table.LAYERS_WITHOUT_PARAMETERS
    assert {"ReLU", "Softmin", "L1Loss", "ZeroPad2d"} <= without
    assert without.isdisjoint({"Linear", "PReLU", "Sequential", "ModuleList", "InstanceNorm2d"})
