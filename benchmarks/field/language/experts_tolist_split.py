"""Grouped experts split the sorted tokens by counts that come out of a tensor."""

import torch
from torch import nn


class GroupedExperts(nn.Module):
    def __init__(self, experts: int = 4, width: int = 8) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(experts, width, 16) * 0.1)
        self.down = nn.Parameter(torch.randn(experts, 16, width) * 0.1)

    def forward(self, tokens, counts):
        counts = counts.tolist()
        parts = torch.split(tokens[: sum(counts)], counts, dim=0)
        outputs = []
        for number, part in enumerate(parts):
            hidden = torch.nn.functional.silu(part @ self.up[number])
            outputs.append(hidden @ self.down[number])
        return torch.cat(outputs)


def build():
    torch.manual_seed(0)
    return GroupedExperts(), (torch.randn(12, 8), torch.tensor([3, 4, 2, 3]))
