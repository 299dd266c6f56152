"""Offers: the edits that rules propose for causes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import libcst as cst

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import Deadline, TimeUp
from fullgraph.compiler.sources import imports_of_cells, is_user_code, read_source
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.analysis import Knowledge, Site, walk
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.rules import all_rules
from fullgraph.rewrites.source import Document, Replacement, parse_document, unified_diff
from fullgraph.rewrites.transforms.eager_only import compiled_part

EditKey = tuple[str, str]
"""What identifies an edit: the rule's code and the text of the edited file."""
_OUTPUT_GUARD = "FG113"
"""The rule that lets `print` and logging run only in eager."""
_CONDITIONAL = cst.If | cst.IfExp | cst.While | cst.CompIf | cst.Assert
_OPERATOR = re.compile(r"\bcustom_op\b|\btorch\._(?!assert_async|check)")
"""New code that defines an operator or calls a private function."""
_SUBGRAPH = re.compile(r"\b_?(cond|while_loop)\(")
_UNROLLED = re.compile(r"\bfor .* in .*\.unbind\(\):")
"""New code that loops over the elements of a tensor, each of which is a part of the graph."""


@dataclass(frozen=True)
class Offer:
    """A rule's proposed edit for a cause, not applied yet."""

    cause: Cause
    rule: Rule
    rewrite: Rewrite
    document: Document
    at: Position
    """The place of the edit: the cause's, or a call site of its function."""
    is_shorter: bool = False
    """Whether this is the `Rewrite.shorter` of another offer."""

    @cached_property
    def text(self) -> str:
        """The document's whole text with this edit alone."""
        return self.document.with_edits(self.rewrite.replacements, self.rewrite.imports)

    @cached_property
    def diff(self) -> str:
        """The edit alone, as a unified diff."""
        return unified_diff(self.document.file, self.document.text, self.text)

    @cached_property
    def tests(self) -> list[Position]:
        """Positions of the conditions whose branches the proof tries to reach.

        They are those that the rule names, and others in what it replaces that the new code lacks.
        """
        named = dict.fromkeys(self.document.position(test) for test in self.rewrite.tests)
        for node in self.rewrite.replacements:
            for one in walk(node):
                if not isinstance(one, _CONDITIONAL) or one.test not in self.document.ranges:
                    continue
                if self.document.code(one.test) not in self._new_code:
                    named[self.document.position(one.test)] = None
        return list(named)

    @property
    def needed_tests(self) -> list[Position]:
        """The conditions of which some input must take both branches."""
        tests = self.rewrite.tests if self.rewrite.needs_both_branches else ()
        return [self.document.position(test) for test in tests]

    @cached_property
    def as_compiled(self) -> Offer:
        """The offer with what compiled code runs: `Rewrite.as_compiled`.

        Without that edit, conditions have `True` for `is_compiling()` if it is a shortcut.
        """
        if (edits := self.rewrite.as_compiled) is not None:
            return replace(self, rewrite=replace(self.rewrite, replacements=edits))
        if not self.rewrite.has_shortcut:
            return self
        whole = "text" in self.rewrite.exempts
        made = self.rewrite.replacements.items()
        edits = {node: compiled_part(new, whole) for node, new in made}
        return replace(self, rewrite=replace(self.rewrite, replacements=edits))

    @cached_property
    def preference(self) -> tuple[bool, ...]:
        """Return the sort key that puts first the edit that a person would choose for a cause.

        A shorter edit and one that skips output when compiled come first. Ordinary code comes
        before new operators and private functions, straight code before subgraphs and loops, an
        edit that is right by its reason before one that needs a trial, and safe before unsafe.
        """
        return (
            self.rule.code != _OUTPUT_GUARD and not self.is_shorter,
            bool(_OPERATOR.search(self._new_code)),
            bool(_SUBGRAPH.search(self._new_code)),
            bool(_UNROLLED.search(self._new_code)),
            self.rewrite.needs_both_branches,
            self.rewrite.applicability is not Applicability.SAFE,
        )

    @property
    def is_plain(self) -> bool:
        """Whether the new code has no operator of its own, private function, subgraph or loop.

        False too if there is a shorter edit.
        """
        forms = (_OPERATOR, _SUBGRAPH, _UNROLLED)
        return not (self.rewrite.shorter or any(one.search(self._new_code) for one in forms))

    @cached_property
    def _new_code(self) -> str:
        """The lines that the edit adds."""
        old = set(self.document.text.splitlines())
        return "\n".join(line for line in self.text.splitlines() if line not in old)

    @property
    def key(self) -> EditKey:
        """The rule's code and the edited text, which identify the edit."""
        return self.rule.code, self.text


