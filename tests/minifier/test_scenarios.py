"""What PyTorch's own minifier and bisector are tested with, scenario by scenario."""

import os

import pytest
import torch
import torch._inductor.config
from torch import nn

from fullgraph import bisect, minify

pytestmark = pytest.mark.compiles


def raises_on(name):
    """A backend that cannot compile a graph with a call of that name."""

    def backend(module, inputs):
        for node in module.graph.nodes:
            if name in str(node.target):
                raise ValueError(f"{name} is not supported")
        return module

    return backend


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)).tanh()).softmax(-1)


# --- after Dynamo ---


def test_a_non_leaf_input_that_requires_grad():
    x = torch.randn(4, 6, requires_grad=True).exp()
    found = minify(Tower(), x, loss=True, backend=raises_on("relu"))
    assert found.bisection.first_failing == "backend" and found.ops == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_a_healthy_backend_must_not_fire(backend):
    found = minify(Tower(), torch.randn(4, 6), loss=True, backend=backend)
    assert found.refused is not None and found.refused.startswith("Nothing fails")


def test_forty_operators_and_one_relu():
    def chain(x):
        for _ in range(20):
            x = x.sin()
        x = torch.relu(x)
        for _ in range(20):
            x = x.cos()
        return x

    found = minify(chain, torch.randn(4), backend=raises_on("relu"))
    assert (found.ops, found.before) == (1, 41)
    assert found.calls <= 25


class FakeQuantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("scale", torch.tensor([0.1]))
        self.register_buffer("zero_point", torch.tensor([2], dtype=torch.int32))

    def forward(self, x):
        weight = torch.fake_quantize_per_channel_affine(
            self.linear.weight, self.scale.expand(3), self.zero_point.expand(3), 0, -128, 127
        )
        return torch.nn.functional.linear(x, weight, self.linear.bias).relu()


def test_a_module_for_quantised_training():
    found = minify(FakeQuantised(), torch.randn(4, 3), backend=raises_on("fake_quant"))
    assert found.ops == 1 and "int32" in found.text


def test_a_buffer_on_the_meta_device():
    class Meta(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(3, device="meta"))

        def forward(self, x):
            return torch.relu(x * self.scale)

    found = minify(Meta(), torch.randn(2, 3, device="meta"), backend=raises_on("relu"))
    assert found.ops == 1


# --- Inductor ---


@pytest.mark.real
@pytest.mark.slow
def test_the_relu_and_not_what_comes_before_and_after_it(inductor):
    """A constant, a mask, and a setting of no consequence."""
    inductor.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    inductor.max_fusion_size = 7
    constant = torch.arange(4.0) - 1

    def program(x):
        positive = torch.relu(x * constant)
        return (positive > 0.5), positive.sum() + constant

    found = minify(program, torch.randn(4))
    assert found.standalone and found.ops == 1 and "relu" in found.text
    assert "inject_relu_bug_TESTING_ONLY" in found.text
    assert "max_fusion_size" not in found.text


@pytest.mark.slow
def test_an_error_when_it_runs(inductor):
    inductor.cpp.inject_relu_bug_TESTING_ONLY = "runtime_error"
    found = minify(Tower().requires_grad_(False), torch.randn(4, 6))
    assert found.standalone and found.ops == 1 and "relu" in found.text


@pytest.mark.slow
def test_a_function_that_only_backward_uses(inductor):
    def backend(module, inputs):
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.aot_autograd import make_boxed_func

        def backward(graph, _):
            if any("threshold_backward" in str(node.target) for node in graph.graph.nodes):
                raise ValueError("no backward of relu here")
            return make_boxed_func(graph.forward)

        return aot_autograd(
            fw_compiler=lambda g, _: make_boxed_func(g.forward), bw_compiler=backward
        )(module, inputs)

    found = minify(Tower(), torch.randn(4, 6), loss=True, backend=backend)
    assert found.ops == 1


# --- after AOT ---


