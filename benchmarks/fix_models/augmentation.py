# ruff: noqa
"""Augmentation and stochastic depth on tensors."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class RandomErasing(nn.Module):
    """A rectangle at a random place is blanked."""

    def __init__(self, p=0.9, size=3):
        super().__init__()
        self.p, self.size = p, size

    def forward(self, x):
        if random.random() > self.p:
            return x
        top = random.randint(0, x.shape[-2] - self.size)
        left = random.randint(0, x.shape[-1] - self.size)
        x = x.clone()
        x[..., top : top + self.size, left : left + self.size] = 0
        return x


class Mixup(nn.Module):
    def __init__(self, alpha=0.2):
        super().__init__()
        self.alpha = alpha
        self.body = nn.Linear(6, 3)

    def forward(self, x, y):
        lam = np.random.beta(self.alpha, self.alpha) if self.alpha > 0 else 1
        index = torch.randperm(x.size(0))
        mixed = lam * x + (1 - lam) * x[index, :]
        out = self.body(mixed)
        return lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[index])


class RandomFlip(nn.Module):
    def forward(self, img):
        if torch.rand(1) < 0.5:
            img = img.flip(-1)
        return img


class ColorJitter(nn.Module):
    """Brightness and contrast by random factors, drawn with torch."""

    def __init__(self, brightness=(0.8, 1.2), contrast=(0.5, 1.5)):
        super().__init__()
        self.brightness, self.contrast = brightness, contrast

    @staticmethod
    def draw(low, high):
        return float(torch.empty(1).uniform_(low, high))

    def forward(self, img):
        img = (img * self.draw(*self.brightness)).clamp(0, 1)
        c = self.draw(*self.contrast)
        mean = img.mean(dim=(-3, -2, -1), keepdim=True)
        return (c * img + (1.0 - c) * mean).clamp(0, 1)


class LayerDropEncoder(nn.Module):
    def __init__(self, depth=3, dim=6, layerdrop=0.3):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])
        self.layerdrop = layerdrop

    def forward(self, x):
        for layer in self.layers:
            # add LayerDrop (see https://arxiv.org/abs/1909.11556)
            dropout_probability = random.uniform(0, 1)
            if self.training and dropout_probability < self.layerdrop:
                continue
            x = torch.relu(layer(x))
        return x


class ShuffledOps(nn.Module):
    """The transforms in random order."""

    def __init__(self):
        super().__init__()
        self.ops = nn.ModuleList([nn.Tanh(), nn.Softsign(), nn.Hardtanh()])

    def forward(self, x):
        for i in torch.randperm(len(self.ops)).tolist():
            x = self.ops[i](x)
        return x


class RandomBlur(nn.Module):
    def __init__(self, radius=2):
        super().__init__()
        self.radius = radius

    def kernel(self, sigma):
        grid = np.arange(-self.radius, self.radius + 1)
        k = np.exp(-(grid**2) / (2 * sigma**2))
        k = np.outer(k, k)
        return torch.from_numpy(k / k.sum()).float()

    def forward(self, x):
        k = self.kernel(random.uniform(0.5, 2.0))
        k = k.expand(x.shape[1], 1, *k.shape)
        return F.conv2d(x, k, padding=self.radius, groups=x.shape[1])


class SolarizeSome(nn.Module):
    """Each image with its own coin."""

    def __init__(self, p=0.5, threshold=0.5):
        super().__init__()
        self.p, self.threshold = p, threshold

    def solarize(self, x):
        return torch.where(x < self.threshold, x, 1.0 - x)

    def forward(self, batch):
        apply = torch.rand(batch.shape[0]) < self.p
        out = batch.clone()
        out[apply] = self.solarize(batch[apply])
        return out


class StochasticBlock(nn.Module):
    """ResNet with stochastic depth: one Bernoulli draw for the whole batch."""

    def __init__(self, dim=6, survival=0.8):
        super().__init__()
        self.survival = survival
        self.fn = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())

    def forward(self, x):
        if not self.training:
            return x + self.survival * self.fn(x)
        gate = torch.bernoulli(torch.tensor(self.survival))
        if gate.item() == 1:
            return x + self.fn(x)
        return x


class SpecAugment(nn.Module):
    def __init__(self, F_=4, T=6):
        super().__init__()
        self.F, self.T = F_, T

    def forward(self, mel):
        mel = mel.clone()
        f = np.random.randint(0, self.F)
        f0 = np.random.randint(0, mel.shape[1] - f)
        mel[:, f0 : f0 + f, :] = 0
        t = int(np.random.uniform(0.0, self.T))
        t0 = random.randint(0, mel.shape[2] - t)
        mel[:, :, t0 : t0 + t] = 0
        return mel


def image(b=2, size=8):
    return torch.rand(b, 3, size, size)


CASES = (
    Case(RandomErasing, lambda: (image(),), Category.RANDOM, Repair.NONE, train=True),
    Case(
        Mixup,
        lambda: (torch.randn(4, 6), torch.randint(0, 3, (4,))),
        Category.NUMPY,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(RandomFlip, lambda: (image(),), Category.BRANCH, Repair.CONDITIONS, train=True),
    Case(ColorJitter, lambda: (image(),), Category.SCALAR, Repair.CONDITIONS, train=True),
    Case(
        LayerDropEncoder,
        lambda: (torch.randn(2, 6),),
        Category.BRANCH,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(ShuffledOps, lambda: (torch.randn(2, 6),), Category.SCALAR, Repair.NONE, train=True),
    Case(RandomBlur, lambda: (image(),), Category.BUILTIN, Repair.CONDITIONS, train=True),
    Case(
        SolarizeSome, lambda: (image(4),), Category.MASKED_ASSIGNMENT, Repair.CONDITIONS, train=True
    ),
    Case(
        StochasticBlock,
        lambda: (torch.randn(2, 6),),
        Category.SCALAR,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(SpecAugment, lambda: (torch.rand(2, 8, 12),), Category.RANDOM, Repair.NONE, train=True),
)