@dataclass(frozen=True)
class Offers:
    """All proposed edits for one cause, and the refusals of the other rules."""

    cause: Cause
    offers: tuple[Offer, ...] = ()
    refusals: tuple[str, ...] = ()
    """"FG301: it is not known to be a tensor"."""

    @property
    def plain(self) -> tuple[Offer, ...]:
        """The offers, safe or unsafe, that keep the code in the graph and are plain code."""
        return tuple(
            offer
            for offer in self.offers
            if offer.rewrite.applicability is not Applicability.DISPLAY
            and not offer.rule.boundary
            and offer.is_plain
        )


def edit_places(cause: Cause) -> tuple[Position, ...]:
    """Return where a cause may be removed: at its expression, then at the call sites."""
    callers = [p for p in reversed(cause.stack) if is_user_code(p.file)]
    return tuple(dict.fromkeys((cause.position, *callers)))


def propose(
    causes: Iterable[Cause],
    facts: Knowledge,
    rules: Sequence[Rule] | None = None,
    entry: Position | None = None,
    deadline: Deadline | None = None,
) -> list[Offers]:
    """Return, for each cause, the offers of all rules, the best offer first.

    `facts` is what is known of the values of expressions; `rules` are all rules by default. `entry`
    is where the compiled function is defined, if that is known. Raises `TimeUp` if the rules have
    not answered for every cause before `deadline`.
    """
    causes = tuple(causes)
    places = tuple(cause.position for cause in causes)
    asked = all_rules() if rules is None else rules
    offers = []
    for cause in causes:
        if deadline is not None and deadline.is_over:
            raise TimeUp
        offers.append(_offers_for(cause, facts, asked, places, entry))
    return offers


def exempted(offers: Iterable[Offer]) -> frozenset[str]:
    """Return what the edits of some offers may change (`Rewrite.exempts`)."""
    return frozenset[str]().union(*(offer.rewrite.exempts for offer in offers))


def names_of(offers: Iterable[Offer]) -> str:
    """Return "FG201 at line 7, FG301 at line 9"."""
    return ", ".join(f"{offer.rule.code} at line {offer.at.line}" for offer in offers)


def apply_offers(offers: Iterable[Offer]) -> tuple[dict[str, str], list[Offer]]:
    """Apply the offers that do not overlap an earlier one.

    Returns the new texts by file, and the offers that were applied.
    """
    taken: dict[str, list[Offer]] = {}
    for offer in offers:
        others = taken.setdefault(offer.document.file, [])
        if not any(_overlap(offer, other) for other in others):
            others.append(offer)
    texts = {}
    for file, group in taken.items():
        replacements = _merge_replacements(one.rewrite.replacements for one in group)
        imports = [name for one in group for name in one.rewrite.imports]
        texts[file] = group[0].document.with_edits(replacements, imports)
    return texts, [offer for group in taken.values() for offer in group]


def places_to_observe(causes: Iterable[Cause]) -> Iterator[Position]:
    """Yield the places in whose functions values must be recorded before rules can make offers."""
    for cause in causes:
        yield from edit_places(cause)


def _offers_for(
    cause: Cause,
    facts: Knowledge,
    rules: Sequence[Rule],
    causes: tuple[Position, ...],
    entry: Position | None,
) -> Offers:
    """Return the offers of all rules for one cause, and why other rules refused.

    Offers are for the innermost place that a rule can edit. Each rule that takes code out of the
    graph (`Rule.boundary`) has its own innermost place; all other rules share one. `causes` are the
    places of all causes of the program, `entry` is where the compiled function is defined.
    """
    offers: list[Offer] = []
    refusals: list[str] = []
    advice: list[str] = []
    rules = [rule for rule in rules if cause.category in rule.categories]
    edits = [rule for rule in rules if not rule.boundary]
    for group in (edits, *([rule] for rule in rules if rule.boundary)):
        for site in _sites_of(cause, facts, causes, entry) if group else ():
            found = []
            for rule in group:
                answer = rule.answer(site)
                if isinstance(answer, Refusal):
                    (advice if answer.advises else refusals).append(f"{rule.code}: {answer.reason}")
                elif answer is not None:
                    document = site.document
                    offer = Offer(cause, rule, answer, document, document.position(site.node))
                    found.append(_unsafe_if_comment_lost(offer))
                    if answer.shorter is not None:
                        other = replace(offer, rewrite=answer.shorter, is_shorter=True)
                        found.append(_unsafe_if_comment_lost(other))
            offers += found
            if any(offer.rewrite.replacements for offer in found):
                break
    offers.sort(key=lambda offer: not offer.rewrite.replacements)  # ideas come last
    return Offers(cause, tuple(offers), tuple(dict.fromkeys([*advice, *refusals])))


