# ruff: noqa
"""Diffusion samplers, noise schedules, decays and adaptive solvers."""

import math

import torch
import torch.nn as nn

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class Schedule(nn.Module):
    """Betas and what follows from them."""

    def __init__(self, steps=20):
        super().__init__()
        betas = torch.linspace(1e-4, 0.02, steps)
        self.register_buffer("betas", betas)
        self.register_buffer("alphas_cumprod", torch.cumprod(1 - betas, 0))
        self.register_buffer("timesteps", torch.arange(steps - 1, -1, -2))


class DDIMStep(Schedule):
    def forward(self, eps, t, x):
        i = (self.timesteps == t).nonzero().item()
        a_t = self.alphas_cumprod[self.timesteps[i]]
        prev = self.timesteps[i] - 2
        a_prev = self.alphas_cumprod[prev] if prev >= 0 else torch.tensor(1.0)
        x0 = (x - (1 - a_t).sqrt() * eps) / a_t.sqrt()
        return a_prev.sqrt() * x0 + (1 - a_prev).sqrt() * eps


class PosteriorVariance(Schedule):
    """The step number is an index."""

    def forward(self, x0, x, t):
        step = int(t)
        beta = self.betas[step]
        alpha_bar = self.alphas_cumprod[step]
        mean = beta.sqrt() * x0 + (1 - beta).sqrt() * x
        return mean, beta * (1 - alpha_bar)


class AncestralStep(Schedule):
    """No noise in the last step."""

    def forward(self, eps, t, x):
        beta = self.betas[t]
        mean = (x - beta / (1 - self.alphas_cumprod[t]).sqrt() * eps) / (1 - beta).sqrt()
        if t > 0:
            noise = torch.randn_like(x)
            return mean + beta.sqrt() * noise
        return mean


class EulerChurn(nn.Module):
    def __init__(self, s_churn=2.0, s_min=0.05, s_max=50.0):
        super().__init__()
        self.s_churn, self.s_min, self.s_max = s_churn, s_min, s_max
        self.register_buffer("sigmas", torch.linspace(14.0, 0.03, 10))

    def forward(self, x, denoised, step: int = 3):
        sigma = self.sigmas[step]
        gamma = (
            min(self.s_churn / 10, math.sqrt(2) - 1) if self.s_min <= sigma <= self.s_max else 0.0
        )
        sigma_hat = sigma * (gamma + 1)
        d = (x - denoised) / sigma_hat
        return x + d * (self.sigmas[step + 1] - sigma_hat)


class EMAHead(nn.Module):
    """A head, and its running average, which warms up."""

    def __init__(self, dim=6, decay=0.99):
        super().__init__()
        self.head = nn.Linear(dim, dim)
        self.decay = decay
        self.register_buffer("num_updates", torch.tensor(0))
        self.register_buffer("shadow", torch.zeros(dim, dim))

    def forward(self, x):
        y = self.head(x)
        if self.training:
            self.num_updates += 1
            decay = min(self.decay, (1 + self.num_updates.item()) / (10 + self.num_updates.item()))
            with torch.no_grad():
                self.shadow.sub_((1.0 - decay) * (self.shadow - self.head.weight))
        return y


class AdaptiveHeun(nn.Module):
    """Integrate dx/dt = f(x) up to t = 1 with steps as large as the error allows."""

    def __init__(self, dim=4, tol=0.05):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())
        self.tol = tol

    def forward(self, x):
        t = torch.zeros(())
        h = torch.tensor(0.25)
        while t < 1.0:
            h = torch.minimum(h, 1.0 - t)
            k1 = self.f(x)
            k2 = self.f(x + h * k1)
            err = (k2 - k1).abs().max() * h
            x = x + h * (k1 + k2) / 2
            t = t + h
            h = (h * (self.tol / (err + 1e-6)).sqrt()).clamp(0.05, 0.5)
        return x


class CosineGate(nn.Module):
    def __init__(self, dim=5):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, progress):
        w = 0.5 * (1 + math.cos(math.pi * progress.item()))
        return w * x + (1.0 - w) * self.proj(x)


class GuidedStep(nn.Module):
    """Classifier-free guidance inside an interval of noise levels, with dynamic thresholding."""

    def __init__(self, scale=3.0, lo=0.2, hi=0.8):
        super().__init__()
        self.scale, self.lo, self.hi = scale, lo, hi
        self.net = nn.Linear(8, 8)

    def threshold(self, x0):
        s = torch.quantile(x0.abs().flatten(1), 0.95, dim=1)
        s = torch.clamp(s, min=1.0)[:, None]
        return x0.clamp(-s, s) / s

    def forward(self, x, cond, level):
        uncond = self.net(x)
        if level > self.lo and level < self.hi:
            out = uncond + self.scale * (self.net(x + cond) - uncond)
        else:
            out = self.net(x + cond)
        return self.threshold(out)


def extract(a, t, shape):
    return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))


class TimestepCheck(Schedule):
    def forward(self, x0, t, noise):
        if t.max() >= self.betas.shape[0]:
            raise ValueError(f"t must be below {self.betas.shape[0]}")
        a = extract(self.alphas_cumprod, t, x0.shape)
        return a.sqrt() * x0 + (1 - a).sqrt() * noise


def x(n=2, d=8):
    return torch.randn(n, d)


CASES = (
    Case(DDIMStep, lambda: (x(), torch.tensor(9), x()), Category.NONZERO, Repair.CONDITIONS),
    Case(
        PosteriorVariance, lambda: (x(), x(), torch.tensor(4)), Category.SCALAR, Repair.CONDITIONS
    ),
    Case(AncestralStep, lambda: (x(), torch.tensor(5), x()), Category.BRANCH, Repair.CONDITIONS),
    Case(EulerChurn, lambda: (x(), x()), Category.BRANCH, Repair.CONDITIONS),
    Case(EMAHead, lambda: (x(2, 6),), Category.SCALAR, Repair.CONDITIONS, train=True),
    Case(AdaptiveHeun, lambda: (x(2, 4),), Category.BRANCH, Repair.CONDITIONS),
    Case(CosineGate, lambda: (x(2, 5), torch.rand(())), Category.SCALAR, Repair.CONDITIONS),
    Case(GuidedStep, lambda: (x(), x(), torch.rand(())), Category.BRANCH, Repair.CONDITIONS),
    Case(
        TimestepCheck,
        lambda: (x(), torch.randint(0, 20, (2,)), x()),
        Category.BRANCH,
        Repair.MECHANICAL,
    ),
)
