"""A sparse block sends to each expert the tokens that chose it, and adds up what comes back."""

import torch
from torch import nn


class SparseBlock(nn.Module):
    def __init__(self, experts: int = 4, width: int = 8, chosen: int = 2) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))
        self.chosen = chosen

    def forward(self, states):
        shape = states.shape
        flat = states.reshape(-1, shape[-1])
        weights = torch.softmax(self.gate(flat), dim=-1)
        weights, picks = torch.topk(weights, self.chosen, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        total = torch.zeros_like(flat)
        mask = torch.nn.functional.one_hot(picks, num_classes=len(self.experts)).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            slot, row = mask[number].nonzero(as_tuple=True)
            part = expert(flat[row]) * weights[row, slot, None]
            total.index_add_(0, row, part)
        return total.reshape(shape)


def build():
    torch.manual_seed(0)
    return SparseBlock(), (torch.randn(2, 5, 8),)
