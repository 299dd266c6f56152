# ruff: noqa
"""Contrastive learning: queues, prototypes, momentum, gathered negatives."""

import math
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class MoCo(nn.Module):
    def __init__(self, dim=8, K=16, T=0.07):
        super().__init__()
        self.K, self.T = K, T
        self.encoder_q = nn.Linear(12, dim)
        self.encoder_k = nn.Linear(12, dim)
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        batch_size = keys.shape[0]
        ptr = int(self.queue_ptr)
        assert self.K % batch_size == 0  # for simplicity
        # replace the keys at ptr (dequeue and enqueue)
        self.queue[:, ptr : ptr + batch_size] = keys.T
        ptr = (ptr + batch_size) % self.K  # move pointer
        self.queue_ptr[0] = ptr

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        self._dequeue_and_enqueue(k)
        return F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long))


class NTXent(nn.Module):
    """SimCLR: everything off the diagonal that is not the pair is a negative."""

    def __init__(self, temperature=0.5):
        super().__init__()
        self.temperature = temperature

    def forward(self, z_i, z_j):
        n = z_i.shape[0]
        z = F.normalize(torch.cat([z_i, z_j]), dim=1)
        sim = z @ z.t() / self.temperature
        positives = torch.cat([torch.diag(sim, n), torch.diag(sim, -n)]).unsqueeze(1)
        mask = torch.ones(2 * n, 2 * n, dtype=torch.bool).fill_diagonal_(False)
        for i in range(n):
            mask[i, n + i] = False
            mask[n + i, i] = False
        negatives = sim[mask].view(2 * n, -1)
        logits = torch.cat([positives, negatives], dim=1)
        return F.cross_entropy(logits, torch.zeros(2 * n).long())


class SupCon(nn.Module):
    def forward(self, features, labels):
        n = features.shape[0]
        mask = torch.eq(labels[:, None], labels[None, :]).float()
        logits = features @ features.t() / 0.1
        logits = logits - logits.max(dim=1, keepdim=True).values.detach()
        off = 1 - torch.eye(n)
        mask = mask * off
        log_prob = logits - torch.log((torch.exp(logits) * off).sum(1, keepdim=True))
        pairs = mask.sum(1)
        pairs = torch.where(pairs < 1e-6, 1, pairs)
        mean_log_prob = (mask * log_prob).sum(1) / pairs
        loss = -mean_log_prob
        if loss.isnan().sum() > 0:
            loss = loss[~loss.isnan()]
        return loss.mean()


class PrototypeMemory(nn.Module):
    """A prototype a class, moved towards the batch's mean of that class."""

    def __init__(self, classes=4, dim=6, momentum=0.9):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("prototypes", torch.zeros(classes, dim))

    @torch.no_grad()
    def update(self, feats, labels):
        for c in range(self.prototypes.shape[0]):
            own = feats[labels == c]
            if own.shape[0] == 0:
                continue
            self.prototypes[c] = self.momentum * self.prototypes[c] + (
                1 - self.momentum
            ) * own.mean(0)

    def forward(self, feats, labels):
        if self.training:
            self.update(feats.detach(), labels)
        return -torch.cdist(feats, self.prototypes)


class MomentumTeacher(nn.Module):
    """BYOL with a cosine momentum that depends on a step counter in a buffer."""

    def __init__(self, dim=6, total=100):
        super().__init__()
        self.online, self.target = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.total = total
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        for p in self.target.parameters():
            p.requires_grad = False

    def momentum(self):
        return 1 - 0.04 * (math.cos(math.pi * self.step.item() / self.total) + 1) / 2

    def forward(self, a, b):
        m = self.momentum()
        with torch.no_grad():
            for p, q in zip(self.target.parameters(), self.online.parameters()):
                p.mul_(m).add_(q, alpha=1 - m)
        self.step += 1
        return 2 - 2 * F.cosine_similarity(self.online(a), self.target(b)).mean()


def group():
    if not dist.is_initialized():
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class GatheredNegatives(nn.Module):
    """Features of all ranks are negatives, as in CLIP and SimCLR."""

    def __init__(self, dim=6):
        super().__init__()
        group()
        self.proj = nn.Linear(dim, dim)

    @torch.no_grad()
    def gather(self, t):
        out = [torch.ones_like(t) for _ in range(dist.get_world_size())]
        work = dist.all_gather(out, t, async_op=True)
        work.wait()
        return torch.cat(out, dim=0)

    def forward(self, x):
        z = F.normalize(self.proj(x), dim=-1)
        return z @ self.gather(z.detach().contiguous()).t()


class SyncedCenter(nn.Module):
    """DINO's center: the mean over all ranks, updated in place."""

    def __init__(self, dim=6):
        super().__init__()
        group()
        self.register_buffer("center", torch.zeros(1, dim))

    @torch.no_grad()
    def update_center(self, teacher_output):
        batch_center = torch.sum(teacher_output, dim=0, keepdim=True)
        handle = dist.all_reduce(batch_center, async_op=True)
        handle.wait()
        batch_center = batch_center / (len(teacher_output) * dist.get_world_size())
        self.center = self.center * 0.9 + batch_center * 0.1

    def forward(self, student, teacher):
        target = F.softmax((teacher - self.center) / 0.04, dim=-1).detach()
        loss = -(target * F.log_softmax(student / 0.1, dim=-1)).sum(-1).mean()
        self.update_center(teacher)
        return loss


CASES = (
    Case(
        MoCo,
        lambda: (torch.randn(4, 12), torch.randn(4, 12)),
        Category.SCALAR,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(NTXent, lambda: (torch.randn(3, 5), torch.randn(3, 5)), Category.MASK, Repair.CONDITIONS),
    Case(
        SupCon,
        lambda: (F.normalize(torch.randn(6, 5)), torch.randint(0, 3, (6,))),
        Category.BRANCH,
        Repair.CONDITIONS,
    ),
    Case(
        PrototypeMemory,
        lambda: (torch.randn(6, 6), torch.randint(0, 4, (6,))),
        Category.MASK,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(
        MomentumTeacher,
        lambda: (torch.randn(3, 6), torch.randn(3, 6)),
        Category.SCALAR,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(GatheredNegatives, lambda: (torch.randn(3, 6),), Category.COLLECTIVE, Repair.CONDITIONS),
    Case(
        SyncedCenter,
        lambda: (torch.randn(3, 6), torch.randn(3, 6)),
        Category.COLLECTIVE,
        Repair.CONDITIONS,
        train=True,
    ),
)
