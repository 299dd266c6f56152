"""Edges are merged greedily, best first, until no two neighbours are free."""

import torch
from torch import nn


class EdgeContraction(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.score = nn.Linear(2 * width, 1)

    def merge(self, edges, scores, nodes):
        cluster, free, number = torch.empty(nodes, dtype=torch.long), set(range(nodes)), 0
        pairs = edges.t().tolist()
        for edge in scores.argsort(descending=True).tolist():
            source, target = pairs[edge]
            if source in free and target in free:
                cluster[source] = cluster[target] = number
                free -= {source, target}
                number += 1
        for node in sorted(free):
            cluster[node] = number
            number += 1
        return cluster, number

    def forward(self, x, edges):
        scores = torch.sigmoid(self.score(torch.cat((x[edges[0]], x[edges[1]]), 1))).view(-1)
        cluster, number = self.merge(edges, scores, x.shape[0])
        return torch.zeros(number, x.shape[1]).index_add_(0, cluster, x), cluster


def build():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 4, 4]])
    return EdgeContraction(), (torch.randn(5, 4), edges)
