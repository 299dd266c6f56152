"""Layers and small networks of torch_geometric on a ring of eight nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.models.entry import Built, Entry

NODES = 8
CHANNELS = 16
RELATIONS = 3


def _edges() -> torch.Tensor:
    source = torch.arange(NODES)
    target = (source + 1) % NODES
    return torch.stack([torch.cat([source, target]), torch.cat([target, source])])


def _graph() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(NODES, CHANNELS), _edges()


def _pooled() -> tuple[Any, ...]:
    return *_graph(), None, _batch()


def _batch() -> torch.Tensor:
    """Two graphs of four nodes."""
    return torch.arange(NODES) // 4


def _sorted_nodes() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(NODES, CHANNELS), _batch()


def _typed() -> tuple[torch.Tensor, ...]:
    return *_graph(), torch.arange(2 * NODES) % RELATIONS


def _weighted() -> tuple[torch.Tensor, ...]:
    return *_graph(), torch.rand(2 * NODES)


def _attributed() -> tuple[torch.Tensor, ...]:
    return *_graph(), torch.rand(2 * NODES, CHANNELS)


def _residual() -> tuple[torch.Tensor, ...]:
    x, edges = _graph()
    return x, x, edges


def _cloud() -> tuple[torch.Tensor, ...]:
    return torch.randn(NODES, CHANNELS), torch.randn(NODES, 3), _edges()


def _signed() -> tuple[torch.Tensor, ...]:
    x, edges = _graph()
    return x, edges, edges.flip(0)


def _dense() -> tuple[torch.Tensor, ...]:
    return torch.randn(2, NODES, CHANNELS), torch.randint(0, 2, (2, NODES, NODES)).float()


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(CHANNELS, CHANNELS), nn.ReLU(), nn.Linear(CHANNELS, CHANNELS))


def _pair_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(2 * CHANNELS, CHANNELS), nn.ReLU())


Inputs = Callable[[], tuple[Any, ...]]
Make = Callable[[Any], nn.Module]
C = CHANNELS

LAYERS: tuple[tuple[str, Make, Inputs], ...] = (
    ("GCNConv", lambda g: g.GCNConv(C, C), _graph),
    ("SAGEConv", lambda g: g.SAGEConv(C, C), _graph),
    ("GATConv", lambda g: g.GATConv(C, C, heads=2), _graph),
    ("GATv2Conv", lambda g: g.GATv2Conv(C, C, heads=2), _graph),
    ("TransformerConv", lambda g: g.TransformerConv(C, C, heads=2), _graph),
    ("GINConv", lambda g: g.GINConv(_mlp()), _graph),
    ("GINEConv", lambda g: g.GINEConv(_mlp()), _attributed),
    ("ChebConv", lambda g: g.ChebConv(C, C, K=2), _graph),
    ("GraphConv", lambda g: g.GraphConv(C, C), _weighted),
    ("TAGConv", lambda g: g.TAGConv(C, C), _graph),
    ("GCN2Conv", lambda g: g.GCN2Conv(C, alpha=0.1), _residual),
    ("FeaStConv", lambda g: g.FeaStConv(C, C), _graph),
    ("EdgeConv", lambda g: g.EdgeConv(_pair_mlp()), _graph),
    ("RGCNConv", lambda g: g.RGCNConv(C, C, num_relations=RELATIONS), _typed),
    ("FiLMConv", lambda g: g.FiLMConv(C, C, num_relations=RELATIONS), _typed),
    ("PNAConv", lambda g: g.PNAConv(C, C, ["mean", "max"], ["identity"], torch.ones(4)), _graph),
    ("SuperGATConv", lambda g: g.SuperGATConv(C, C), _graph),
    ("PointTransformerConv", lambda g: g.PointTransformerConv(C, C), _cloud),
    ("SignedConv", lambda g: g.SignedConv(C, C, first_aggr=True), _signed),
    ("HypergraphConv", lambda g: g.HypergraphConv(C, C), _graph),
    ("TopKPooling", lambda g: g.TopKPooling(C), _pooled),
    ("SAGPooling", lambda g: g.SAGPooling(C), _pooled),
    ("EdgePooling", lambda g: g.EdgePooling(C), lambda: (*_graph(), _batch())),
    ("SoftmaxAggregation", lambda g: g.SoftmaxAggregation(), _sorted_nodes),
    ("MedianAggregation", lambda g: g.MedianAggregation(), _sorted_nodes),
    ("SortAggregation", lambda g: g.SortAggregation(k=3), _sorted_nodes),
    ("Set2Set", lambda g: g.Set2Set(C, processing_steps=2), _sorted_nodes),
    ("GraphNorm", lambda g: g.GraphNorm(C), _sorted_nodes),
    ("DenseGCNConv", lambda g: g.DenseGCNConv(C, C), _dense),
    ("GCN", lambda g: g.GCN(C, C, num_layers=2, out_channels=4), _graph),
    ("GAT", lambda g: g.GAT(C, C, num_layers=2, out_channels=4), _graph),
    ("GraphUNet", lambda g: g.GraphUNet(C, C, 4, depth=2), _graph),
    (
        "AttentiveFP",
        lambda g: g.AttentiveFP(C, C, 4, edge_dim=C, num_layers=1, num_timesteps=1),
        lambda: (*_attributed(), _batch()),
    ),
)


def _build(make: Make, inputs: Inputs) -> Built:
    import torch_geometric.nn as layers

    return make(layers).eval(), inputs(), {}


ENTRIES = tuple(
    Entry("torch_geometric", name, partial(_build, make, inputs)) for name, make, inputs in LAYERS
)
