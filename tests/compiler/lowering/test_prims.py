"""Canonical operators, extern operators and prims: closed tables, and graphs lowered to them."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.lowering_zoo import trace_graphs
from benchmarks.models.vision_ops import load_torchvision
from fullgraph.compiler.lowering.prims import (
    broken_rules,
    canonical_operators,
    extern_operators,
    lower_to_canonical,
    lower_to_prims,
    prims,
    report,
)
from fullgraph.compiler.lowering.prims.foreach import foreach_decompositions
from fullgraph.compiler.private import prim_aliasing, prim_result_dtype, torch_prims

DTYPES = {"default": "same", "always_bool": "bool", "complex_to_float": "real"}


def test_every_operator_of_lists_is_decomposed() -> None:
    names = {
        f"{schema.name.removeprefix('aten::')}.{schema.overload_name or 'default'}"
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::_foreach_") and not schema.name.endswith("_")
    }
    assert {name for name in names if "out" not in name} == foreach_decompositions().keys()


def with_gradients(function: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    """Return a function of the result and of the gradients of its inputs of floating point."""

    def run(*inputs: Tensor) -> list[Tensor]:
        inputs = tuple(x.detach().requires_grad_(x.is_floating_point()) for x in inputs)
        result = function(*inputs)
        wanted = [x for x in inputs if x.requires_grad]
        return [result.detach(), *torch.autograd.grad(result, wanted, result.detach().cos())]

    return run


def trace(function: Callable[..., Tensor], *inputs: Tensor) -> torch.fx.GraphModule:
    return make_fx(with_gradients(function), tracing_mode="fake")(*inputs)


def test_no_operator_is_both_canonical_and_extern() -> None:
    assert not canonical_operators().keys() & extern_operators().keys()


def test_every_name_is_an_operator_of_torch() -> None:
    names = [f"aten.{name}" for name in (*canonical_operators(), *extern_operators())]
    for name in {*names, *prims()} - {"aten.cholesky.default"}:  # gone in torch 2.15
        library, packet, overload = name.split(".")
        assert hasattr(getattr(getattr(torch.ops, library), packet), overload), name


def test_there_are_at_most_250_prims() -> None:
    assert 100 < len(prims()) <= 250


def test_rules_of_prims_are_those_of_torch() -> None:
    for name, operator in torch_prims().items():
        prim = prims().get(f"prims.{name}.default")
        if prim is None:
            continue
        assert prim.aliasing == prim_aliasing(operator), name
        dtype = prim_result_dtype(operator)
        assert dtype is None or prim.dtype == DTYPES[dtype], name


def test_a_graph_of_canonical_operators_stays_as_it_is() -> None:
    module = trace(lambda x: (x.exp() + x).sum(1), torch.randn(3, 4))
    first = lower_to_canonical(module)
    second = lower_to_canonical(first)
    assert [str(node.target) for node in first.graph.nodes] == [
        str(node.target) for node in second.graph.nodes
    ]


def test_report_names_an_operator_outside_both_tiers() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.aten.gelu_.default, (x,)))
    found = report(torch.fx.GraphModule({}, graph))
    assert not found.is_closed and found.outside == {"aten.gelu_.default": 1}
    assert "outside: aten.gelu_.default × 1" in str(found)


def test_index_put_is_extern_only_if_it_accumulates() -> None:
    x, at, v = torch.zeros(5), torch.tensor([0, 2]), torch.ones(2)
    for accumulate in (False, True):
        module = trace(lambda x, at, v, a=accumulate: torch.index_put(x, (at,), v, a), x, at, v)
        found = report(lower_to_canonical(module))
        assert ("aten.index_put.default (scatter with conflicts)" in found.extern) == accumulate


def test_a_broken_rule_is_named() -> None:
    lowered = lower_to_prims(trace(lambda x: x + x, torch.randn(3)))
    assert not broken_rules(lowered)
    node = next(n for n in lowered.graph.nodes if n.target is torch.ops.prims.add.default)
    node.meta["val"] = node.meta["val"].bool()
    found = broken_rules(lowered)
    assert found[0] == "add: prims.add.default returns torch.bool, and its rule says torch.float32"


X = (torch.arange(2 * 3 * 7 * 6, dtype=torch.float64) * 1.7).sin().reshape(2, 3, 7, 6)
CASES: dict[str, tuple[Callable[..., Tensor], Tensor]] = {
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), X),
    "avg_pool2d, overlapping": (lambda x: F.avg_pool2d(x, 3, 2, 1), X),
    "avg_pool2d, ceil": (lambda x: F.avg_pool2d(x, (3, 2), 2, (1, 0), True, False), X),
    "avg_pool2d, gaps": (lambda x: F.avg_pool2d(x, 2, 3), X),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), X[0]),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, 1), X),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), X),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x[None], (2, 3, 4)), X),
    "bilinear": (lambda x: F.interpolate(x, (9, 5), mode="bilinear"), X),
    "bilinear, corners": (lambda x: F.interpolate(x, (9, 5), None, "bilinear", True), X),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), X),
    "trilinear": (lambda x: F.interpolate(x[None], (4, 5, 9), mode="trilinear"), X),
    "nearest": (lambda x: F.interpolate(x, (14, 4), mode="nearest"), X),
    "nearest-exact": (lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest-exact"), X),
    "reflect": (lambda x: F.pad(x, (2, 1, 0, 3), mode="reflect"), X),
    "replicate": (lambda x: F.pad(x, (2, 1, 4, 3), mode="replicate"), X),
    "max over a dim": (lambda x: x.max(2).values + x.min(2, keepdim=True).values[:, :, 0], X),
    "prod, std": (lambda x: x[0].prod() + x.std((1, 2)), X),
    "layer norm": (lambda x: F.layer_norm(x, (7, 6)), X),
    "group norm": (lambda x: F.group_norm(x, 3), X),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), X),
    "views": (lambda x: x.unfold(2, 3, 2).diagonal(0, 3, 4).movedim(1, 0)[1, 0:1].squeeze(), X),
    "cross entropy": (lambda x: F.cross_entropy(x, torch.zeros(2, 7, 6, dtype=torch.long)), X),
    "masks": (lambda x: x.tril().masked_fill(x > 0.5, 2).clamp(-1, 1.5).logcumsumexp(1), X),
    "scan of a mask": (lambda x: (x > 0).cumsum(1) * x, X),
    "empty tensors": (
        lambda x: (
            torch.empty_permuted((2, 3), (1, 0)).zero_().sum() + torch.empty(2).fill_(1).sum() + x
        ),
        X,
    ),
    "slices written": (lambda x: torch.select_scatter(x.flip(1), x[:, 0] * 2, 1, 1), X),
}


@pytest.mark.parametrize("name", CASES)
def test_both_tiers_compute_what_eager_computes(name: str) -> None:
    function, x = CASES[name]
    expected = with_gradients(function)(x)
    canonical = lower_to_canonical(trace(function, x))
    lowered = lower_to_prims(canonical)
    assert report(canonical).is_closed, report(canonical)
    assert report(lowered, "prims").is_closed, report(lowered, "prims")
    assert not broken_rules(lowered)
    for module in (canonical, lowered):
        torch.testing.assert_close(module(x), expected)


def tiny_models() -> dict[str, Callable[[], tuple[torch.nn.Module, Tensor]]]:
    hf = pytest.importorskip("transformers", reason="the extra `models` is not installed")
    load_torchvision()
    timm = importlib.import_module("timm")
    sizes = {
        "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 37, "max_position_embeddings": 64,
    }  # fmt: skip
    ids, image = torch.randint(0, 99, (2, 8)), torch.rand(2, 3, 64, 64)
    vit = {"depth": 1, "embed_dim": 48, "img_size": 64, "drop_rate": 0.1}
    convnext = {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}
    resnet = {"layers": (1, 1, 1, 1), "channels": (8, 16, 24, 32)}
    return {
        "bert": lambda: (hf.BertModel(hf.BertConfig(**sizes)), ids),
        "llama": lambda: (hf.LlamaModel(hf.LlamaConfig(**sizes, use_cache=False)), ids),
        "vit": lambda: (timm.create_model("vit_tiny_patch16_224", **vit), image),
        "convnext": lambda: (timm.create_model("convnext_atto", **convnext), image),
        "resnet": lambda: (timm.create_model("resnet10t", **resnet), image),
    }


@pytest.mark.compiles
def test_a_constant_tensor_is_lowered() -> None:
    graphs = trace_graphs(lambda x: x * torch.tensor([2.0, 3.0]), [torch.ones(2)], {}, grad=False)
    lowered = lower_to_prims(graphs[0])
    assert report(graphs[0]).is_closed and report(lowered, "prims").is_closed
    torch.testing.assert_close(lowered(torch.ones(2))[0], torch.tensor([2.0, 3.0]))


@pytest.mark.compiles
@pytest.mark.parametrize("name", ["bert", "llama", "vit", "convnext", "resnet"])
def test_graphs_of_real_models_are_closed(name: str) -> None:
    model, x = tiny_models()[name]()
    graphs = trace_graphs(model.train(), [x], {}, grad=True)
    graphs += trace_graphs(model.eval(), [x], {}, grad=False)
    assert len(graphs) == 2
    for graph in graphs:
        lowered = lower_to_prims(graph)
        assert report(graph).is_closed, report(graph)
        assert report(lowered, "prims").is_closed, report(lowered, "prims")
        assert not broken_rules(lowered)
