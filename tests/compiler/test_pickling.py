"""What one process hands to another comes out there as it was."""

import operator
import subprocess
import sys
import threading
import types

import pytest
import torch
import triton
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from fullgraph import FullgraphError
from fullgraph.compiler.private import (
    add_triton_constants,
    add_triton_kernel,
    deserialize,
    serialize,
    triton_constants,
    triton_kernel,
)
from fullgraph.minifier.graphs import describe_value, fingerprint
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.reduce.stages import capture_graphs
from tests.text import block

X = torch.randn(4, 6)
ONES = torch.ones(2)


def again(thing):
    return deserialize(serialize(thing))


def grown():
    return (X.clone().requires_grad_() * 2).t()


def inferred():
    with torch.inference_mode():
        return torch.ones(3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: X[1:, ::2],
        lambda: torch.ones(1).expand(5),
        lambda: X.t().conj(),
        lambda: torch.randn(3, dtype=torch.cfloat).conj(),
        lambda: torch._neg_view(X),
        lambda: torch._efficientzerotensor(3),
        lambda: X.to_sparse(),
        lambda: X.to_sparse_csr(),
        lambda: X.to_mkldnn(),
        lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
        lambda: nn.Parameter(X, requires_grad=False),
        lambda: X.to("meta"),
        grown,
        inferred,
    ],
)
def test_a_tensor_is_the_same(make):
    tensor = make()
    told = again(tensor)
    assert type(told) is type(tensor) and told.is_inference() == tensor.is_inference()
    if not tensor.is_mkldnn:
        assert describe_value(told, {}) == describe_value(tensor, {})
    else:
        assert torch.equal(told.to_dense(), tensor.to_dense())


def test_common_memory_stays_common():
    base = torch.zeros(4)
    one, other, whole = again((base[1:], base[:2], base))
    one[0] = 7
    assert other[1] == whole[1] == 7


def test_a_tensor_with_a_history_has_one():
    told = again(grown())
    assert told.requires_grad and not told.is_leaf
    told.sum().backward()


def one_more(tensor):
    tensor.grad += 1


def test_a_leaf_keeps_its_gradient_and_its_hooks():
    leaf = nn.Parameter(torch.ones(2))
    leaf.grad = torch.full((2,), 5.0)
    leaf.register_hook(lambda gradient: gradient * 10)
    leaf.register_post_accumulate_grad_hook(one_more)
    told = again(leaf)
    assert isinstance(told, nn.Parameter) and torch.equal(told.grad, leaf.grad)
    for each in (leaf, told):
        (each * 2).sum().backward()
    assert told.grad.tolist() == leaf.grad.tolist() == [26.0, 26.0]


def test_a_parametrized_module_stays_one():
    module = nn.Sequential(weight_norm(nn.Linear(6, 3)))
    told = again(module)
    assert torch.equal(told(X), module(X)) and type(told[0]).__name__ == "ParametrizedLinear"
    told[0].parametrizations.weight.original0.data.zero_()
    assert not told[0].weight.any() and module[0].weight.any()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("shift", torch.ones(6))

    def forward(self, x):
        y = self.linear(x) + self.shift
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = y @ y.t()
        y = torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))
        return torch.vmap(lambda row: row * 2)(y), {"part": y[1:3, ::2]}


@pytest.mark.compiles
@pytest.mark.parametrize("level", ["dynamo", "aot"])
def test_a_graph_is_the_same(level):
    for graph in capture_graphs(Case(Net(), (X,), loss=True), level):
        module, inputs = again((graph.module, graph.inputs))
        assert fingerprint(module, inputs) == graph.key
        pairs = zip(module(*inputs), graph.module(*graph.inputs), strict=True)
        assert all(torch.equal(*pair) for pair in pairs if pair[0] is not None)


class Form(torch.fx.graph.CodeGen):
    """What a module of torch.export has, too."""

    def process_inputs(self, *inputs):
        return inputs[0]["x"], inputs[0]["y"]


def test_a_graph_module_keeps_its_hooks_and_the_form_of_its_inputs():
    module = torch.fx.symbolic_trace(lambda x, y: x - y)
    module.graph.set_codegen(Form())
    module.register_forward_hook(lambda module, inputs, output: output * 10)
    told = again(module.eval())
    assert not told.training and type(told.graph._codegen) is Form
    assert told(*told.graph.process_inputs({"x": ONES, "y": 2 * ONES})).eq(-10).all()


@triton.jit
def kernel(pointer):
    pass


def test_a_triton_kernel_is_known_by_another_number():
    assert again(kernel) is kernel
    graph = torch.fx.Graph()
    where = {"kernel_idx": add_triton_kernel(kernel), "constant_args_idx": 0}
    where["constant_args_idx"] = add_triton_constants({"n": 3})
    graph.call_function(torch.ops.higher_order.cond, (), where)
    (node,) = again(torch.fx.GraphModule(nn.Module(), graph)).graph.nodes
    assert triton_kernel(node.kwargs["kernel_idx"]) is kernel
    assert triton_constants(node.kwargs["constant_args_idx"]) == {"n": 3}


@pytest.mark.compiles
def test_functions_that_nobody_could_import_come_along(tmp_path):
    module = types.ModuleType("stray")
    text = block("""
        STEP = 2
        class Stray:
            def __call__(self, x):
                return x + STEP""")
    exec(text, vars(module))
    sys.modules["stray"] = module
    try:
        data = serialize((module.Stray(), lambda x: operator.mul(x, 10)))
    finally:
        del sys.modules["stray"]
    (tmp_path / "data").write_bytes(data)
    there = block("""
        from fullgraph.compiler.private import deserialize
        import sys
    """)
    there += block("""
        stray, ten = deserialize(open(sys.argv[1], 'rb').read())
        print(stray(1), ten(5))""")
    command = [sys.executable, "-c", there, str(tmp_path / "data")]
    assert subprocess.check_output(command, text=True, timeout=100) == "3 50\n"


class Reduced:
    """Calls a function while it is pickled."""

    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        self.call()
        return int, ()


def test_two_threads_may_serialize_at_once():
    module = sys.modules["stray"] = types.ModuleType("stray")
    exec(
        block("""
            class Stray:
                size = 3"""),
        vars(module),
    )
    is_second_inside, is_first_done, data = threading.Event(), threading.Event(), []

    def serialize_second():
        waiting = Reduced(lambda: is_second_inside.set() or is_first_done.wait(5))
        data.append(serialize((waiting, module.Stray())))

    second = threading.Thread(target=serialize_second)
    serialize(Reduced(lambda: second.start() or is_second_inside.wait(0.5)))
    is_first_done.set()
    second.join()
    del sys.modules["stray"]
    assert deserialize(data[0])[1].size == 3


def test_a_function_keeps_the_file_of_its_source():
    def outer(x):
        return [t + 1 for t in x]

    code = again(outer).__code__
    inner = next(c for c in code.co_consts if isinstance(c, types.CodeType))
    assert code.co_filename == inner.co_filename == __file__
    assert [*code.co_positions()] == [*outer.__code__.co_positions()]


def test_what_cannot_be_handed_on_is_said():
    with pytest.raises(FullgraphError, match=r"cannot be handed to another process: .*lock"):
        serialize({"lock": threading.Lock()})
