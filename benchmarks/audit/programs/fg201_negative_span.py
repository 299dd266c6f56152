"""FG201: a span may count from the end, be empty, or pass the end, as a slice may."""

import torch
from torch import nn


class SpanPooler(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 2)

    def forward(self, hidden, spans):
        pooled = []
        for b, (start, end) in enumerate(spans.tolist()):
            pooled.append(hidden[b, start:end].mean(dim=0))
        return self.out(torch.stack(pooled))


def build():
    torch.manual_seed(0)
    return SpanPooler(4).eval(), (torch.randn(2, 6, 4), torch.tensor([[0, 3], [2, 6]]))


def witnesses():
    """Spans from the end, an empty and a reversed one, one past the end, and NaN
    outside the spans."""
    torch.manual_seed(1)
    hidden = torch.randn(2, 6, 4)
    padded = hidden.clone()
    padded[:, 4:] = float("nan")
    return [
        (hidden, torch.tensor([[-3, -1], [-9, 4]])),
        (hidden, torch.tensor([[2, 2], [4, 1]])),
        (hidden, torch.tensor([[4, 60], [0, 6]])),
        (padded.requires_grad_(), torch.tensor([[0, 4], [1, 3]])),
    ]
