"""FG904: a soft choice lets the gradient through the helper, and a hard one does not."""

import torch
from torch import nn


def best_weights(scores, soft):
    weights = torch.zeros_like(scores)
    for row, values in enumerate(scores.tolist()):
        best = max(range(len(values)), key=values.__getitem__)
        weights[row, best] = scores[row, best] if soft else 1.0
    return weights


class Router(nn.Module):
    def __init__(self, width=8, experts=3):
        super().__init__()
        self.score = nn.Linear(width, experts)
        self.experts = nn.Parameter(torch.randn(experts, width), requires_grad=False)
        self.score.requires_grad_(False)

    def forward(self, x, soft=False):
        weights = best_weights(self.score(x), soft)
        return weights @ self.experts * x, weights


def build():
    torch.manual_seed(0)
    return Router().eval(), (torch.randn(4, 8),)


def witnesses():
    """Soft and hard with a gradient, equal scores, no rows, and infinite ones."""
    torch.manual_seed(1)
    x = torch.randn(4, 8)
    return [
        (x.clone().requires_grad_(), True),
        (x.clone().requires_grad_(), False),
        (torch.zeros(2, 8), True),
        (x[:0], True),
        (torch.full((2, 8), float("inf")), True),
    ]
