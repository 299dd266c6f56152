"""Proof that rewritten code behaves as the original does."""

from fullgraph.rewrites.proof.comparison import ASKS, NO_BACKWARD, NO_GRADIENT
from fullgraph.rewrites.proof.proof import Check, Proof, ProofState
from fullgraph.rewrites.proof.prove import prove

__all__ = [
    "ASKS",
    "NO_BACKWARD",
    "NO_GRADIENT",
    "Check",
    "Proof",
    "ProofState",
    "prove",
]
