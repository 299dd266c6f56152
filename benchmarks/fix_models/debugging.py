# ruff: noqa
"""Prints, logs, warnings, timers and meters that stayed in forward."""

import copy
import logging
import os
import time
import warnings
from contextlib import contextmanager

import torch
import torch.nn as nn
import torch.nn.functional as F

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category

logger = logging.getLogger(__name__)


class ShapePrinter(nn.Module):
    def __init__(self, debug=True):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)
        self.debug = debug

    def forward(self, x):
        x = F.relu(self.conv1(x))
        if self.debug:
            print("after conv1:", x.shape)
        x = F.relu(self.conv2(x))
        # print(x.mean())
        print(f"after conv2: mean {x.mean():.4f}, std {x.std():.4f}")
        return x


class LoggingEncoder(nn.Module):
    """Debug output for every layer."""

    def __init__(self, depth=2, dim=6):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x).relu()
            logger.debug("layer %d: %s", i, tuple(x.shape))
        return x


class DeprecatedArgument(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, x, mask=None, attention_mask=None):
        if mask is not None:
            warnings.warn("`mask` is deprecated, use `attention_mask`", FutureWarning)
            attention_mask = mask
        y = self.fc(x)
        if attention_mask is not None:
            y = y * attention_mask
        return y


class WarnOnce(nn.Module):
    """Complains once about a suspicious input."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.warned = False

    def forward(self, images):
        if images.max() > 1.0 and not self.warned:
            logger.warning("images are not in [0, 1] but up to %.2f", images.max().item())
            self.warned = True
        return images * self.scale


class TimedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        start = time.time()
        x = self.a(x)
        self.elapsed = time.time() - start
        return self.b(x)


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n


class MeteredClassifier(nn.Module):
    """Accuracy is metered in forward."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)
        self.acc = AverageMeter()

    def forward(self, x, y):
        logits = self.fc(x)
        correct = (logits.argmax(-1) == y).float().mean()
        self.acc.update(correct.item(), x.size(0))
        return F.cross_entropy(logits, y)


class HistoryRecorder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.history = []

    def forward(self, x):
        y = self.net(x)
        self.history.append(float(y.abs().max()))
        return y * 2


class ActivationSummary(nn.Module):
    """Returns the output and a dict of numbers for the dashboard."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(5, 5), nn.Linear(5, 2)

    def forward(self, x):
        h = self.fc1(x).relu()
        info = {
            "dead": (h == 0).float().mean().item(),
            "norm": h.norm().item(),
        }
        return self.fc2(h), info


@contextmanager
def section(name):
    logger.debug("enter %s", name)
    yield
    logger.debug("leave %s", name)


class Sectioned(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 3), nn.Linear(3, 6)

    def forward(self, x):
        with section("encoder"):
            z = self.enc(x)
        return self.dec(z)


class EnvSwitch(nn.Module):
    """A debug switch from the environment, and a template that is copied."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.template = {"scale": torch.ones(4), "bias": torch.zeros(4)}

    def forward(self, x):
        params = copy.deepcopy(self.template)
        params["scale"] *= 2
        y = self.fc(x) * params["scale"] + params["bias"]
        if os.environ.get("FIX_ZOO_DEBUG", "0") == "1":
            print(y)
        return y


CASES = (
    Case(ShapePrinter, lambda: (torch.randn(1, 3, 5, 5),), Category.PRINT, Repair.MECHANICAL),
    Case(LoggingEncoder, lambda: (torch.randn(2, 6),), Category.PRINT, Repair.MECHANICAL),
    Case(
        DeprecatedArgument,
        lambda: (torch.randn(2, 5), torch.ones(2, 5)),
        Category.WARNING,
        Repair.MECHANICAL,
    ),
    Case(WarnOnce, lambda: (torch.rand(2, 3) * 1.5,), Category.BRANCH, Repair.CONDITIONS),
    Case(TimedBlock, lambda: (torch.randn(2, 6),), Category.CLOCK, Repair.CONDITIONS),
    Case(
        MeteredClassifier,
        lambda: (torch.randn(4, 6), torch.randint(0, 4, (4,))),
        Category.SCALAR,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(HistoryRecorder, lambda: (torch.randn(2, 4),), Category.SCALAR, Repair.CONDITIONS),
    Case(ActivationSummary, lambda: (torch.randn(3, 5),), Category.SCALAR, Repair.CONDITIONS),
    Case(Sectioned, lambda: (torch.randn(2, 6),), Category.PRINT, Repair.MECHANICAL),
    Case(EnvSwitch, lambda: (torch.randn(2, 4),), Category.COPY, Repair.CONDITIONS),
)
