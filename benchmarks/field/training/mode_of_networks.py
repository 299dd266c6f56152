"""One loss function is asked about a student in training and a teacher in evaluation."""

import copy

import torch
from torch import nn


def consistency(net, x, wanted):
    return nn.functional.mse_loss(net(x).softmax(-1), wanted)


torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3)).train()
teacher = copy.deepcopy(student).eval()


def build():
    torch.manual_seed(0)
    return consistency, (student, torch.randn(5, 4), torch.rand(5, 3))


build_calls = [
    (teacher, torch.ones(5, 4), torch.ones(5, 3)),
    (student, torch.ones(5, 4), torch.ones(5, 3)),
    (teacher, torch.zeros(5, 4), torch.ones(5, 3)),
]
