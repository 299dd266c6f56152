"""Runs a callable and undoes its changes: forked children, snapshots, captured output."""

from fullgraph.compiler.isolation.accelerators import (
    RandomStates,
    devices_are_usable,
    has_accelerator,
    has_drawn_random_numbers,
    random_states,
    set_random_states,
    synchronize_devices,
)
from fullgraph.compiler.isolation.deadline import Deadline, TimeUp
from fullgraph.compiler.isolation.fork_safety import choose_process
from fullgraph.compiler.isolation.fork_server import (
    has_fork_server,
    leave_fork_server,
    running_fork_server,
)
from fullgraph.compiler.isolation.forked_child import Emit, Job
from fullgraph.compiler.isolation.interrupts import deferred_interrupts
from fullgraph.compiler.isolation.isolated_job import (
    begin_isolated,
    process_with_own_memory,
    run_isolated,
    run_isolated_together,
)
from fullgraph.compiler.isolation.job_outcome import JobError, JobOutcome, JobProcess
from fullgraph.compiler.isolation.object_graph import references
from fullgraph.compiler.isolation.openmp import pause_openmp
from fullgraph.compiler.isolation.output_capture import ClippedText
from fullgraph.compiler.isolation.preload import (
    compiler_environment,
    preload_dynamic_shapes,
    preload_dynamo,
    preload_folder,
    preload_inductor,
)
from fullgraph.compiler.isolation.process_groups import (
    GroupSpec,
    group_statements,
    groups_of_graph,
    has_process_group,
)
from fullgraph.compiler.isolation.process_memory import available_memory
from fullgraph.compiler.isolation.process_state import process_states
from fullgraph.compiler.isolation.snapshots import (
    Snapshot,
    atom_text,
    devices_of,
    portable_digest,
    snapshot,
    state_digest,
)

__all__ = [
    "ClippedText",
    "Deadline",
    "Emit",
    "GroupSpec",
    "Job",
    "JobError",
    "JobOutcome",
    "JobProcess",
    "RandomStates",
    "Snapshot",
    "TimeUp",
    "atom_text",
    "available_memory",
    "begin_isolated",
    "choose_process",
    "compiler_environment",
    "deferred_interrupts",
    "devices_are_usable",
    "devices_of",
    "group_statements",
    "groups_of_graph",
    "has_accelerator",
    "has_drawn_random_numbers",
    "has_fork_server",
    "has_process_group",
    "leave_fork_server",
    "pause_openmp",
    "portable_digest",
    "preload_dynamic_shapes",
    "preload_dynamo",
    "preload_folder",
    "preload_inductor",
    "process_states",
    "process_with_own_memory",
    "random_states",
    "references",
    "run_isolated",
    "run_isolated_together",
    "running_fork_server",
    "set_random_states",
    "snapshot",
    "state_digest",
    "synchronize_devices",
]
