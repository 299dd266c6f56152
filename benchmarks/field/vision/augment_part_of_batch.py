"""A jitter draws who is changed, and takes a short cut if that is nobody or everybody."""

import torch
from torch import nn


class RandomJitter(nn.Module):
    def __init__(self, probability: float = 0.5, strength: float = 0.3) -> None:
        super().__init__()
        self.probability, self.strength = probability, strength
        self.drawn = None

    def draw(self, images: int):
        chosen = torch.rand(images) < self.probability
        count = int(chosen.sum().item())
        factors = 1 + self.strength * (2 * torch.rand(count) - 1)
        return {"chosen": chosen, "factors": factors}

    def adjust(self, images, factors):
        return (images * factors[:, None, None, None]).clamp(0, 1)

    def forward(self, images, drawn=None):
        self.drawn = drawn = self.draw(images.shape[0]) if drawn is None else drawn
        chosen = drawn["chosen"]
        if chosen.sum() == 0:
            return images
        if chosen.sum() == len(chosen):
            return self.adjust(images, drawn["factors"])
        mixed = images.clone()
        mixed[chosen] = self.adjust(images[chosen], drawn["factors"])
        return mixed


def build():
    torch.manual_seed(0)
    return RandomJitter(), (torch.rand(4, 3, 5, 5),)
