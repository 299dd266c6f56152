"""Newton's method removes the distortion of a lens, with the Jacobian of each point."""

import torch
from torch import nn


class Lens(nn.Module):
    """Radial and tangential distortion of a point."""

    def __init__(self):
        super().__init__()
        self.register_buffer("radial", torch.tensor([0.0258, -0.0241, 0.003]))
        self.register_buffer("tangential", torch.tensor([0.001, -0.002]))

    def forward(self, point):
        x, y = point[0], point[1]
        square = x * x + y * y
        bend = 1 + square * (self.radial[0] + square * (self.radial[1] + square * self.radial[2]))
        first, second = self.tangential[0], self.tangential[1]
        dx = 2 * first * x * y + second * (square + 2 * x * x)
        dy = 2 * second * x * y + first * (square + 2 * y * y)
        return torch.stack([x * bend + dx, y * bend + dy])


class Undistort(nn.Module):
    def __init__(self, rounds=2):
        super().__init__()
        self.lens, self.rounds = Lens(), rounds
        self.scale = nn.Parameter(torch.tensor([1.2, 0.8]))

    def forward(self, points):
        points = points * self.scale
        guess = points
        jacobian = torch.vmap(torch.func.jacfwd(self.lens))
        for _ in range(self.rounds):
            error = torch.vmap(self.lens)(guess) - points
            guess = guess - torch.linalg.solve(jacobian(guess), error)
        return guess, (guess - points).norm(dim=-1)


def build():
    torch.manual_seed(0)
    return Undistort().eval().requires_grad_(False), (0.5 * torch.randn(4, 2),)
