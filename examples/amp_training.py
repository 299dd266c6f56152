"""An AMP training loop: a small vision transformer, compiled, on a data set made up here.

    fullgraph run examples/amp_training.py
    fullgraph explain examples/amp_training.py --train

The model is compiled; loss, optimizer and the loop stay in eager. Logging the loss with `.item()`
is outside of the compiled function and costs no graph; `print` in a block costs one a block.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, PATCH, SIDE, CLASSES = 32, 4, 16, 10


class Block(nn.Module):
    """Attention and an MLP, each with a residual. Input and output: f32[n, t, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.verbose = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        if self.verbose:
            print("attention", x.dtype)
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Patches, two blocks, the mean token. Input: f32[n, 3, 16, 16]; output: logits [n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.place = nn.Parameter(torch.zeros(1, (SIDE // PATCH) ** 2, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


def data(examples: int = 8) -> TensorDataset:
    """Random images f32[n, 3, 16, 16] and labels i64[n]."""
    images = torch.randn(examples, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    return TensorDataset(images, torch.arange(examples) % CLASSES)


def build() -> tuple[nn.Module, torch.Tensor]:
    """The model and a batch of four images."""
    return ViT(), data().tensors[0][:4]


def main(backend: str = "aot_eager") -> list[float]:
    """Train for one epoch; return the loss of each step."""
    torch.manual_seed(0)
    model = ViT()
    step = torch.compile(model, backend=backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=False)  # bfloat16 needs no scaling
    losses = []
    for images, labels in DataLoader(data(), batch_size=4):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(step(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(main())
