"""Stage *partition*: a joint graph as forward and backward, by min-cut rematerialization."""

from fullgraph.compiler.lowering.partition.plan import PartitionPlan, Policy, plan_partition
from fullgraph.compiler.lowering.partition.split import (
    PartitionMemory,
    partition,
    partition_memory,
    split,
)

__all__ = [
    "PartitionMemory",
    "PartitionPlan",
    "Policy",
    "partition",
    "partition_memory",
    "plan_partition",
    "split",
]
