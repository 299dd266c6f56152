"""FG304: the root's parent is past the end of the table, where a later step must not look."""

import torch
from torch import nn


class AncestorSum(nn.Module):
    def __init__(self, nodes, width):
        super().__init__()
        self.embedding = nn.Embedding(nodes, width)

    def forward(self, parents, node, depth=3):
        total = self.embedding(node)
        for _ in range(depth):
            node = parents[node]
            if node == len(parents):
                break
            total = total + self.embedding(node)
        return total, node


def build():
    torch.manual_seed(0)
    return AncestorSum(6, 4).eval(), (torch.tensor([6, 0, 1, 2, 3, 4]), torch.tensor(5))


def witnesses():
    """A node near the root, the root, a depth of zero, a root of another table, and a
    node outside."""
    parents = torch.tensor([6, 0, 1, 2, 3, 4])
    return [
        (parents, torch.tensor(1)),
        (parents, torch.tensor(0)),
        (parents, torch.tensor(4), 0),
        (torch.tensor([1, 2, 3]), torch.tensor(0), 9),
        (parents, torch.tensor(9)),
    ]
