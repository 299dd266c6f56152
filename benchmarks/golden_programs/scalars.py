# ruff: noqa
"""Numbers and answers taken out of tensors: FG200 to FG202."""

import torch
from torch import nn

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


class NormalizedLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.stats = {}

    def forward(self, x, y):
        mask = x > 0
        loss = (x - y).abs().sum()
        loss = loss / max(1, mask.sum().item())
        scale = float(x.abs().max())
        y = y * (scale + 1e-6)
        self.stats["sum"] = x.sum().item()
        return loss, y


class Queue(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.zeros(4, 8))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    def forward(self, keys, bounds):
        n = keys.shape[0]
        ptr = int(self.queue_ptr)
        self.queue[:, ptr : ptr + n] = keys.T
        low, high = bounds.tolist()
        return self.queue.clamp(low, high)


def penalized(scores, tokens):
    scores = scores * 1
    for i in range(len(tokens)):
        for token in set(tokens[i].tolist()):
            if scores[i, token] < 0:
                scores[i, token] *= 1.3
            else:
                scores[i, token] /= 1.3
    return scores


def compared(y, a, b):
    y = y * torch.equal(a, b)
    same = torch.allclose(a, b, atol=1e-6)
    return y, same


PROGRAMS = (
    Program("FG200", penalized, lambda: (*inputs.matrix(), torch.tensor([[1, 3, 3], [0, 0, 2]]))),
    Program("FG201", NormalizedLoss, inputs.pair, "loss"),
    Program("FG201", Queue, lambda: (*inputs.matrix(), torch.tensor([-0.5, 0.5])), "queue"),
    Program("FG202", compared, lambda: (*inputs.matrix(), *inputs.pair())),
)
