"""Proof that rewritten code behaves as the original does."""

from fullgraph.rewrites.proof.comparison import NEW_GRADIENT, NO_BACKWARD, NO_GRADIENT
from fullgraph.rewrites.proof.proof import Check, Proof, ProofState
from fullgraph.rewrites.proof.prove import prove, verify_fullgraph

__all__ = [
    "NEW_GRADIENT",
    "NO_BACKWARD",
    "NO_GRADIENT",
    "Check",
    "Proof",
    "ProofState",
    "prove",
    "verify_fullgraph",
]
