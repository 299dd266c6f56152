"""A network records the shape of what each layer gives, in a list that its maker hands out."""

import torch
from torch import nn


class Encoder(nn.Module):
    """Layers that a probe watches; a new probe for each call."""

    def __init__(self, new_probe, shapes, width=8, depth=3):
        super().__init__()
        self.new_probe, self.shapes = new_probe, shapes
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        probe = self.new_probe()
        for number, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            probe.see(f"layer {number}", x)
        x = self.norm(x)
        probe.see("norm", x)
        return x.mean(1)


def make_encoder():
    """Return an encoder and the list in which its probes write."""
    shapes = []

    class Probe:
        def __init__(self):
            self.seen = 0

        def see(self, name, x):
            self.seen += 1
            shapes.append((name, tuple(x.shape)))

    return Encoder(Probe, shapes), shapes


def build():
    torch.manual_seed(0)
    encoder, _ = make_encoder()
    return encoder.eval(), (torch.randn(2, 5, 8),)
