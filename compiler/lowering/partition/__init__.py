"""Stage *partition*: a joint graph as forward and backward, by min-cut rematerialization."""

from fullgraph.compiler.lowering.partition.memory import PartitionMemory, partition_memory
from fullgraph.compiler.lowering.partition.plan import PartitionPlan, Policy, plan_partition
from fullgraph.compiler.lowering.partition.split import make_partition_fn, partition, split

__all__ = [
    "PartitionMemory",
    "PartitionPlan",
    "Policy",
    "make_partition_fn",
    "partition",
    "partition_memory",
    "plan_partition",
    "split",
]
