"""Proof that rewritten code behaves as the original does."""

from fullgraph.rewrites.proof.comparison import (
    FINITE_ORIGINAL,
    NEW_GRADIENT,
    NO_BACKWARD,
    NO_GRADIENT,
)
from fullgraph.rewrites.proof.compiled_runs import check_compiled, verify_inductor
from fullgraph.rewrites.proof.inputs import copy_calls, resize_calls
from fullgraph.rewrites.proof.live_state import (
    convert_globals,
    convert_module,
    find_new_tensors,
    override_program,
    tensor_of_number,
)
from fullgraph.rewrites.proof.proof import Branches, Check, Proof, ProofState, Seen
from fullgraph.rewrites.proof.prove import prove
from fullgraph.rewrites.proof.recorded_runs import run_proof_job
from fullgraph.rewrites.proof.run_cache import RunCache, key_of

__all__ = [
    "FINITE_ORIGINAL",
    "NEW_GRADIENT",
    "NO_BACKWARD",
    "NO_GRADIENT",
    "Branches",
    "Check",
    "Proof",
    "ProofState",
    "RunCache",
    "Seen",
    "check_compiled",
    "convert_globals",
    "convert_module",
    "copy_calls",
    "find_new_tensors",
    "key_of",
    "override_program",
    "prove",
    "resize_calls",
    "run_proof_job",
    "tensor_of_number",
    "verify_inductor",
]
