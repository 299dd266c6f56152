"""Modules that count their calls, or keep a number that follows a schedule."""

import math

import torch
from torch import nn
from torch.nn import functional


class GradualGate(nn.Module):
    """A residual branch that is opened over the first calls."""

    def __init__(self, width: int = 4, opening: int = 100) -> None:
        super().__init__()
        self.branch = nn.Linear(width, width)
        self.opening = opening
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = min(1.0, self.calls / self.opening)
        self.calls += 1
        return x + gate * self.branch(x)


class MomentumTarget(nn.Module):
    """A target network that follows by a momentum on a cosine schedule."""

    def __init__(self, width: int = 4, base: float = 0.99, total: int = 1000) -> None:
        super().__init__()
        self.online = nn.Linear(width, width)
        self.register_buffer("target", torch.zeros(width, width))
        self.base, self.total, self.step = base, total, 0

    def momentum(self) -> float:
        return 1 - (1 - self.base) * (math.cos(math.pi * self.step / self.total) + 1) / 2

    def forward(self, x):
        m = self.momentum()
        self.target = self.target * m + self.online.weight.detach() * (1 - m)
        self.step = self.step + 1
        return functional.mse_loss(self.online(x), x @ self.target)


class RestartedCodebook(nn.Module):
    """A codebook whose unused entries are drawn anew every few calls."""

    def __init__(self, size: int = 8, width: int = 4, every: int = 3) -> None:
        super().__init__()
        self.codes = nn.Embedding(size, width)
        self.register_buffer("used", torch.zeros(size))
        self.every = every
        self.seen_batches = 0

    def _count(self, picks):
        self.used.add_(functional.one_hot(picks, self.used.shape[0]).float().sum(0))
        self.seen_batches += 1
        if self.seen_batches % self.every == 0:
            self.used.zero_()

    def forward(self, x):
        picks = torch.cdist(x, self.codes.weight).argmin(-1)
        if self.training:
            self._count(picks)
        return self.codes(picks)


class AnnealedTemperature(nn.Module):
    """A softmax whose temperature falls with each call."""

    def __init__(self, start: float = 2.0, factor: float = 0.9, lowest: float = 0.5) -> None:
        super().__init__()
        self.temperature, self.factor, self.lowest = start, factor, lowest

    def forward(self, logits):
        weights = functional.softmax(logits / self.temperature, dim=-1)
        self.temperature = max(self.lowest, self.temperature * self.factor)
        return weights


class CountedNorm(nn.Module):
    """A batch norm of its own whose counter is a buffer."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.batches += 1
        self.mean.lerp_(x.mean(0), 1 / self.batches.float())
        return x - self.mean


class ReportedLoss(nn.Module):
    """A loss that counts and prints only outside of torch.compile."""

    def __init__(self) -> None:
        super().__init__()
        self.reported = 0

    def forward(self, x, wanted):
        loss = functional.l1_loss(x, wanted)
        if not torch.compiler.is_compiling():
            self.reported += 1
            print(self.reported, float(loss))
        return loss


class StepState:
    """The state of a solver that is kept beside the network."""

    def __init__(self, steps: int) -> None:
        self.times = torch.linspace(1.0, 0.0, steps + 1).tolist()
        self.position = 0

    def advance(self) -> tuple[float, float]:
        now, then = self.times[self.position], self.times[self.position + 1]
        self.position += 1
        return now, then


class EulerFlow(nn.Module):
    """A flow sampler that takes one Euler step for each call."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.velocity = nn.Linear(width + 1, width)
        self.state = StepState(8)

    def forward(self, x):
        now, then = self.state.advance()
        time = torch.full((x.shape[0], 1), now)
        return x + (then - now) * self.velocity(torch.cat((x, time), 1))


class EpochMixer(nn.Module):
    """A mix of two losses by the epoch, which the trainer sets."""

    def __init__(self, epochs: int = 10) -> None:
        super().__init__()
        self.epochs = epochs
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def forward(self, x, wanted):
        share = self.epoch / self.epochs
        return share * functional.l1_loss(x, wanted) + (1 - share) * functional.mse_loss(x, wanted)


