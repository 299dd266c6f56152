"""FG114: what the bar is told advances the learning rate, and fails for a loss of two elements."""

import torch
from torch import nn
from tqdm import tqdm


class Descent(nn.Module):
    def __init__(self, rate=0.1):
        super().__init__()
        self.rate = rate
        self.calls = 0

    def decay(self):
        self.calls += 1
        self.rate *= 0.5
        return self.rate

    def forward(self, x, weight, steps=3):
        with tqdm(total=steps, disable=None) as bar:
            for _ in range(steps):
                loss = x.square().mean() * weight
                x = x - self.rate * 2 * x
                bar.set_postfix(loss=loss.item(), rate=self.decay())
                bar.update(1)
        return x


def build():
    torch.manual_seed(0)
    return Descent(), (torch.randn(4), torch.tensor(1.0))


def witnesses():
    """Two elements cannot be shown as a number, one can; no step tells nothing."""
    torch.manual_seed(1)
    x = torch.randn(4)
    return [
        (x, torch.tensor([1.0, 2.0])),
        (x, torch.tensor([1.0])),
        (x, torch.tensor([1.0, 2.0]), 0),
        (x, torch.tensor(0.5), 1),
    ]
