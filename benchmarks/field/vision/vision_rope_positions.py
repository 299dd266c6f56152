"""Positions of a picture-and-text prompt are built row by row from where the pictures begin."""

import torch
from torch import nn


class MixedPositions(nn.Module):
    PICTURE = 9

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, width)

    def positions(self, ids, grids):
        rows, used = [], 0
        for row in ids:
            tokens, parts, start, last = row.tolist(), [], 0, 0
            for _ in range(tokens.count(self.PICTURE)):
                at = tokens.index(self.PICTURE, start)
                height, width = grids[used].tolist()
                parts.append(torch.arange(at - start) + last)
                last += at - start + max(height, width)
                parts.append(torch.full((1,), last))
                start, used = at + 1, used + 1
            parts.append(torch.arange(len(tokens) - start) + last + 1)
            rows.append(torch.cat(parts))
        return torch.stack(rows)

    def forward(self, ids, grids):
        angles = self.positions(ids, grids).unsqueeze(-1) / 100
        return self.embed(ids) * angles.cos()


def build():
    torch.manual_seed(0)
    ids = torch.tensor([[1, 9, 2, 3], [4, 5, 9, 6]])
    return MixedPositions(), (ids, torch.tensor([[2, 3], [4, 2]]))
