"""Rules: each removes one kind of cause by an edit of the syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import libcst as cst

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.source import Replacement


class Applicability(StrEnum):
    """Level of trust required to apply an edit: safe, unsafe, or display only."""

    SAFE = "safe"
    """Same meaning: applied by default, once proved."""
    UNSAFE = "unsafe"
    """Valid, but something may change that the reason names: only on request."""
    DISPLAY = "display"
    """Shown as an idea: the person must decide what is meant."""


@dataclass(frozen=True)
class Rewrite:
    """An edit of one document, with its assumptions."""

    replacements: Mapping[cst.CSTNode, Replacement]
    """Nodes of the document, and what stands there afterwards."""
    why: str
    """One sentence: what the edit does and why that removes the cause."""
    applicability: Applicability = Applicability.SAFE
    assumes: tuple[str, ...] = ()
    """Assumptions of the edit that the facts do not show, one clause each."""
    imports: tuple[str, ...] = ()
    """Dotted names of modules that the new code needs: "torch", "math"."""
    tests: tuple[cst.BaseExpression, ...] = ()
    """Conditions in the document: the proof tries to reach both branches of each."""
    numbers: bool = False
    """Whether scalars that the code keeps or returns become 0-d tensors. The proof then compares
    their values; such an edit is not safe."""
    exempts: frozenset[str] = frozenset()
    """What the assumptions give up, so that no check holds it against the edit: in compiled code
    "text", "records" (logs and warnings), "grad_fn" in either or "state of NAME"; anywhere
    "randomness"."""
    needs_both_branches: bool = False
    """Whether the proof fails unless it reached both branches of each of `tests`."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Configuration that an idea sets: "torch._dynamo.config.allow_rnn" to True."""


@dataclass(frozen=True)
class Refusal:
    """A rule's reason not to rewrite a place of its kind."""

    reason: str
    """A clause that fits after "because"."""


@dataclass(frozen=True)
class Rule:
    """One rule: its documentation is the docstring of the module that defines it."""

    code: str
    """"FG101": stable for ever."""
    name: str
    """"drop-variable"."""
    categories: frozenset[str]
    """The categories of causes that it may remove."""
    rewrite: Callable[[Site], Rewrite | Refusal | None]
    """Returns None where the rule does not apply."""
    boundary: int = 0
    """0 for an edit that keeps the code in the graph; else the turn in which it is tried, after all
    those."""
    since: str = ""
    """Since which torch what breaks does so, or up to which: "up to 2.12"; "" if always."""
    summary: str = field(default="", compare=False)
    doc: str = field(default="", compare=False)
    topic: str = field(default="", compare=False)
