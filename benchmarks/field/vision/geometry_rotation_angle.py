"""Rotation angles are refused if the trace is outside of what a rotation can have."""

import torch
from torch import nn


def rotation_angle(matrices, eps: float = 1e-4):
    trace = matrices.diagonal(dim1=-2, dim2=-1).sum(-1)
    too_far = (trace - 1.0).abs() - 2.0
    if too_far.max() > eps:
        raise ValueError("not a rotation: no angle has this trace")
    return torch.acos(torch.clamp(trace / 2 - 0.5, -1 + eps, 1 - eps))


class RotationLoss(nn.Module):
    def forward(self, predicted, wanted):
        if predicted.shape[-2:] != (3, 3):
            raise ValueError("rotations are 3 by 3")
        return rotation_angle(predicted.transpose(1, 2) @ wanted).mean()


def build():
    torch.manual_seed(0)
    first, _ = torch.linalg.qr(torch.randn(4, 3, 3))
    second, _ = torch.linalg.qr(torch.randn(4, 3, 3))
    first = first * torch.linalg.det(first)[:, None, None]
    second = second * torch.linalg.det(second)[:, None, None]
    return RotationLoss(), (first, second)
