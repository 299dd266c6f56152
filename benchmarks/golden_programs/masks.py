# ruff: noqa
"""Boolean masks and indices whose number depends on the data: FG401 to FG412."""

import torch
import torch.nn.functional as F

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


def masked_mean(pred, target):
    valid = target > 0
    diff = (pred - target)[valid]
    return diff.abs().mean()


def without_self_loops(x, edges):
    out = torch.zeros_like(x)
    row, col = edges[:, edges[0] != edges[1]]
    out = out.index_add(0, col, x[row])
    return out


def masked_losses(pred, target, logits, labels):
    valid = labels > 0
    loss = F.l1_loss(pred[valid], target[valid]) + F.cross_entropy(logits[valid], labels[valid])
    return loss


def masked_update(x, bias):
    x = x * 1
    y = x * 2
    m = y > 0
    x[x > 0.5] = torch.sqrt(x[x > 0.5]) * 2
    y[m] += bias[m]
    return x + y


def mean_over_valid(loss):
    valid = loss > 0
    loss = loss.sum() / torch.nonzero(valid).size(0)
    return loss


def mean_over_kept(score, loss):
    x = score * 2
    keep = (score > 0.5).nonzero(as_tuple=True)
    x[keep] = 0
    return loss[keep].mean() + x.sum()


def first_hits(x):
    rows = []
    for row in x:
        hits = (row > 0.5).nonzero()
        if len(hits) > 0:
            rows.append(hits[0, 0])
        else:
            rows.append(torch.tensor(-1))
    return torch.stack(rows)


def first_hits_and_sums(x):
    rows = []
    total = 0
    for row in x:
        hits = (row > 0.5).nonzero()
        if len(hits) > 0:
            rows.append(hits[0, 0])
        else:
            rows.append(torch.tensor(-1))
        total = total + row.sum()
    return torch.stack(rows) * total


def histogram(scores):
    labels = scores.argmax(1)
    count = torch.bincount(labels, minlength=4)
    return count * 2


def repeated(graph, counts):
    nodes = graph.repeat_interleave(counts, dim=0)
    return nodes * 2


class Mixture(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))

    def forward(self, x, top):
        y = torch.zeros_like(x)
        for k in top.unique():
            chosen = top == k
            y[chosen] = self.experts[k](x[chosen])
        return y


def pair_distances(x):
    i, j = torch.combinations(x).T
    return (i - j).abs()


def nucleus(logits):
    logits = logits.clone()
    ordered, order = logits.sort(descending=True)
    remove = ordered.softmax(-1).cumsum(-1) > 0.9
    logits[order[remove]] = float("-inf")
    return logits.softmax(-1)


PROGRAMS = (
    Program("FG401", masked_mean, inputs.pair, "mean"),
    Program(
        "FG401",
        without_self_loops,
        lambda: (torch.rand(3, 4), torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2]])),
        "index_add",
    ),
    Program(
        "FG402",
        masked_losses,
        lambda: (*(torch.randn(5, 3) for _ in range(3)), torch.tensor([0, 1, 2, 1, 0])),
    ),
    Program("FG403", masked_update, inputs.pair),
    Program("FG404", mean_over_valid, inputs.matrix),
    Program("FG405", mean_over_kept, inputs.pair, helpers=("FG401",)),
    Program("FG406", first_hits, inputs.matrix),
    Program("FG407", first_hits_and_sums, inputs.matrix),
    Program("FG408", histogram, inputs.matrix),
    Program("FG409", repeated, lambda: (torch.rand(3, 2), torch.tensor([1, 0, 3]))),
    Program(
        "FG410",
        Mixture,
        lambda: (torch.randn(4, 4), torch.tensor([0, 1, 1, 0])),
        helpers=("FG403",),
    ),
    Program("FG411", pair_distances, lambda: (torch.rand(4),)),
    Program("FG412", nucleus, lambda: (torch.rand(6),)),
)
