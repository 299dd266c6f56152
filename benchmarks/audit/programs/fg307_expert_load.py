"""FG307: an expert without rows keeps its running load, which decays only where it had some before."""

import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3, bias=False)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.register_buffer("load", torch.zeros(3))

    def dispatch(self, x):
        picks = self.gate(x).argmax(-1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.where(picks == number)[0]
            if len(rows) > 0:
                y.index_add_(0, rows, expert(x[rows]))
                share = (picks == number).float().mean()
                self.load[number] = 0.9 * self.load[number] + 0.1 * share
        return y

    def forward(self, windows):
        return torch.stack([self.dispatch(x) for x in windows])


def build():
    torch.manual_seed(0)
    module = Experts().eval()
    with torch.no_grad():
        module.gate.weight.copy_(torch.eye(3, 4))
    first = torch.tensor([[2.0, 1.0, 0.0, 0.5], [1.0, 2.0, 0.0, 0.3]])
    return module, (torch.stack([first, 2 * first.flip(0)]),)


def witnesses():
    """An expert that is used in the first window only, in the last one only, and rows that are NaN."""
    one, two, three = torch.eye(3, 4)
    return [
        (torch.stack([torch.stack([one, two]), torch.stack([three, three])]),),
        (torch.stack([torch.stack([two, two]), torch.stack([one, one])]),),
        (torch.stack([torch.stack([one, one]), torch.full((2, 4), float("nan"))]),),
        (torch.zeros(2, 0, 4),),
    ]
