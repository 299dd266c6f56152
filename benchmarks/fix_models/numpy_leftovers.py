# ruff: noqa
"""NumPy where torch or math would do."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class FlattenHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4 * 6 * 6, 5)

    def num_flat_features(self, x):
        size = x.size()[1:]  # all dimensions except the batch dimension
        return int(np.prod(size))

    def forward(self, x):
        x = F.relu(self.conv(x))
        x = x.view(-1, self.num_flat_features(x))
        return self.fc(x)


class SparseSampler(nn.Module):
    """Informer: log-many keys are looked at."""

    def __init__(self, factor=2):
        super().__init__()
        self.factor = factor

    def forward(self, q, k):
        L_K, L_Q = k.shape[1], q.shape[1]
        U_part = self.factor * np.ceil(np.log(L_K)).astype("int").item()
        u = self.factor * np.ceil(np.log(L_Q)).astype("int").item()
        U_part = U_part if U_part < L_K else L_K
        u = u if u < L_Q else L_Q
        score = torch.einsum("bqd,bkd->bqk", q, k[:, :U_part])
        m = score.max(-1)[0] - score.sum(-1) / L_K
        return m.topk(u, sorted=False)[1].sort(-1)[0]


class CoordConv(nn.Module):
    """Pixel coordinates as extra channels."""

    def __init__(self, c=3):
        super().__init__()
        self.conv = nn.Conv2d(c + 2, 4, 1)

    def forward(self, x):
        b, _, h, w = x.shape
        yy, xx = np.mgrid[0:h, 0:w]
        coords = np.stack([xx / max(w - 1, 1), yy / max(h - 1, 1)]).astype(np.float32)
        coords = torch.from_numpy(coords)[None].expand(b, -1, -1, -1)
        return self.conv(torch.cat([x, coords], dim=1))


class SinusoidTable(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.dim = dim

    def get_angle(self, position):
        return [position / np.power(10000, 2 * (j // 2) / self.dim) for j in range(self.dim)]

    def forward(self, x):
        table = np.array([self.get_angle(i) for i in range(x.shape[1])])
        table[:, 0::2] = np.sin(table[:, 0::2])  # dim 2i
        table[:, 1::2] = np.cos(table[:, 1::2])  # dim 2i+1
        return x + torch.FloatTensor(table).unsqueeze(0)


class RatioResize(nn.Module):
    def __init__(self, ratio=0.6):
        super().__init__()
        self.ratio = ratio

    def forward(self, x):
        h, w = np.array(x.shape[-2:]) * self.ratio
        size = (int(np.floor(h)), int(np.floor(w)))
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


class SpanPooler(nn.Module):
    """Spans come as an array; each is averaged."""

    def forward(self, x, spans):
        out = []
        for i in range(x.shape[0]):
            total = torch.zeros(x.shape[-1])
            for j in range(spans[i][0], spans[i][1]):
                total = total + x[i, j]
            out.append(total / (spans[i][1] - spans[i][0]))
        return torch.stack(out)


class PercentileClip(nn.Module):
    """Clips at the 95th percentile of the batch."""

    def __init__(self, q=95):
        super().__init__()
        self.q = q
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        limit = np.percentile(x.detach().cpu().numpy(), self.q)
        return torch.clamp(x * self.scale, max=float(limit))


class ScaledDot(nn.Module):
    """Divided by sqrt(d), with NumPy."""

    def __init__(self, dim=8):
        super().__init__()
        self.dim = dim
        self.w = nn.Linear(dim, dim)

    def forward(self, q, k):
        scale = 1.0 / np.sqrt(np.prod(q.shape[1:]))
        att = torch.matmul(self.w(q), k.transpose(1, 2)) * float(scale)
        chunks = np.ceil(q.shape[1] / 2.0).astype(int).item()
        return torch.cat([part.softmax(-1) for part in att.split(chunks, 1)], 1)


CASES = (
    Case(FlattenHead, lambda: (torch.randn(2, 3, 8, 8),), Category.NUMPY_SCALAR, Repair.MECHANICAL),
    Case(
        SparseSampler,
        lambda: (torch.randn(2, 12, 4), torch.randn(2, 20, 4)),
        Category.NUMPY_SCALAR,
        Repair.MECHANICAL,
    ),
    Case(CoordConv, lambda: (torch.randn(2, 3, 4, 5),), Category.NUMPY, Repair.MECHANICAL),
    Case(SinusoidTable, lambda: (torch.randn(2, 5, 8),), Category.NUMPY, Repair.CONDITIONS),
    Case(
        RatioResize, lambda: (torch.randn(1, 3, 10, 15),), Category.NUMPY_SCALAR, Repair.MECHANICAL
    ),
    Case(
        SpanPooler,
        lambda: (torch.randn(2, 6, 4), np.array([[0, 3], [2, 6]])),
        Category.NUMPY_LOOP,
        Repair.NONE,
    ),
    Case(PercentileClip, lambda: (torch.randn(4, 5),), Category.NUMPY, Repair.CONDITIONS),
    Case(
        ScaledDot,
        lambda: (torch.randn(2, 5, 8), torch.randn(2, 5, 8)),
        Category.NUMPY_SCALAR,
        Repair.MECHANICAL,
    ),
)
