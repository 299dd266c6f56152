"""What explain estimates that joining graphs saves."""

import jsonschema
import pytest
import torch

from fullgraph import explain
from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.events import Graph
from fullgraph.compiler.recording import record
from fullgraph.diagnose.report.data import from_dict, to_dict
from fullgraph.diagnose.report.schema import EXPLAIN


def relu_print_add(x):
    y = x.relu()
    print("between")
    return y + 1


def print_alone(x):
    print("before")
    return x + 1


@pytest.fixture(scope="module")
def report():
    return explain(relu_print_add, torch.ones(64, 64), device="h200")


@pytest.mark.compiles
def test_break_between_pointwise_operators_saves_a_kernel_and_a_round_trip(report):
    (cause,) = report.causes
    assert cause.saving.device == "H200 SXM"
    assert cause.saving.launches == 1
    assert cause.saving.bytes == 2 * 64 * 64 * 4
    assert cause.saving.seconds > 0


@pytest.mark.compiles
def test_details_say_the_saving_and_the_first_screen_does_not(report):
    details = " ".join(report.text(cause="C1").split())
    assert "joining saves 1 kernel, 32.0 KiB and 5.01 µs a run on H200 SXM (estimate)" in details
    assert "joining" not in report.text()
    assert "joining saves 1 kernel" in report.to_html()


@pytest.mark.compiles
def test_json_has_the_saving(report):
    data = to_dict(report)
    jsonschema.validate(data, EXPLAIN)
    assert data["causes"][0]["saving"]["launches"] == 1
    assert from_dict(data).causes[0].saving == report.causes[0].saving


@pytest.mark.compiles
def test_default_device_is_this_cpu():
    (cause,) = explain(relu_print_add, torch.ones(64, 64), unmask=False).causes
    assert cause.saving.device == "this CPU"


@pytest.mark.compiles
def test_break_without_a_graph_before_it_has_no_estimate():
    (cause,) = explain(print_alone, torch.ones(4), device="h200", unmask=False).causes
    assert cause.saving is None


@pytest.mark.compiles
def test_program_of_one_graph_records_no_operators():
    with record(operators=True) as recorder:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(4))
    (graph,) = (event for event in recorder.recording.events if isinstance(event, Graph))
    assert graph.operators is None


def test_unknown_device_is_refused_before_anything_runs():
    ran = []
    with pytest.raises(FullgraphError, match="no device 'tpu'"):
        explain(ran.append, torch.ones(2), device="tpu")
    assert not ran
