"""Real models, tiny and with random weights, through explain and the guarded compile."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.models.vision_ops import load_torchvision
from fullgraph import explain
from fullgraph.compiler.fallback import compile, report

pytestmark = pytest.mark.compiles

TINY: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}


@pytest.fixture
def transformers() -> ModuleType:
    """Loaded late: every fork of a process with such libraries takes longer."""
    load_torchvision()
    return importlib.import_module("transformers")


@pytest.fixture
def timm() -> ModuleType:
    load_torchvision()
    return importlib.import_module("timm")


def test_bert_and_a_resnet_are_one_graph(timm: ModuleType, transformers: ModuleType) -> None:
    bert = transformers.BertModel(transformers.BertConfig(**TINY)).eval()
    ids = torch.randint(0, 99, (2, 8))
    found = explain(bert, {"input_ids": ids})
    assert found.default.ok and found.fullgraph.ok
    assert found.graphs[0].ops > 50
    resnet = timm.create_model("resnet10t", pretrained=False).eval()
    assert explain(resnet, torch.rand(1, 3, 64, 64)).default.ok


def test_training_bert_leaves_its_gradients_alone(transformers: ModuleType) -> None:
    config = transformers.BertConfig(**TINY)
    bert = transformers.BertForSequenceClassification(config).train()
    inputs = {"input_ids": torch.randint(0, 99, (2, 8)), "labels": torch.tensor([0, 1])}
    found = explain(bert, inputs, loss=lambda out: out.loss, backend="aot_eager")
    assert found.default.ok
    assert all(p.grad is None for p in bert.parameters())


def test_a_break_in_each_layer_of_a_real_model_is_one_cause(transformers: ModuleType) -> None:
    bert = transformers.BertModel(transformers.BertConfig(**TINY)).eval()

    class Noisy(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            out = self.inner(*args, **kwargs)
            print("layer done")
            return out

    layers = bert.encoder.layer
    for i, layer in enumerate(layers):
        layers[i] = Noisy(layer)
    found = explain(bert, {"input_ids": torch.randint(0, 99, (2, 8))})
    (cause,) = found.causes
    assert cause.expression == 'print("layer done")'
    assert cause.module_path == "encoder.layer[0..1]"
    assert cause.frame == "skipped"  # the loop over the layers


def test_a_transformer_is_healthy_forward_and_backward(transformers: ModuleType) -> None:
    config = transformers.BertConfig(**{**TINY, "num_hidden_layers": 1})
    compiled = compile(transformers.BertModel(config).eval())
    compiled(torch.randint(0, 99, (2, 8))).last_hidden_state.sum().backward()
    assert {(g.rung, g.checked) for g in report(compiled)} == {("inductor", True)}


def test_a_vision_model_is_healthy_forward_and_backward(timm: ModuleType) -> None:
    compiled = compile(timm.create_model("test_vit", num_classes=4, depth=1).eval())
    compiled(torch.randn(2, 3, 160, 160)).sum().backward()
    assert {(g.rung, g.checked) for g in report(compiled)} == {("inductor", True)}
