"""Two ranks that run the same model and break its graph at different places.

    python -m examples.two_ranks

Each rank explains its own program in forked children, which compute collectives from this rank's
data alone: no rank waits for another, and neither has to run as often as the other.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from fullgraph import explain

RANKS = 2


class Net(nn.Module):
    """Scales its features by their mean over all ranks. Input f32[n, 8]; output f32[n, 8]."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.rank = rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        if self.rank == 0:
            print("mean", x.mean())
        with torch.no_grad():
            total = x.mean()
            dist.all_reduce(total)
        if self.rank == 1 and total > 100:
            x = x / total
        return self.second(x)


def work(rank: int, folder: str) -> None:
    """Explain the network on one rank; write what breaks there to a file of its own."""
    store = dist.FileStore(f"{folder}/store", RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    found = explain(Net(rank), torch.ones(2, 8), loss=True)
    causes = [f"{cause.position.line}: {cause.expression}" for cause in found.causes]
    lines = [f"rank {rank}: {found.verdict}", *(f"  line {cause}" for cause in causes)]
    Path(folder, f"rank{rank}.txt").write_text("\n".join(lines))
    dist.destroy_process_group()


def main() -> str:
    """Start the ranks; return what each reported, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (folder,), nprocs=RANKS)
        return "\n".join(Path(folder, f"rank{rank}.txt").read_text() for rank in range(RANKS))


if __name__ == "__main__":
    print(main())
