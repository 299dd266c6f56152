"""Modules that are called with inputs of several sizes, or keep a size."""

import torch
from torch import nn
from torch.nn import functional


class LastBatch(nn.Module):
    """A classifier whose last batch is smaller."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x):
        return self.net(x).log_softmax(-1)


class PaddedToMultiple(nn.Module):
    """Windows that need a length that is a multiple of their size."""

    def __init__(self, window: int = 4) -> None:
        super().__init__()
        self.window = window

    def forward(self, x):
        rest = x.shape[1] % self.window
        if rest:
            x = functional.pad(x, (0, 0, 0, self.window - rest))
        return x.unflatten(1, (-1, self.window)).mean(2)


class GridByShape(nn.Module):
    """A grid that is made again when the map has another shape."""

    def __init__(self, channels: int = 2) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 2, 3, padding=1)
        self.grid = None
        self.last_shape = None

    def forward(self, x):
        y = self.conv(x)
        if self.last_shape != y.shape[-2:]:
            rows, columns = (torch.arange(n, dtype=torch.float32) for n in y.shape[-2:])
            self.grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij"))
            self.last_shape = y.shape[-2:]
        return y + self.grid


class PatchRows(nn.Module):
    """A loop over the rows of an input."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return state


class ShortAndLong(nn.Module):
    """An attention that takes another path for long inputs."""

    def __init__(self, width: int = 4, limit: int = 6) -> None:
        super().__init__()
        self.query, self.limit = nn.Linear(width, width), limit

    def forward(self, x):
        if x.shape[1] > self.limit:
            x = x[:, -self.limit :]
        return (self.query(x) @ x.transpose(1, 2)).softmax(-1) @ x


class OneSize(nn.Module):
    """A loop over the rows of an input that always has the same size."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x):
        state = x[:, 0]
        for t in range(1, x.shape[1]):
            state = self.cell(x[:, t], state)
        return state


class ImageOrBatch(nn.Module):
    """A convolution that takes a batch, or one image without a batch dimension."""

    def __init__(self, channels: int = 2) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3)

    def forward(self, x):
        single = x.dim() == 3
        if single:
            x = x[None]
        y = self.conv(x)
        return y[0] if single else y


class KeptLength(nn.Module):
    """A decoder that keeps how long its input was."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)
        self.length = None

    def forward(self, x):
        if self.length is None:
            self.length = x.shape[1]
        return self.net(x[:, : self.length]).mean(1)


class PositionOffset(nn.Module):
    """Positions that go on where the last chunk ended."""

    def __init__(self, longest: int = 64, width: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(longest, width)
        self.offset = 0

    def forward(self, x):
        positions = torch.arange(x.shape[1]) + self.offset
        self.offset += x.shape[1]
        return x + self.embed(positions)


class PositionTensor(nn.Module):
    """Positions that go on where the last chunk ended, in a buffer."""

    def __init__(self, longest: int = 64, width: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(longest, width)
        self.register_buffer("offset", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        positions = torch.arange(x.shape[1]) + self.offset
        self.offset += x.shape[1]
        return x + self.embed(positions)


def _batches(*sizes: int):
    return [(torch.randn(size, 4),) for size in sizes]


def _lengths(*lengths: int):
    return [(torch.randn(2, length, 4),) for length in lengths]


def _images(*sizes: tuple[int, int]):
    return [(torch.randn(1, 2, *size),) for size in sizes]


ENTRIES = {
    "last_batch": lambda: (LastBatch(), _batches(8, 8, 8, 5)),
    "padded_to_multiple": lambda: (PaddedToMultiple(), _lengths(8, 7, 6, 9, 12)),
    "grid_by_shape": lambda: (
        GridByShape().requires_grad_(False),
        _images((8, 6), (6, 8), (8, 8), (8, 6)),
    ),
    "patch_rows": lambda: (PatchRows(), _lengths(3, 4, 5, 6)),
    "short_and_long": lambda: (ShortAndLong(), _lengths(4, 5, 8, 9, 6)),
    "one_size": lambda: (OneSize(), _lengths(4, 4, 4, 4)),
    "image_or_batch": lambda: (
        ImageOrBatch(),
        [(torch.randn(2, 6, 6),), (torch.randn(3, 2, 6, 6),), (torch.randn(2, 6, 6),)],
    ),
    "kept_length": lambda: (KeptLength(), _lengths(6, 6, 6, 6)),
    "position_offset": lambda: (PositionOffset(), _lengths(4, 4, 4, 4, 4)),
    "position_tensor": lambda: (PositionTensor(), _lengths(4, 4, 4, 4, 4)),
}
