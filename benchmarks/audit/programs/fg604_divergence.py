"""FG604: `F.kl_div` warns about "mean" only when it is asked for by `reduction=`, on a side that no ordinary input takes."""

import torch
import torch.nn.functional as F
from torch import nn


class Distillation(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.head = nn.Linear(features, classes)

    def forward(self, x, teacher, temperature=1.0):
        student = self.head(x)
        if temperature != 1.0:
            student = F.log_softmax(student / temperature, dim=-1)
            teacher = F.softmax(teacher / temperature, dim=-1)
            return F.kl_div(student, teacher, size_average=True) * temperature**2
        student = F.log_softmax(student, dim=-1)
        teacher = F.softmax(teacher, dim=-1)
        return F.kl_div(student, teacher, size_average=False) / x.size(0)


def build():
    torch.manual_seed(0)
    return Distillation(4, 3), (torch.randn(2, 4), torch.randn(2, 3))


def witnesses():
    """Other temperatures, for one row and for none."""
    return [
        (torch.ones(1, 4), torch.zeros(1, 3), 2.0),
        (torch.ones(0, 4), torch.zeros(0, 3), 4.0),
        (torch.ones(2, 4), torch.zeros(3), 2.0),
    ]