def _sites_of(
    cause: Cause, facts: Knowledge, causes: tuple[Position, ...], entry: Position | None
) -> Iterator[Site]:
    """Yield a `Site` for each place where an edit may remove `cause`, innermost first.

    Each file is parsed only when its place is reached. `facts` is what is known of the values of
    expressions; `causes` are the places of all causes of the program, `entry` is where the compiled
    function is defined. A function that eager calls after a break is a compiled frame of its own,
    without callers in the stack.
    """
    places = edit_places(cause)
    for number, place in enumerate(places):
        document = _parse_file(place.file)
        node = None if document is None else document.node(place)
        if document is not None and node is not None:
            in_helper = number + 1 < len(places)
            if entry is not None and document.function(node) is not None:
                in_helper = not _is_in(document, node, entry)
            yield Site(document, node, cause.category, facts, cause.detail, in_helper, causes)


def _is_in(document: Document, node: cst.CSTNode, entry: Position) -> bool:
    """Return whether the innermost function around a node is the one that begins at `entry`."""
    span = document.position(document.function(node) or node)
    inside = entry.line in span.lines
    same = (document.file, document.function_name(node)) == (entry.file, entry.function)
    return inside and same


def _unsafe_if_comment_lost(offer: Offer) -> Offer:
    """Return `offer`, marked unsafe if the edit would delete a comment."""
    lost = _comments_in(offer.document.text) - _comments_in(offer.text)
    if not lost or offer.rewrite.applicability is Applicability.DISPLAY:
        return offer
    assumes = (*offer.rewrite.assumes, f"the comment `{min(lost)}` is no longer needed")
    rewrite = replace(offer.rewrite, applicability=Applicability.UNSAFE, assumes=assumes)
    return replace(offer, rewrite=rewrite)


def _comments_in(text: str) -> set[str]:
    return {match.strip() for match in re.findall(r"#.*", text)}


def _merge_replacements(
    edits: Iterable[Mapping[cst.CSTNode, Replacement]],
) -> dict[cst.CSTNode, Replacement]:
    """Merge the replacements of several edits; insert equal nodes after a node only once."""
    merged: dict[cst.CSTNode, Replacement] = {}
    for node, new in ((node, new) for edit in edits for node, new in edit.items()):
        old = inserted_after(node, merged.get(node))
        inserted = inserted_after(node, new)
        added = [one for one in inserted if not any(one.deep_equals(known) for known in old)]
        merged[node] = cst.FlattenSentinel([node, *old, *added]) if inserted else new
    return merged


def inserted_after(node: cst.CSTNode, new: Replacement | None) -> list[cst.CSTNode]:
    """Return the nodes that `new` inserts after an unchanged `node`; [] if it replaces `node`."""
    nodes = list(new.nodes) if isinstance(new, cst.FlattenSentinel) else []
    return nodes[1:] if nodes and nodes[0] is node else []


def _overlap(one: Offer, other: Offer) -> bool:
    """Return whether two offers edit the same or nested nodes."""
    return any(
        _nodes_overlap(one, a, other, b)
        for a in one.rewrite.replacements
        for b in other.rewrite.replacements
    )


def _nodes_overlap(one: Offer, a: cst.CSTNode, other: Offer, b: cst.CSTNode) -> bool:
    """Return whether the edit of `a` in `one` conflicts with the edit of `b` in `other`.

    They conflict if one node is inside the other one. If `a` and `b` are the same node, they
    conflict unless both edits only insert code after it.
    """
    if a is b:
        edits = (one.rewrite.replacements[a], other.rewrite.replacements[b])
        return not all(inserted_after(a, edit) for edit in edits)
    return a in tuple(one.document.ancestors(b)) or b in tuple(one.document.ancestors(a))


def _parse_file(file: str) -> Document | None:
    """Return the parsed file; None if it cannot be read."""
    source = read_source(file)
    return None if source is None else _parse_cached(file, source.text, imports_of_cells(file))


@lru_cache(maxsize=64)
def _parse_cached(file: str, text: str, imports: str) -> Document:
    return parse_document(file, text, imports)
