"""A reader of documents: embeddings, a transformer, pooling, and heads. One helper reads a value.

It is what people have: configuration, helpers, several heads, a training step, a main block.
"""

from __future__ import annotations

import argparse
import logging
import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

logger = logging.getLogger(__name__)

SPECIAL_TOKENS = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2}
NEGATIVE = -1e4


@dataclass
class Config:
    """How large everything is."""

    vocabulary: int = 64
    width: int = 32
    heads: int = 4
    layers: int = 3
    expansion: int = 4
    positions: int = 48
    dropout: float = 0.0
    labels: int = 5
    activations: list[str] = field(default_factory=lambda: ["gelu", "relu"])


def padding_mask(ids: Tensor, pad: int = 0) -> Tensor:
    """True where there is a token."""
    return ids != pad


def lengths_of(mask: Tensor) -> Tensor:
    """The number of tokens of each row."""
    return mask.sum(dim=1)


def extended(mask: Tensor) -> Tensor:
    """A mask to add to attention scores."""
    mask = mask[:, None, None, :].to(torch.float32)
    return (1.0 - mask) * NEGATIVE


def sinusoids(positions: int, width: int) -> Tensor:
    """Fixed position embeddings."""
    position = torch.arange(positions).unsqueeze(1)
    scale = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(positions, width)
    table[:, 0::2] = torch.sin(position * scale)
    table[:, 1::2] = torch.cos(position * scale)
    return table


def activation(name: str):
    """An activation by its name."""
    if name == "gelu":
        return F.gelu
    if name == "relu":
        return F.relu
    if name == "tanh":
        return torch.tanh
    raise ValueError(f"unknown activation {name}")


def mean_pool(x: Tensor, mask: Tensor) -> Tensor:
    """The mean of the tokens that count."""
    weights = mask.unsqueeze(-1).to(x.dtype)
    total = (x * weights).sum(dim=1)
    count = weights.sum(dim=1).clamp(min=1.0)
    return total / count


def max_pool(x: Tensor, mask: Tensor) -> Tensor:
    """The maximum over the tokens that count."""
    hidden = x.masked_fill(~mask.unsqueeze(-1), NEGATIVE)
    return hidden.max(dim=1).values


def sharpen(scores: Tensor, temperature: float = 1.0, floor: float = 1e-6) -> Tensor:
    """Scores as probabilities that are clipped where they are far too sure of themselves."""
    scaled = scores / temperature
    probabilities = scaled.softmax(dim=-1)
    entropy = -(probabilities * (probabilities + floor).log()).sum(dim=-1)
    peak = probabilities.max(dim=-1).values
    confidence = peak.mean() - 0.1 * entropy.mean()
    if confidence > 0.9:
        probabilities = probabilities.clamp(min=floor, max=0.99)
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    smoothed = 0.98 * probabilities + 0.02 / probabilities.shape[-1]
    return smoothed


def label_smoothing(target: Tensor, classes: int, amount: float = 0.1) -> Tensor:
    """One-hot targets, smoothed."""
    hot = F.one_hot(target, classes).to(torch.float32)
    return hot * (1.0 - amount) + amount / classes


class Embedding(nn.Module):
    """Tokens and their positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width, padding_idx=0)
        self.register_buffer("positions", sinusoids(config.positions, config.width))
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        x = self.tokens(ids) * math.sqrt(self.norm.normalized_shape[0])
        x = x + self.positions[:length]
        return self.dropout(self.norm(x))


class Attention(nn.Module):
    """Attention with several heads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.width = config.width // config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def split(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.view(batch, length, self.heads, self.width).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        batch, _, length, _ = x.shape
        return x.transpose(1, 2).reshape(batch, length, self.heads * self.width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query = self.split(self.query(x))
        key = self.split(self.key(x))
        value = self.split(self.value(x))
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.width)
        scores = scores + mask
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out(self.merge(weights @ value))


class FeedForward(nn.Module):
    """Two layers and what is between them."""

    def __init__(self, config: Config, name: str = "gelu") -> None:
        super().__init__()
        self.up = nn.Linear(config.width, config.width * config.expansion)
        self.down = nn.Linear(config.width * config.expansion, config.width)
        self.act = activation(name)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.down(self.act(self.up(x))))


class Layer(nn.Module):
    """One layer of the transformer, normalised first."""

    def __init__(self, config: Config, name: str) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.forward_part = FeedForward(config, name)
        self.first = nn.LayerNorm(config.width)
        self.second = nn.LayerNorm(config.width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.first(x), mask)
        x = x + self.forward_part(self.second(x))
        return x


class Head(nn.Module):
    """What all heads share."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width)

    def transform(self, x: Tensor) -> Tensor:
        return self.norm(torch.tanh(self.dense(x)))


class Classifier(Head):
    """Labels of whole documents."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.out = nn.Linear(2 * config.width, config.labels)
        self.temperature = 0.7

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        hidden = self.transform(x)
        pooled = torch.cat([mean_pool(hidden, mask), max_pool(hidden, mask)], dim=-1)
        logits = self.out(pooled)
        return sharpen(logits, temperature=self.temperature)


class Tagger(Head):
    """Labels of single tokens."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.out = nn.Linear(config.width, config.labels)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        tags = self.out(self.transform(x))
        return tags.masked_fill(~mask.unsqueeze(-1), 0.0)


class Pointer(Head):
    """Where an answer begins and where it ends."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.start = nn.Linear(config.width, 1)
        self.end = nn.Linear(config.width, 1)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.transform(x)
        start = self.start(hidden).squeeze(-1).masked_fill(~mask, NEGATIVE)
        end = self.end(hidden).squeeze(-1).masked_fill(~mask, NEGATIVE)
        return start, end


class Reader(nn.Module):
    """The whole model."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        names = config.activations
        self.layers = nn.ModuleList(
            Layer(config, names[number % len(names)]) for number in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width)
        self.classifier = Classifier(config)
        self.tagger = Tagger(config)
        self.pointer = Pointer(config)
        self.apply(self.initialise)

    def initialise(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids)
        added = extended(mask)
        for layer in self.layers:
            x = layer(x, added)
        return self.norm(x)

    def forward(self, ids: Tensor, target: Tensor | None = None) -> dict[str, Tensor]:
        mask = padding_mask(ids, SPECIAL_TOKENS["[PAD]"])
        x = self.encode(ids, mask)
        start, end = self.pointer(x, mask)
        found = {
            "labels": self.classifier(x, mask),
            "tags": self.tagger(x, mask),
            "start": start,
            "end": end,
            "lengths": lengths_of(mask),
        }
        if target is not None:
            smooth = label_smoothing(target, self.config.labels)
            found["loss"] = -(smooth * (found["labels"] + 1e-6).log()).sum(dim=-1).mean()
        return found


def train(model: Reader, batches: int, rate: float) -> None:
    """A short training, to see that it learns."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for step in range(batches):
        ids = torch.randint(3, 64, (4, 16))
        loss = model(ids, torch.randint(0, 5, (4,)))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logger.info("step %d: %.3f", step, loss.item())


def build():
    torch.manual_seed(0)
    config = Config(layers=2)
    model = Reader(config).eval()
    ids = torch.randint(3, 64, (2, 12))
    ids[1, 8:] = 0
    return model, (ids,)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=10)
    arguments = parser.parse_args()
    train(Reader(Config()), arguments.batches, 1e-3)