class ScaledOnce(nn.Module):
    """Weights that are scaled in the first call, by a flag."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.initialized = False

    def forward(self, x):
        if not self.initialized:
            with torch.no_grad():
                self.weight.mul_(1 / x.std())
            self.initialized = True
        return x * self.weight


class AlternatingUpdate(nn.Module):
    """Generator and critic take turns; the module keeps whose turn it is."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.generator, self.critic = nn.Linear(width, width), nn.Linear(width, 1)
        self.critic_turn = True

    def forward(self, x):
        made = self.generator(x)
        if self.critic_turn:
            loss = self.critic(made.detach()).mean() - self.critic(x).mean()
        else:
            loss = -self.critic(made).mean()
        self.critic_turn = not self.critic_turn
        return loss


class ConstantSchedule(nn.Module):
    """Numbers that only the constructor sets."""

    def __init__(self, width: int = 4, layers: int = 3, drop: float = 0.3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.rates = [drop * i / layers for i in range(layers)]
        self.scale = layers**-0.5

    def forward(self, x):
        for layer, rate in zip(self.layers, self.rates, strict=True):
            x = x + (1 - rate) * layer(x)
        return x * self.scale


class LastValues(nn.Module):
    """Numbers and tensors that each call sets anew and that nothing in the call reads."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, width)
        self.aux_loss, self.last_size = None, 0

    def forward(self, x):
        gates = self.router(x).softmax(-1)
        self.aux_loss = gates.mean(0).square().sum()
        self.last_size = x.shape[0]
        return x * gates


class TokenBudget(nn.Module):
    """An early exit that spends a budget of tokens over all calls."""

    def __init__(self, width: int = 4, budget: int = 64) -> None:
        super().__init__()
        self.cheap, self.full = nn.Linear(width, width), nn.Linear(width, width)
        self.remaining = budget

    def forward(self, tokens):
        self.remaining -= tokens.shape[0] * tokens.shape[1]
        if self.remaining > 0:
            return self.full(tokens)
        return self.cheap(tokens)


class RunningAverageLoss(nn.Module):
    """An average over steps as a Python float weight and a tensor."""

    def __init__(self, decay: float = 0.9) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("average", torch.zeros(()))
        self.correction = 1.0

    def forward(self, loss):
        self.correction *= self.decay
        self.average = self.average * self.decay + loss.mean().detach() * (1 - self.decay)
        return self.average / (1 - self.correction)


def _batches(count: int = 6) -> list[tuple[torch.Tensor]]:
    return [(torch.randn(3, 4),) for _ in range(count)]


def _pairs(count: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(3, 4), torch.randn(3, 4)) for _ in range(count)]


def _epoch_loss(loss, x, wanted):
    return loss(x, wanted)


def _epochs():
    calls = []
    for epoch in range(5):
        loss = EpochMixer()
        loss.set_epoch(epoch)
        calls.append((loss, torch.randn(3, 4), torch.randn(3, 4)))
    return _epoch_loss, calls


ENTRIES = {
    "gradual_gate": lambda: (GradualGate(), _batches()),
    "momentum_target": lambda: (MomentumTarget(), _batches()),
    "restarted_codebook": lambda: (RestartedCodebook(), _batches()),
    "annealed_temperature": lambda: (AnnealedTemperature(), _batches()),
    "counted_norm": lambda: (CountedNorm(), _batches()),
    "reported_loss": lambda: (ReportedLoss(), _pairs()),
    "euler_flow": lambda: (EulerFlow(), _batches()),
    "epoch_mixer": _epochs,
    "scaled_once": lambda: (ScaledOnce(), _batches()),
    "alternating_update": lambda: (AlternatingUpdate(), _batches()),
    "constant_schedule": lambda: (ConstantSchedule(), _batches()),
    "last_values": lambda: (LastValues(), _batches()),
    "token_budget": lambda: (TokenBudget(), [(torch.randn(2, 8, 4),) for _ in range(6)]),
    "running_average_loss": lambda: (RunningAverageLoss(), _batches()),
}
