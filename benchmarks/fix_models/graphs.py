# ruff: noqa
"""Message passing by hand, and what stands around it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


def ring(n=6):
    src = torch.arange(n)
    return torch.stack([torch.cat([src, src]), torch.cat([(src + 1) % n, src])])


class NoSelfLoops(nn.Module):
    """Self loops are dropped, then neighbours are summed."""

    def __init__(self, dim=4):
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def forward(self, x, edge_index):
        mask = edge_index[0] != edge_index[1]
        edge_index = edge_index[:, mask]
        row, col = edge_index
        return torch.zeros_like(x).index_add(0, col, self.lin(x)[row])


class DegreeNorm(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.lin = nn.Linear(dim, dim, bias=False)

    def forward(self, x, edge_index):
        row, col = edge_index
        deg = torch.zeros(x.size(0)).index_add(0, col, torch.ones(col.size(0)))
        deg_inv_sqrt = torch.zeros_like(deg)
        deg_inv_sqrt[deg > 0] = deg[deg > 0].pow(-0.5)  # isolated nodes keep 0
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]
        return torch.zeros_like(x).index_add(0, col, norm.view(-1, 1) * self.lin(x)[row])


class GlobalMeanPool(nn.Module):
    """As many rows as there are graphs in the batch."""

    def forward(self, x, batch):
        size = int(batch.max()) + 1
        out = torch.zeros(size, x.shape[1]).index_add(0, batch, x)
        count = torch.zeros(size).index_add(0, batch, torch.ones(x.shape[0]))
        return out / count.clamp(min=1).unsqueeze(-1)


class DenseToEdges(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.att = nn.Linear(2 * dim, 1)

    def forward(self, x, adj):
        edge = adj.nonzero().t()
        h = torch.cat((x[edge[0]], x[edge[1]]), dim=1)
        e = torch.exp(-F.leaky_relu(self.att(h).squeeze(-1), 0.2))
        rowsum = torch.zeros(x.size(0)).index_add(0, edge[0], e)
        # softmax over neighbours
        out = torch.zeros_like(x).index_add(0, edge[0], e.unsqueeze(1) * x[edge[1]])
        return out / (rowsum.unsqueeze(1) + 1e-9)


class SparseProp(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.w = nn.Parameter(torch.randn(dim, dim))

    def forward(self, x, edge_index):
        n = x.size(0)
        adj = torch.sparse_coo_tensor(edge_index, torch.ones(edge_index.size(1)), (n, n))
        return torch.sparse.mm(adj, x @ self.w)


class IsolatedNodes(nn.Module):
    """Nodes without neighbours keep their own features."""

    def __init__(self, dim=4):
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def forward(self, x, adj):
        agg = adj @ self.lin(x)
        alone = adj.sum(1) == 0
        if alone.any():
            agg[alone] = x[alone]
        return agg


CASES = (
    Case(NoSelfLoops, lambda: (torch.randn(6, 4), ring()), Category.MASK, Repair.CONDITIONS),
    Case(
        DegreeNorm,
        lambda: (torch.randn(6, 4), ring()),
        Category.MASKED_ASSIGNMENT,
        Repair.MECHANICAL,
    ),
    Case(
        GlobalMeanPool,
        lambda: (torch.randn(6, 4), torch.arange(6) // 3),
        Category.SCALAR,
        Repair.NONE,
    ),
    Case(
        DenseToEdges,
        lambda: (torch.randn(6, 4), (torch.rand(6, 6) > 0.5).float()),
        Category.NONZERO,
        Repair.CONDITIONS,
    ),
    Case(SparseProp, lambda: (torch.randn(6, 4), ring()), Category.SPARSE, Repair.NONE),
    Case(
        IsolatedNodes,
        lambda: (torch.randn(5, 4), torch.diag(torch.tensor([1.0, 0, 1, 0, 1]))),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
)
