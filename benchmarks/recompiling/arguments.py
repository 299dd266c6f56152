"""Functions and modules whose arguments are numbers, names or choices."""

import math

import torch
from torch import nn
from torch.nn import functional


class NoiseStep(nn.Module):
    """A denoiser that is handed the number of the step."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x, step: int):
        return x - self.net(x) / (step + 1)


class UnrolledRefinement(nn.Module):
    """A refinement that is handed how often to repeat."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.update = nn.Linear(width, width)

    def forward(self, x, rounds: int):
        for _ in range(rounds):
            x = x + self.update(x).tanh()
        return x


class ConstantRefinement(nn.Module):
    """A refinement whose caller always wants the same number of repetitions."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.update = nn.Linear(width, width)

    def forward(self, x, rounds: int = 3):
        for _ in range(rounds):
            x = x + self.update(x).tanh()
        return x


class StagePicker(nn.Module):
    """A progressive network that is handed the stage it has reached."""

    def __init__(self, width: int = 4, stages: int = 5) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(width, width) for _ in range(stages))

    def forward(self, x, stage: int):
        return self.stages[stage](x)


class WarmupLoss(nn.Module):
    """A loss whose second term begins after some epochs."""

    def __init__(self, start: int = 3) -> None:
        super().__init__()
        self.start = start

    def forward(self, x, wanted, epoch: int):
        loss = functional.mse_loss(x, wanted)
        if epoch >= self.start:
            loss = loss + 0.1 * functional.l1_loss(x, wanted)
        return loss


def cosine_weighted(loss, step: int, total: int = 100):
    """Return a loss weighed by a cosine of the step."""
    return loss.mean() * (1 + math.cos(math.pi * step / total)) / 2


def guided(conditional, unconditional, scale: float):
    """Return the guided prediction."""
    return unconditional + scale * (conditional - unconditional)


def pooled(x, how: str):
    """Return a pooled sequence."""
    if how == "mean":
        return x.mean(1)
    if how == "max":
        return x.amax(1)
    if how == "first":
        return x[:, 0]
    return x[:, -1]


def crop(x, size: int):
    """Return the first positions."""
    return x[:, :size].softmax(-1)


def updated(weight, gradient, rate: float, decay: float = 0.01):
    """Return a weight after a step of gradient descent."""
    weight = weight * (1 - rate * decay)
    return weight - rate * gradient


class MaskedAttention(nn.Module):
    """An attention whose mask is sometimes left out."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)

    def forward(self, x, mask=None):
        scores = self.query(x) @ x.transpose(1, 2)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e4)
        return scores.softmax(-1) @ x


class UnusedMask(nn.Module):
    """An attention whose mask is always left out."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)

    def forward(self, x, mask=None, scale: float = 0.5, causal: bool = False):
        scores = scale * (self.query(x) @ x.transpose(1, 2))
        if causal:
            scores = scores + torch.ones(x.shape[1], x.shape[1]).tril().log()
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e4)
        return scores.softmax(-1) @ x


class SkippedLayers(nn.Module):
    """An encoder that is handed which layers to skip."""

    def __init__(self, width: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x, skipped: tuple[int, ...]):
        for number, layer in enumerate(self.layers):
            if number not in skipped:
                x = layer(x)
        return x


class MultiScale(nn.Module):
    """A fusion of as many maps as there are scales."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.fuse = nn.Linear(width, width)

    def forward(self, maps: list[torch.Tensor]):
        total = maps[0]
        for one in maps[1:]:
            total = total + self.fuse(one)
        return total / len(maps)


class ScheduledDropout(nn.Module):
    """A block that is handed the rate of its dropout."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x, rate: float):
        return functional.dropout(self.net(x), rate, self.training)


class TensorTime(nn.Module):
    """A denoiser whose time is a tensor."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width + 1, width)

    def forward(self, x, time: torch.Tensor):
        return self.net(torch.cat((x, time.expand(x.shape[0], 1)), 1))


class Options:
    """The options of a call."""

    def __init__(self, beams: int, penalty: float) -> None:
        self.beams, self.penalty = beams, penalty


def scored(logits, options: Options):
    """Return the best scores under the options."""
    best = logits.log_softmax(-1).topk(options.beams, dim=-1).values
    return best / options.penalty


def _x(count: int = 5):
    return [torch.randn(3, 4) for _ in range(count)]


def _sequences(count: int = 5):
    return [torch.randn(2, 8, 4) for _ in range(count)]


def _masks():
    x, mask = torch.randn(2, 8, 4), torch.ones(8, 8, dtype=torch.bool)
    return [(x,), (x, mask), (x,), (x, mask)]


ENTRIES = {
    "noise_step": lambda: (NoiseStep(), [(x, n) for n, x in enumerate(_x(), 10)]),
    "unrolled_refinement": lambda: (
        UnrolledRefinement(),
        [(x, n) for n, x in enumerate(_x(), 2)],
    ),
    "constant_refinement": lambda: (ConstantRefinement(), [(x,) for x in _x()]),
    "stage_picker": lambda: (StagePicker(), [(x, n) for n, x in enumerate(_x())]),
    "warmup_loss": lambda: (WarmupLoss(), [(x, -x, n) for n, x in enumerate(_x(6))]),
    "cosine_weighted": lambda: (cosine_weighted, [(x, n) for n, x in enumerate(_x(), 2)]),
    "guided": lambda: (guided, [(x, -x, 7.5) for x in _x()]),
    "pooled": lambda: (
        pooled,
        list(zip(_sequences(4), ("mean", "max", "first", "last"), strict=True)),
    ),
    "crop": lambda: (crop, [(x, n) for n, x in enumerate(_sequences(), 3)]),
    "updated": lambda: (updated, [(x, -x, 0.1 / n) for n, x in enumerate(_x(), 1)]),
    "masked_attention": lambda: (MaskedAttention(), _masks()),
    "unused_mask": lambda: (UnusedMask(), [(x,) for x in _sequences()]),
    "skipped_layers": lambda: (SkippedLayers(), [(x, (n % 3,)) for n, x in enumerate(_x())]),
    "multi_scale": lambda: (MultiScale(), [([x] * n,) for n, x in enumerate(_x(), 1)]),
    "scheduled_dropout": lambda: (
        ScheduledDropout(),
        [(x, n / 10) for n, x in enumerate(_x(), 1)],
    ),
    "tensor_time": lambda: (TensorTime(), [(x, torch.tensor(n / 10)) for n, x in enumerate(_x())]),
    "scored": lambda: (scored, [(x, Options(2 + n % 3, 1.0)) for n, x in enumerate(_x())]),
}
