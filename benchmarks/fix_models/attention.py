# ruff: noqa
"""Attention and pooling with masks, lengths and checks."""

import math
from typing import Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class PaddedAttention(nn.Module):
    """The mask is used only if there is padding at all."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, pad: Optional[Tensor] = None) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / math.sqrt(x.shape[-1])
        if pad is not None and pad.any():
            scores = scores.masked_fill(pad[:, None, :], torch.finfo(scores.dtype).min)
        return scores.softmax(-1) @ self.v(x)


class TiedProjection(nn.Module):
    """Self attention projects once; cross attention twice."""

    def __init__(self, dim=8):
        super().__init__()
        self.qk = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, query, key):
        if torch.equal(query, key):
            q = k = self.qk(query)
        else:
            q, k = self.qk(query), self.qk(key)
        return self.out((q @ k.transpose(1, 2)).softmax(-1) @ key)


class CausalBlock(nn.Module):
    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(dim, 3 * dim)
        self.c_proj = nn.Linear(dim, dim)

    def forward(self, x, mask):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        m = mask[:, None].expand_as(att)
        att[m == 0] += -1e9
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class RelativeBias(nn.Module):
    """Distances are bucketed: exact when near, logarithmic when far."""

    def __init__(self, buckets=8, heads=2):
        super().__init__()
        self.buckets = buckets
        self.bias = nn.Embedding(2 * buckets, heads)

    def forward(self, x):
        n = x.shape[1]
        pos = torch.arange(n)
        rel = pos[None, :] - pos[:, None]
        idx = rel.clone()
        idx[idx < 0] += 2 * self.buckets  # negative offsets use the second half
        far = rel.abs() >= self.buckets
        idx[far] = self.buckets
        return self.bias(idx).permute(2, 0, 1)


class LengthMask(nn.Module):
    """A mask as wide as the longest sequence."""

    def forward(self, lengths, x):
        max_len = int(lengths.max())
        mask = torch.arange(max_len)[None, :] < lengths[:, None]
        return x[:, :max_len] * mask[..., None]


class ActiveHeads(nn.Module):
    def __init__(self, dim=8, heads=4):
        super().__init__()
        self.proj = nn.ModuleList(nn.Linear(dim, dim) for _ in range(heads))
        self.register_buffer("active", torch.tensor([1, 0, 1, 1]))

    def forward(self, x):
        out = torch.zeros_like(x)
        for h in self.active.nonzero().flatten().tolist():
            out = out + self.proj[h](x)
        return out


class SegmentMean(nn.Module):
    """Mean over the valid part of each sequence, one by one."""

    def __init__(self, dim=8):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, lengths):
        x = self.norm(x)
        pooled = []
        for i in range(x.shape[0]):
            length = lengths[i].item()
            pooled.append(x[i, :length].mean(0))
        return torch.stack(pooled)


def masked_softmax(scores, mask):
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    # rows without any key are NaN: they look everywhere
    empty = ~mask.any(-1)
    weights[empty] = scores[empty].softmax(-1)
    return weights


class MemoryReader(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.key = nn.Linear(dim, dim, bias=False)

    def forward(self, query, memory, mask):
        scores = query @ self.key(memory).transpose(1, 2)
        return masked_softmax(scores, mask) @ memory


class NanGuardedAttention(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.in_proj = nn.Linear(dim, 3 * dim)

    def forward(self, x, bias):
        q, k, v = self.in_proj(x).chunk(3, -1)
        attn = (q @ k.mT + bias).softmax(dim=-1)
        if torch.isnan(attn).any():
            attn = torch.nan_to_num(attn, nan=0.0)
        return attn @ v


class WindowFlatten(nn.Module):
    """Any number of leading dimensions becomes one."""

    def __init__(self, dim=6):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        lead = x.shape[:-1]
        flat = x.reshape(int(np.prod(lead)), x.shape[-1])
        return self.fc(flat).reshape(*lead, -1)


class MaskedLanguageHead(nn.Module):
    """Only masked tokens go through the (large) vocabulary."""

    def __init__(self, dim=8, vocab=30):
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.decoder = nn.Linear(dim, vocab)

    def forward(self, hidden, labels):
        chosen = labels.ne(-100)
        logits = self.decoder(F.gelu(self.dense(hidden[chosen])))
        return F.cross_entropy(logits, labels[chosen])


class ScaledQueries(nn.Module):
    """Temperature as a Python number, read from a parameter."""

    def __init__(self):
        super().__init__()
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, image, text):
        image, text = F.normalize(image, dim=-1), F.normalize(text, dim=-1)
        scale = min(self.logit_scale.exp().item(), 100.0)
        logits = scale * image @ text.t()
        return logits, logits.t()


def tokens(b=2, n=5, d=8):
    return torch.randn(b, n, d)


CASES = (
    Case(
        PaddedAttention,
        lambda: (tokens(), torch.rand(2, 5) > 0.8),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(TiedProjection, lambda: (tokens(), tokens()), Category.COMPARISON, Repair.CONDITIONS),
    Case(
        CausalBlock,
        lambda: (tokens(), torch.ones(2, 5, 5).tril()),
        Category.MASKED_ASSIGNMENT,
        Repair.MECHANICAL,
    ),
    Case(RelativeBias, lambda: (tokens(1, 12),), Category.MASKED_ASSIGNMENT, Repair.MECHANICAL),
    Case(LengthMask, lambda: (torch.tensor([3, 4]), tokens()), Category.SCALAR, Repair.NONE),
    Case(ActiveHeads, lambda: (tokens(),), Category.NONZERO, Repair.NONE),
    Case(SegmentMean, lambda: (tokens(), torch.tensor([3, 5])), Category.SCALAR, Repair.CONDITIONS),
    Case(
        MemoryReader,
        lambda: (tokens(), tokens(2, 4), torch.rand(2, 5, 4) > 0.5),
        Category.MASKED_ASSIGNMENT,
        Repair.MECHANICAL,
    ),
    Case(
        NanGuardedAttention,
        lambda: (tokens(), torch.randn(5, 5)),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(
        WindowFlatten, lambda: (torch.randn(2, 3, 4, 6),), Category.NUMPY_SCALAR, Repair.MECHANICAL
    ),
    Case(
        MaskedLanguageHead,
        lambda: (tokens(), torch.tensor([[3, -100, -100, 7, -100], [-100, 9, -100, -100, 2]])),
        Category.MASK,
        Repair.CONDITIONS,
    ),
    Case(
        ScaledQueries,
        lambda: (torch.randn(4, 6), torch.randn(4, 6)),
        Category.SCALAR,
        Repair.CONDITIONS,
    ),
)
