"""Minibatches of a rollout are scored until the policy has moved too far from the old one."""

import numpy as np
import torch
from torch import nn


class PolicyObjective(nn.Module):
    def __init__(self, width: int = 6, actions: int = 3, limit: float = 0.02) -> None:
        super().__init__()
        self.policy, self.limit, self.clip = nn.Linear(width, actions), limit, 0.2

    def forward(self, states, actions, old, advantages):
        objectives, divergences, clipped = [], [], []
        for batch in range(states.shape[0]):
            choice = torch.distributions.Categorical(logits=self.policy(states[batch]))
            log_ratio = choice.log_prob(actions[batch]) - old[batch]
            ratio = log_ratio.exp()
            bounded = ratio.clamp(1 - self.clip, 1 + self.clip)
            gain = torch.minimum(ratio * advantages[batch], bounded * advantages[batch])
            clipped.append((ratio != bounded).float().mean().item())
            with torch.no_grad():
                divergence = (ratio - 1 - log_ratio).mean().cpu().numpy()
            divergences.append(divergence)
            if divergence > 1.5 * self.limit:
                break
            objectives.append(gain.mean() - 0.01 * choice.entropy().mean())
        total = torch.stack(objectives).mean() if objectives else states.sum() * 0
        return total, float(np.mean(divergences)), float(np.mean(clipped))


def build():
    torch.manual_seed(0)
    old = torch.full((3, 4), -1.1)
    states, advantages = 0.1 * torch.randn(3, 4, 6), torch.randn(3, 4)
    return PolicyObjective(), (states, torch.randint(0, 3, (3, 4)), old, advantages)
