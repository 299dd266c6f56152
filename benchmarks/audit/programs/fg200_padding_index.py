"""FG200: prompts padded with -1 name the last token twice, as -1 and by its number,
and rows may share memory."""

import torch
from torch import nn


class RepetitionPenalty(nn.Module):
    def __init__(self, penalty=1.2):
        super().__init__()
        self.penalty = penalty

    def forward(self, scores, tokens):
        for i in range(len(scores)):
            for token in set(tokens[i].tolist()):
                if scores[i, token] < 0:
                    scores[i, token] *= self.penalty
                else:
                    scores[i, token] /= self.penalty
        return scores.softmax(dim=-1)


def build():
    torch.manual_seed(0)
    return RepetitionPenalty(), (torch.randn(2, 10), torch.tensor([[1, 4, 4], [0, 3, 9]]))


def witnesses():
    """-1 beside the last token, and scores whose rows are views of one row."""
    torch.manual_seed(1)
    scores = torch.randn(2, 10)
    tokens = torch.tensor([[9, 2, -1], [-1, -1, 5]])
    row = torch.randn(10)
    return [
        (scores, tokens),
        (row.expand(2, 10), torch.tensor([[-10, 0, 3], [9, -1, -2]])),
    ]
