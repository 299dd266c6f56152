"""What TorchScript, torch.export, quantization and torch.compile make of a module."""

from __future__ import annotations

import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x).relu()


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


scripted = torch.jit.script(Plain())
scripted_function = torch.jit.script(double)
traced = torch.jit.trace(Plain(), torch.ones(2, 4))
exported = torch.export.export(Plain(), (torch.ones(2, 4),))
exported_module = exported.module()
quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})
compiled = torch.compile(Plain())
compiled_function = torch.compile(double)
inputs = torch.ones(2, 4)
