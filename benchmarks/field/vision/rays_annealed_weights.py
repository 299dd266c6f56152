"""A ray sampler sharpens its proposals from step to step, and updates them now and then."""

import torch
from torch import nn


class ProposalSampler(nn.Module):
    def __init__(self, samples: int = 6, slope: float = 10.0, last: int = 20) -> None:
        super().__init__()
        self.density = nn.Linear(1, 1)
        self.samples, self.slope, self.last = samples, slope, last
        self.anneal, self.step, self.waited = 0.0, 0, 0

    def finish_step(self):
        self.step, self.waited = self.step + 1, self.waited + 1
        share = min(self.step / self.last, 1.0)
        self.anneal = self.slope * share / ((self.slope - 1) * share + 1)

    def forward(self, places):
        updated = self.step < 2 or self.waited > 3
        with torch.set_grad_enabled(torch.is_grad_enabled() and updated):
            weights = self.density(places.unsqueeze(-1)).squeeze(-1).softmax(-1)
        if updated:
            self.waited = 0
        share = weights.pow(self.anneal).cumsum(-1)
        share = share / share[:, -1:]
        wanted = torch.linspace(0.0, 0.95, self.samples).expand(len(places), -1).contiguous()
        picked = torch.searchsorted(share, wanted).clamp(max=places.shape[1] - 1)
        self.finish_step()
        return places.gather(1, picked), weights


def build():
    torch.manual_seed(0)
    return ProposalSampler(), (torch.rand(3, 8),)


build_calls = [(torch.rand(3, 8, generator=torch.Generator().manual_seed(i)),) for i in range(6)]
