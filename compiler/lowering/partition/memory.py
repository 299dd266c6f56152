"""Peak memory of a forward and a backward, by the cost model's estimate."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import GraphModule

from fullgraph.compiler.lowering.cost import peak_memory
from fullgraph.compiler.lowering.partition.plan import PartitionPlan


@dataclass(frozen=True)
class PartitionMemory:
    """Estimated bytes that a partition needs beyond its inputs, while its kernels are fused."""

    saved: int
    """Bytes that live from the forward to the backward."""
    forward_peak: int
    backward_peak: int
    """The peak of the backward, with the saved bytes: they count until it ends."""

    @property
    def peak(self) -> int:
        """The larger of both peaks."""
        return max(self.forward_peak, self.backward_peak)


def partition_memory(
    plan: PartitionPlan, forward: GraphModule, backward: GraphModule
) -> PartitionMemory:
    """Return the estimated memory of a forward and a backward that were split by `plan`."""
    saved = plan.saved_bytes
    return PartitionMemory(saved, peak_memory(forward), saved + peak_memory(backward))
