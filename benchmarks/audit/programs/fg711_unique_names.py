"""FG711: each call gets an id of its own, and two calls must not share one."""

import threading
import uuid

import torch
from torch import nn

SEEN = set()
LOCK = threading.Lock()


class Traced(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Linear(features, features)
        self.calls = 0
        self.distinct = 0

    def forward(self, x, repeats=1):
        for _ in range(repeats):
            name = uuid.uuid4().hex
            with LOCK:
                SEEN.add(name)
                self.calls += 1
            x = self.net(x)
        self.distinct = len(SEEN)
        return x


def build():
    torch.manual_seed(0)
    SEEN.clear()
    return Traced(4).eval(), (torch.randn(2, 4),)


def witnesses():
    """No layer, several layers, and an input that fails after its id was drawn."""
    return [(torch.ones(2, 4), 0), (torch.ones(2, 4), 3), (torch.ones(2, 3), 1)]


def observe():
    return len(SEEN), LOCK.locked()
