"""Rules: each removes one kind of cause by an edit of the syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import libcst as cst

from fullgraph.compiler.errors import contain
from fullgraph.rewrites.analysis import Site, binds_variable, walk
from fullgraph.rewrites.source import Document, FunctionNode, Replacement


class Applicability(StrEnum):
    """Level of trust required to apply an edit: safe, unsafe, or display only."""

    SAFE = "safe"
    """The program behaves as before: applied by default, once proved."""
    UNSAFE = "unsafe"
    """Behaviour may change where an assumption does not hold: applied only on request."""
    DISPLAY = "display"
    """Shown as an idea and never applied: the user must decide."""


@dataclass(frozen=True)
class Rewrite:
    """An edit of one document, with its assumptions."""

    replacements: Mapping[cst.CSTNode, Replacement]
    """New nodes by the nodes of the document that they replace."""
    why: str
    """One sentence: what the edit does and why that removes the cause."""
    applicability: Applicability = Applicability.SAFE
    assumes: tuple[str, ...] = ()
    """What the edit takes for granted and the recorded facts do not show, one clause each. With any
    it is not safe."""
    imports: tuple[str, ...] = ()
    """Dotted names of modules that the new code needs: "torch", "math"."""
    tests: tuple[cst.BaseExpression, ...] = ()
    """Conditions in the document: the proof tries to reach both branches of each."""
    numbers: bool = False
    """Whether scalars that the code keeps or returns become 0-d tensors. The proof then compares
    their values; such an edit is not safe."""
    exempts: frozenset[str] = frozenset()
    """Differences that the assumptions permit and the proof ignores. In compiled code: "text" (what
    is printed), "records" (logs and warnings), "grad_fn" (in text and records), "state of NAME"
    (an attribute or global), "raises TEXT" (TEXT, "RuntimeError: NaN", in place of another
    exception). In compiled and eager code: "randomness"."""
    needs_both_branches: bool = False
    """Whether the proof fails unless it reached both branches of each of `tests`."""
    has_shortcut: bool = False
    """Whether eager code goes on to skip work, by a condition with `torch.compiler.is_compiling()`.
    The proof runs in eager what compiled code runs, with that call as True."""
    as_compiled: Mapping[cst.CSTNode, Replacement] | None = None
    """The edit by which eager runs what compiled code runs, if `has_shortcut` does not say it."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Configuration that an idea sets: "torch._dynamo.config.allow_rnn" to True."""
    shorter: Rewrite | None = None
    """An unsafe edit of the same place that a maintainer would rather have."""

    def __post_init__(self) -> None:
        """Make an edit unsafe that assumes something."""
        if self.assumes and self.applicability is Applicability.SAFE:
            object.__setattr__(self, "applicability", Applicability.UNSAFE)


@dataclass(frozen=True)
class Refusal:
    """A rule's reason not to edit a site that it would otherwise rewrite."""

    reason: str
    """A clause that fits after "because"."""
    advises: bool = False
    """Whether the reason says what to do instead: it is shown before those that do not."""


@dataclass(frozen=True)
class Rule:
    """One kind of rewrite; its documentation is the docstring of the module that defines it."""

    code: str
    """Such as "FG101"; it never changes."""
    name: str
    """Such as "drop-variable"."""
    categories: frozenset[str]
    """Categories of the causes that the rule can remove."""
    rewrite: Callable[[Site], Rewrite | Refusal | None]
    """Returns the edit for a site, a reason against one, or None if the rule does not apply."""
    boundary: int = 0
    """0 if the edit rewrites the code that breaks; 1, 2, … if it draws a boundary around the
    function with that code. Such rules are tried in this order, after all rules with 0."""
    since: str = ""
    """Versions of torch on which the code breaks, such as "up to 2.12"; "" if on all."""
    summary: str = field(default="", compare=False)
    doc: str = field(default="", compare=False)
    topic: str = field(default="", compare=False)

    def answer(self, site: Site) -> Rewrite | Refusal | None:
        """Return the edit for a site, unless a variable hides the module `torch` that it uses."""
        made = contain(lambda: self.rewrite(site), Refusal)
        if isinstance(made, Rewrite) and _is_torch_hidden(site.document, made.replacements):
            return Refusal(f"a variable is named `{site.document.torch}`, as the module is")
        return made


def _is_torch_hidden(document: Document, edits: Mapping[cst.CSTNode, Replacement]) -> bool:
    """Return whether new code in a function uses `torch`, which is a variable there."""
    for old, new in edits.items():
        around = [one for one in document.ancestors(old) if isinstance(one, FunctionNode)]
        nodes = new.nodes if isinstance(new, cst.FlattenSentinel) else [new]
        names = [
            name
            for node in nodes
            if isinstance(node, cst.CSTNode)
            for name in walk(node)
            if isinstance(name, cst.Name) and name not in document.parents
        ]
        uses = any(name.value == document.torch for name in names)
        if uses and any(binds_variable(function, document.torch) for function in around):
            return True
    return False
