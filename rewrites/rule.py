"""What a rule is: one way to mend one kind of cause, as an edit of a syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import libcst as cst

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.source import Replacement


class Applicability(StrEnum):
    """Who may apply an edit."""

    SAFE = "safe"
    """Same meaning: applied by default, once proved."""
    UNSAFE = "unsafe"
    """Valid, but something may change that the reason names: only on request."""
    DISPLAY = "display"
    """Shown as an idea: the person must decide what is meant."""


@dataclass(frozen=True)
class Rewrite:
    """An edit of one document, and what it takes for granted."""

    replacements: Mapping[cst.CSTNode, Replacement]
    """Nodes of the document, and what stands there afterwards."""
    why: str
    """One sentence: what the edit does and why that mends the cause."""
    applicability: Applicability = Applicability.SAFE
    assumes: tuple[str, ...] = ()
    """What the edit takes for granted and the facts do not show, one clause each."""
    imports: tuple[str, ...] = ()
    """Dotted names of modules that the new code needs: "torch", "math"."""
    tests: tuple[cst.BaseExpression, ...] = ()
    """Expressions of the document whose truth chooses what the code does: the proof tries to
    take both sides of each."""
    numbers: bool = False
    """Whether numbers that the code keeps or returns become tensors without dimensions: the proof
    then compares their values. Such an edit is not safe."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """What an idea sets instead of an edit: "torch._dynamo.config.allow_rnn" to True."""


@dataclass(frozen=True)
class Refusal:
    """The rule knows this kind of place, but must leave this one alone."""

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
    """The categories of causes it may mend."""
    rewrite: Callable[[Site], Rewrite | Refusal | None]
    """None where the site is none of the rule's business."""
    since: str = ""
    """Since which torch what breaks does so, or up to which: "up to 2.12"; "" if always."""
    summary: str = field(default="", compare=False)
    doc: str = field(default="", compare=False)
    topic: str = field(default="", compare=False)
