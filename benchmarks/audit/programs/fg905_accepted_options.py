"""FG905: the options that a matcher accepts are read from its code, and the others are left out."""

import torch
from torch import nn


def by_rows(cost, limit=10.0, fill=-1):
    columns = cost.argmin(1).tolist()
    lowest = cost.amin(1).tolist()
    kept = [c if value <= limit else fill for c, value in zip(columns, lowest)]
    return torch.tensor(kept), len(set(kept))


def by_total(cost):
    column = int(cost.sum(0).argmin())
    worst = cost[:, column].max().item()
    return torch.full((cost.shape[0],), column), worst


MATCHERS = {"rows": by_rows, "total": by_total}


class Matcher(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x, targets, kind="rows", limit=10.0):
        match = MATCHERS[kind]
        code = match.__code__
        accepted = code.co_varnames[1 : code.co_argcount]
        options = {"limit": limit} if "limit" in accepted else {}
        columns, number = match(torch.cdist(self.net(x), targets).detach(), **options)
        return targets[columns] - x, number


def build():
    torch.manual_seed(0)
    return Matcher().eval(), (torch.randn(3, 4), torch.randn(5, 4))


def witnesses():
    """Limits that leave some rows and all rows out, and the other matcher, which takes none."""
    torch.manual_seed(1)
    x, targets = torch.randn(3, 4), torch.randn(5, 4)
    return [(x, targets, "rows", 1.1), (x, targets, "rows", 0.0), (x, targets, "total", 1.0)]
