"""Proof that rewritten code behaves as the original does."""

from fullgraph.rewrites.proof.comparison import FINITE, NEW_GRADIENT, NO_BACKWARD, NO_GRADIENT
from fullgraph.rewrites.proof.proof import Check, Proof, ProofState
from fullgraph.rewrites.proof.prove import prove, share_failure, verify_inductor

__all__ = [
    "FINITE",
    "NEW_GRADIENT",
    "NO_BACKWARD",
    "NO_GRADIENT",
    "Check",
    "Proof",
    "ProofState",
    "prove",
    "share_failure",
    "verify_inductor",
]
