"""Modules with lists and dicts: those that grow from call to call, and those that do not."""

from collections import defaultdict, deque

import torch
from torch import nn
from torch.nn import functional


class LossHistory(nn.Module):
    """A loss that keeps all its values."""

    def __init__(self) -> None:
        super().__init__()
        self.values = []

    def forward(self, x, wanted):
        loss = functional.mse_loss(x, wanted)
        self.values.append(loss.detach())
        return loss


class FeatureTap(nn.Module):
    """Features of all layers, in a list that each call makes anew."""

    def __init__(self, width: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.features = []

    def forward(self, x):
        self.features = []
        for layer in self.layers:
            x = layer(x).relu()
            self.features.append(x)
        return torch.stack(self.features).mean(0)


class ClearedTap(nn.Module):
    """Features of all layers, in a list that each call clears."""

    def __init__(self, width: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.features = []

    def forward(self, x):
        self.features.clear()
        for layer in self.layers:
            x = layer(x).relu()
            self.features.append(x)
        return sum(self.features)


class PastFrames(nn.Module):
    """A memory of the last frames as a deque."""

    def __init__(self, window: int = 3, width: int = 4) -> None:
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.frames = deque(maxlen=window)

    def forward(self, frame):
        self.frames.append(frame)
        return self.mix(torch.stack(list(self.frames)).mean(0))


class StatisticsByName(nn.Module):
    """Statistics by the name of a layer, filled in the first call."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"down": nn.Linear(width, 2), "up": nn.Linear(2, width)})
        self.statistics = {}

    def forward(self, x):
        for name, layer in self.layers.items():
            x = layer(x)
            self.statistics[name] = x.detach().abs().mean()
        return x


class FixedStatistics(nn.Module):
    """Statistics whose keys the constructor makes."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"down": nn.Linear(width, 2), "up": nn.Linear(2, width)})
        self.statistics = {name: torch.zeros(()) for name in self.layers}

    def forward(self, x):
        for name, layer in self.layers.items():
            x = layer(x)
            self.statistics[name] = x.detach().abs().mean()
        return x


class GroupedLosses(nn.Module):
    """Losses by kind in a defaultdict of lists."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = defaultdict(list)

    def forward(self, x, wanted):
        error = x - wanted
        self.groups["l1"].append(error.abs().mean().detach())
        self.groups["l2"].append(error.square().mean().detach())
        return error.square().mean()


class LocalPyramid(nn.Module):
    """A pyramid in a local list."""

    def __init__(self, levels: int = 2) -> None:
        super().__init__()
        self.levels = levels

    def forward(self, image):
        pyramid = [image]
        for _ in range(self.levels):
            pyramid.append(functional.avg_pool2d(pyramid[-1], 2))
        return pyramid[-1] + functional.adaptive_avg_pool2d(image, pyramid[-1].shape[-2:])


class MemoryBank(nn.Module):
    """Negatives of earlier batches in a list of fixed length."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.size = size
        self.bank = []

    def forward(self, x):
        others = torch.stack(self.bank) if self.bank else torch.zeros(1, *x.shape)
        similarity = (x * others).sum(-1).exp().mean()
        self.bank.append(x.detach())
        if len(self.bank) > self.size:
            self.bank.pop(0)
        return similarity


class AttentionRecorder(nn.Module):
    """Attention maps that are kept when somebody asked for them; nobody does."""

    def __init__(self, width: int = 4, keep: bool = False) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.keep, self.maps = keep, []

    def forward(self, x):
        weights = (self.query(x) @ x.transpose(1, 2)).softmax(-1)
        if self.keep:
            self.maps.append(weights.detach())
        return weights @ x


class ShapeLog(nn.Module):
    """The shapes that were seen, as a set."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.shapes = set()

    def forward(self, x):
        self.shapes.add(tuple(x.shape))
        return self.linear(x)


class NamedOutputs(nn.Module):
    """Outputs by name in a local dict."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({"box": nn.Linear(width, 4), "score": nn.Linear(width, 1)})

    def forward(self, x):
        out = {}
        for name, head in self.heads.items():
            out[name] = head(x)
        out["sum"] = out["box"].sum() + out["score"].sum()
        return out


class TaskWeights(nn.Module):
    """Weights of tasks that are met one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = {}

    def forward(self, losses: dict[str, torch.Tensor]):
        total = torch.zeros(())
        for task, loss in losses.items():
            if task not in self.weights:
                self.weights[task] = 1.0 / (len(self.weights) + 1)
            total = total + self.weights[task] * loss.mean()
        return total


class Collector:
    """Collects intermediate results over the whole run."""

    def __init__(self) -> None:
        self.rows = []

    def add(self, row: torch.Tensor) -> None:
        self.rows.append(row.detach())


class Probed(nn.Module):
    """A network that hands its activations to a collector."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.collector = Collector()

    def forward(self, x):
        x = self.first(x).relu()
        self.collector.add(x)
        return self.second(x)


def _pairs(count: int = 5):
    return [(torch.randn(3, 4), torch.randn(3, 4)) for _ in range(count)]


def _same(*shape: int, count: int = 5):
    return [(torch.randn(*shape),) for _ in range(count)]


def _tasks():
    names = ["box", "mask", "class", "depth"]
    return [({name: torch.rand(3) for name in names[: n + 1]},) for n in range(4)]


ENTRIES = {
    "loss_history": lambda: (LossHistory(), _pairs()),
    "feature_tap": lambda: (FeatureTap(), _same(3, 4)),
    "cleared_tap": lambda: (ClearedTap().requires_grad_(False), _same(3, 4)),
    "past_frames": lambda: (PastFrames().requires_grad_(False), _same(3, 4, count=6)),
    "statistics_by_name": lambda: (StatisticsByName(), _same(3, 4)),
    "fixed_statistics": lambda: (FixedStatistics(), _same(3, 4)),
    "grouped_losses": lambda: (GroupedLosses(), _pairs()),
    "local_pyramid": lambda: (LocalPyramid(), _same(1, 2, 8, 8)),
    "memory_bank": lambda: (MemoryBank(), _same(3, 4, count=6)),
    "attention_recorder": lambda: (AttentionRecorder(), _same(1, 3, 4)),
    "shape_log": lambda: (ShapeLog(), _same(3, 4)),
    "named_outputs": lambda: (NamedOutputs(), _same(3, 4)),
    "task_weights": lambda: (TaskWeights(), _tasks()),
    "probed": lambda: (Probed(), _same(3, 4)),
}
