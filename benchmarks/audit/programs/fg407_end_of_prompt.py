"""FG407: without an end token the length is a Python number, and a prompt may be empty or a batch."""

import torch
from torch import nn


class PromptPooling(nn.Module):
    def __init__(self, end_token=2):
        super().__init__()
        self.embed = nn.Embedding(16, 4)
        self.end_token = end_token

    def forward(self, tokens, hidden=None):
        if hidden is None:
            hidden = self.embed(tokens)
        ends = (tokens == self.end_token).nonzero()
        if len(ends) > 0:
            end = ends[-1, 0]
        else:
            end = tokens.shape[0]
        return hidden * (torch.arange(len(hidden)) < end)[:, None], end


def build():
    torch.manual_seed(0)
    return PromptPooling().eval(), (torch.tensor([5, 7, 2, 9, 2, 1]),)


def witnesses():
    """No end token, an empty prompt, one that ends at once, halves, a batch, and a single token."""
    hidden = torch.linspace(0, 1, 12).view(3, 4)
    return [
        (torch.tensor([5, 7, 1]),),
        (torch.zeros(0, dtype=torch.int64),),
        (torch.tensor([2, 7, 1]), hidden.clone().requires_grad_()),
        (torch.tensor([7, 2, 2]), hidden.half()),
        (torch.tensor([[5, 2], [2, 1], [1, 1]]),),
        (torch.tensor([2.0, float("nan"), 2.0]), hidden),
        (torch.tensor(2), hidden),
    ]
