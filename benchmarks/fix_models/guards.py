# ruff: noqa
"""Validation, sanity checks and early exits."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class FiniteHidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        h = self.fc(x)
        assert not torch.isnan(h).any(), "NaN in hidden state"
        assert not torch.isinf(h).any()
        return h.tanh()


def check_probs(p, name="probs"):
    if (p < 0).any() or (p > 1).any():
        raise ValueError(f"{name} must be in [0, 1]")


class BernoulliNLL(nn.Module):
    """The check is in a helper."""

    def forward(self, probs, x):
        check_probs(probs)
        check_probs(x, name="targets")
        return F.binary_cross_entropy(probs, x)


class PositiveDefinite(nn.Module):
    """The message tells the worst eigenvalue."""

    def forward(self, a, b):
        eig = torch.linalg.eigvalsh(a)
        if not (eig > 0).all():
            raise RuntimeError(
                f"matrix is not positive definite: smallest eigenvalue {eig.min().item():.3g}"
            )
        return torch.linalg.solve(a, b)


class FloatErrors(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(5, 5) for _ in range(depth))

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x)
            if not torch.isfinite(x).all():
                raise FloatingPointError("block %d diverged" % i)
        return x


class StochasticMatrix(nn.Module):
    def forward(self, transition, state):
        rows = transition.sum(-1)
        assert torch.allclose(rows, torch.ones_like(rows), atol=1e-5), f"rows sum to {rows}"
        return state @ transition


class EmbeddingRange(nn.Module):
    """Ids are checked before the lookup."""

    def __init__(self, vocab=20, dim=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)

    def forward(self, ids):
        assert ids.max() < self.emb.num_embeddings and ids.min() >= 0, "token id out of range"
        return self.emb(ids)


class NoMatch(nn.Module):
    """Leaves early, three ways."""

    def __init__(self, dim=5):
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, x, mask):
        if mask.sum() == 0:
            return x.new_zeros(())
        s = self.score(x).squeeze(-1)
        if (s * mask).abs().max() < 1e-6:
            return s.sum() * 0.0
        return (s * mask).sum() / mask.sum()


class SafeCholesky(nn.Module):
    """Jitter until it works, as Gaussian-process code does."""

    def forward(self, K):
        L, info = torch.linalg.cholesky_ex(K)
        if not torch.any(info):
            return L
        jitter = 1e-4 * torch.eye(K.shape[-1])
        return torch.linalg.cholesky(K + jitter)


class ClipGradNorm(nn.Module):
    """Normalizes when too long, and otherwise leaves it."""

    def __init__(self, limit=1.0):
        super().__init__()
        self.limit = limit

    def forward(self, v):
        norm = v.norm()
        if norm > self.limit:
            v = v * (self.limit / norm)
        return v


class ExpertSkip(nn.Module):
    """Experts that no token wants are skipped."""

    def __init__(self, dim=4, experts=3):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, x):
        choice = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            picked = choice == i
            if picked.any():
                out[picked] = expert(x[picked])
        return out


class EarlyExit(nn.Module):
    """Stops after the layer that is confident."""

    def __init__(self, dim=6, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.heads = nn.ModuleList(nn.Linear(dim, 3) for _ in range(depth))

    def forward(self, x):
        for layer, head in zip(self.layers, self.heads):
            x = layer(x).relu()
            logits = head(x)
            if logits.softmax(-1).max(-1).values.min() > 0.9:
                return logits
        return logits


class SignedScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        sign = 1 if self.gain > 0 else -1
        return x * sign * self.gain.abs().sqrt()


def spd():
    a = torch.randn(4, 4)
    return a @ a.T + torch.eye(4)


CASES = (
    Case(FiniteHidden, lambda: (torch.randn(2, 6),), Category.ASSERT, Repair.MECHANICAL),
    Case(
        BernoulliNLL,
        lambda: (torch.rand(3, 4), torch.rand(3, 4).round()),
        Category.BRANCH,
        Repair.MECHANICAL,
    ),
    Case(PositiveDefinite, lambda: (spd(), torch.randn(4, 2)), Category.BRANCH, Repair.MECHANICAL),
    Case(FloatErrors, lambda: (torch.randn(2, 5),), Category.BRANCH, Repair.MECHANICAL),
    Case(
        StochasticMatrix,
        lambda: (torch.randn(4, 4).softmax(-1), torch.randn(2, 4)),
        Category.ASSERT,
        Repair.MECHANICAL,
    ),
    Case(
        EmbeddingRange, lambda: (torch.randint(0, 20, (2, 5)),), Category.ASSERT, Repair.MECHANICAL
    ),
    Case(
        NoMatch,
        lambda: (torch.randn(4, 5), torch.tensor([1.0, 0, 1, 1])),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(SafeCholesky, lambda: (spd(),), Category.BRANCH, Repair.CONDITIONS),
    Case(ClipGradNorm, lambda: (torch.randn(5),), Category.BRANCH, Repair.CONDITIONS),
    Case(ExpertSkip, lambda: (torch.randn(6, 4),), Category.BRANCH, Repair.CONDITIONS),
    Case(EarlyExit, lambda: (torch.randn(2, 6),), Category.BRANCH, Repair.CONDITIONS),
    Case(SignedScale, lambda: (torch.randn(3),), Category.BRANCH, Repair.CONDITIONS),
)
