"""A decoder layer gets float32 queries first and, under autocast, bfloat16 ones from then on."""

import torch
from torch import nn


class MixedDecoder(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.project, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, target, memory):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = self.project(target) @ memory.transpose(1, 2)
        return self.norm(target + mixed.float().softmax(-1) @ memory)


def build():
    torch.manual_seed(0)
    return MixedDecoder(), (torch.randn(2, 3, 8), torch.randn(2, 3, 8))


build_calls = [
    (torch.ones(2, 3, 8, dtype=torch.bfloat16), torch.ones(2, 3, 8)),
    (torch.ones(2, 3, 8), torch.ones(2, 3, 8)),
    (torch.ones(2, 3, 8, dtype=torch.bfloat16), torch.ones(2, 3, 8)),
]
