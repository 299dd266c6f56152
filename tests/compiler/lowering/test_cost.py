"""Estimated cost of graphs that Dynamo and `make_fx` capture."""

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.lowering.cost import (
    add_costs,
    find_device,
    graph_cost,
    join_traces,
    published_devices,
    trace_cost,
    trace_operators,
)

H200 = published_devices()["h200"]


def capture(function, *args, dynamic=None):
    """Return the graphs that Dynamo passes to its backend, in order."""
    graphs = []

    def keep(module, inputs):
        graphs.append(module)
        return module.forward

    torch.compile(function, backend=keep, dynamic=dynamic)(*args)
    return graphs


def cost(function, *args, fuse=True):
    """Return the cost of the one graph of a function."""
    (graph,) = capture(function, *args)
    return graph_cost(graph, H200, fuse=fuse)


def test_pointwise_chain_is_one_kernel_that_reads_and_writes_once():
    found = cost(lambda x: (x.relu() + 1).sin() * 2, torch.ones(64, 128))
    assert (found.kernels, found.externs) == (1, 0)
    assert (found.bytes_read, found.bytes_written) == (64 * 128 * 4, 64 * 128 * 4)


def test_change_of_sizes_in_place_is_free():
    found = cost(lambda x: (x + 1).t_() * 2, torch.ones(4, 8))
    assert (found.launches, found.unknown) == (1, ())


def test_without_fusing_each_operator_is_a_kernel():
    found = cost(lambda x: x.relu() + 1, torch.ones(64, 128), fuse=False)
    assert found.kernels == 2
    assert found.bytes == 4 * 64 * 128 * 4


def test_views_are_free():
    found = cost(lambda x: x.t()[:, None].expand(8, 3, 4) + 1, torch.ones(4, 8))
    assert found.kernels == 1
    assert found.bytes_read == 4 * 8 * 4


@pytest.mark.parametrize(
    ("function", "kernels"),
    [
        pytest.param(lambda x: x.softmax(-1), 1, id="softmax over rows"),
        pytest.param(lambda x: x.softmax(0), 4, id="softmax over columns"),
        pytest.param(lambda x: F.layer_norm(x, (128,)), 1, id="layer norm"),
        pytest.param(lambda x: x.sum() * 2 + 1, 2, id="full reduction ends its kernel"),
        pytest.param(lambda x: (x.sum(0), x.sum(1)), 2, id="reductions of other dims"),
        pytest.param(lambda x: (x.amax(1), x.sum(1)), 1, id="reductions of the same dims"),
    ],
)
def test_reductions_fuse_as_in_inductor(function, kernels):
    assert cost(function, torch.ones(64, 128)).kernels == kernels


def test_product_is_an_extern_call_with_torchs_flops():
    found = cost(lambda x, y: (x @ y).relu(), torch.ones(16, 32), torch.ones(32, 8))
    assert (found.kernels, found.externs) == (1, 1)
    assert found.flops == 2 * 16 * 32 * 8 + 16 * 8


def test_each_operand_of_cat_is_copied_on_cpu():
    found = cost(lambda x, y: torch.cat([x.relu(), y + 1]) * 2, torch.ones(8, 4), torch.ones(8, 4))
    assert found.kernels == 3


def test_convolution_copies_its_operands_to_channels_last_on_cpu():
    module = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8).eval())
    found = cost(module, torch.ones(2, 8, 16, 16))
    assert (found.kernels, found.externs, found.unknown) == (3, 1, ())


def test_loops_stay_apart_where_joining_makes_a_cycle():
    def function(x, w):
        a = x.relu()
        return a + (a @ w).sum(1, keepdim=True)

    found = cost(function, torch.ones(16, 16), torch.ones(16, 16))
    assert (found.kernels, found.externs) == (2, 1)


def test_unknown_operator_is_one_named_extern_call():
    @torch.library.custom_op("fullgraph_cost::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    found = cost(lambda x: twice(x + 1) + 1, torch.ones(8))
    assert found.unknown == ("fullgraph_cost.twice.default",)
    assert (found.kernels, found.externs) == (2, 1)


def test_peak_memory_is_that_of_live_intermediates_and_outputs():
    def function(x):
        for _ in range(4):
            x = x @ x
        return x

    assert cost(function, torch.ones(16, 16)).peak_memory == 2 * 16 * 16 * 4


def test_symbolic_sizes_count_by_their_hints_without_a_guard():
    (graph,) = capture(lambda x: x.view(-1) + 1, torch.ones(6, 10), dynamic=True)
    sizes = [n.meta["example_value"] for n in graph.graph.nodes if n.op == "placeholder"]
    environment = next(s.node.shape_env for s in sizes if isinstance(s, torch.SymInt))
    before = len(environment.guards)
    assert graph_cost(graph, H200).bytes_read == 6 * 10 * 4
    assert len(environment.guards) == before


def test_data_dependent_sizes_have_a_cost():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = cost(lambda x: x.nonzero() + 1, torch.ones(8))
    assert found.launches >= 1


def test_aten_graph_has_the_cost_of_dynamos():
    def function(x):
        return F.layer_norm(x, (32,)).relu()

    x = torch.ones(8, 32)
    aten = make_fx(function, tracing_mode="fake")(x)
    assert graph_cost(aten, H200) == cost(function, x)


def test_in_place_updates_of_inputs_are_written():
    def function(x):
        x.add_(1)
        return x * 2

    found = cost(function, torch.ones(64))
    assert found.kernels == 1
    assert found.bytes_written == 2 * 64 * 4


def test_random_stream_and_autocast_stay_as_found():
    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            return F.dropout(x @ x, 0.5)

    (graph,) = capture(function, torch.ones(8, 8))
    state = torch.get_rng_state()
    graph_cost(graph, H200)
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.is_autocast_enabled("cpu")


def test_joined_graphs_save_the_bytes_between_them():
    def function(x):
        y = x.relu()
        torch._dynamo.graph_break()
        return y + 1

    first, second = capture(function, torch.ones(256))
    joined = trace_cost(join_traces(trace_operators(first), trace_operators(second)), H200)
    apart = add_costs([graph_cost(one, H200) for one in (first, second)])
    assert (apart.launches, joined.launches) == (2, 1)
    assert apart.bytes - joined.bytes == 2 * 256 * 4
    assert apart.seconds > joined.seconds


def test_sum_of_costs_keeps_the_largest_peak():
    one = cost(lambda x: x + 1, torch.ones(8))
    two = cost(lambda x: x + 1, torch.ones(16))
    assert add_costs([one, two]).peak_memory == two.peak_memory


def test_time_is_launches_plus_the_slower_of_moving_and_computing():
    found = cost(lambda x: x + 1, torch.ones(1 << 20))
    assert found.seconds == pytest.approx(H200.launch + found.bytes / H200.bandwidth)


def test_device_names_are_read_as_people_write_them():
    assert find_device("RTX 4090").name == "rtx4090"


def test_unknown_device_is_one_sentence_with_the_known_names():
    with pytest.raises(FullgraphError, match=r"no device 'tpu': give one of cpu, a100, h100"):
        find_device("tpu")


def test_this_cpu_is_measured_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = find_device()
    assert first.bandwidth > 0 and first.peak("float32") > 0 and first.launch > 0
    assert len(list(tmp_path.rglob("*.json"))) == 1
    assert find_device() == first


def test_unwritable_cache_folder_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert find_device().bandwidth > 0