@pytest.mark.slow
def test_dynamic_shapes_go_where_the_failure_does_not_need_them_and_autocast_is_kept(inductor):
    inductor.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"

    def shaped(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.relu(x.view(-1, x.shape[1] // 2) @ w) * x.shape[0]

    found = minify(shaped, (torch.randn(6, 8), torch.randn(4, 4)), dynamic=True)
    assert found.standalone and found.ops == 1
    assert "relu" in found.text and "dynamic" not in found.text


@pytest.mark.slow
def test_dynamic_shapes_stay_where_the_failure_needs_them():
    def backend(module, inputs):
        if any(isinstance(one, torch.SymInt) for one in inputs):
            raise ValueError("no sizes here")
        return module

    found = minify(
        lambda x: x.relu() * x.shape[0], torch.randn(6, 8), dynamic=True, backend=backend
    )
    assert found.bisection.first_failing == "backend" and "dynamic=True" in found.text


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(12, dtype=torch.int32).reshape(3, 4),
        torch.arange(32.0).reshape(1, 2, 4, 4).to(memory_format=torch.channels_last),
        torch.arange(12.0).reshape(3, 4).t(),
    ],
    ids=["int32", "channels_last", "transposed"],
)
def test_exact_tensors(x):
    def picky(module, inputs):
        def call(*args):
            for arg in args:
                same = (arg.dtype, arg.stride(), arg.shape) == (x.dtype, x.stride(), x.shape)
                if same and torch.equal(arg, x):
                    raise ValueError("exactly this tensor")
            return module(*args)

        return call

    found = minify(lambda x: x.abs() + 1, x, backend=picky)
    assert found.bisection.failure is not None
    assert "exactly this tensor" in found.bisection.failure.message
    assert found.ops == 1


@pytest.mark.slow
def test_random_operators_draw_the_same_numbers(inductor):
    inductor.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

    def noisy(x):
        return torch.relu(torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x))

    found = minify(noisy, torch.randn(8))
    assert found.standalone and found.ops == 1 and "relu" in found.text


@pytest.mark.slow
def test_aot_graphs_can_be_asked_for(inductor):
    inductor.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    found = minify(Tower().requires_grad_(False), torch.randn(4, 6), repro_after="aot")
    assert found.standalone and "torch.ops.aten.relu" in found.text


# --- bisector ---


def breaking_pass(graph):
    """Turn each relu into its input."""
    for node in list(graph.nodes):
        if "relu" in str(node.target):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def harmless_pass(graph):
    """Change nothing."""


PASSES = ["pre_grad_custom_pass", "joint_custom_pre_pass", "post_grad_custom_pre_pass"]


@pytest.mark.parametrize(
    ("name", "others"), [(PASSES[0], None), *((name, harmless_pass) for name in PASSES)]
)
def test_a_bad_pass_is_found(inductor, name, others):
    for other in PASSES:
        setattr(inductor, other, breaking_pass if other == name else others)
    found = bisect(lambda x: torch.relu(x) + 1, torch.linspace(-1, 1, 8))
    assert found.first_failing == "inductor"
    assert found.culprit is not None and name in f"{found.culprit.part} {found.culprit.what}"


@pytest.mark.slow
def test_a_custom_operator_whose_fake_lies():
    @torch.library.custom_op("fullgraph_tests::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).t().contiguous().t()

    @doubled.register_fake
    def _(x):
        return torch.empty_like(x)

    found = bisect(lambda x: doubled(x.sin()).cos(), torch.randn(3, 4))
    assert found.first_failing == "inductor"  # the first that relies on strides
    assert found.cut is not None and found.cut.target == "doubled.default"


@pytest.mark.slow
def test_a_pass_of_ones_own_comes_along(inductor):
    inductor.post_grad_custom_pre_pass = breaking_pass
    found = minify(lambda x: torch.relu(x.sin()) + 1, torch.randn(8))
    assert found.standalone and "def breaking_pass(graph):" in found.text, found


@pytest.mark.slow
def test_a_pass_that_cannot_be_written_is_told(inductor):
    exec("def nameless(graph): breaking_pass(graph)", globals(), scope := {})
    inductor.post_grad_custom_pre_pass = scope["nameless"]
    found = minify(lambda x: torch.relu(x), torch.randn(8))
    assert not found.standalone and found.ops <= 2
    assert "# torch._inductor.config.post_grad_custom_pre_pass was set, but" in found.text


def test_an_abort_in_eager_gives_no_result():
    def dies(x):
        os.abort()

    found = bisect(dies, torch.ones(2), backend="aot_eager")
    assert found.refused is not None and "fails in eager already" in found.refused
    assert found.culprit is None and found.cut is None
