"""From causes to offers: which rule would mend which cause, and with which edit."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import libcst as cst

from fullgraph.compiler.events import Position
from fullgraph.compiler.sources import is_user_code, read_source
from fullgraph.diagnose.explanation import Cause
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule, every
from fullgraph.rewrites.site import Knowledge, Site
from fullgraph.rewrites.source.document import Document, Replacement, parse


@dataclass(frozen=True)
class Offer:
    """A rule's edit for a cause, applied to nothing yet."""

    cause: Cause
    rule: Rule
    rewrite: Rewrite
    document: Document
    at: Position
    """Where the edit is: the cause's place, or a caller's."""

    @cached_property
    def text(self) -> str:
        """The document's whole text with this edit alone."""
        return self.document.edited(self.rewrite.replacements, self.rewrite.imports)


@dataclass(frozen=True)
class Offers:
    """What the rules say to one cause."""

    cause: Cause
    offers: tuple[Offer, ...] = ()
    refusals: tuple[str, ...] = field(default=())
    """"FG301: it is not known to be a tensor"."""


def places(cause: Cause) -> tuple[Position, ...]:
    """Where a cause may be mended: at its expression, else in the code that called it."""
    callers = [p for p in reversed(cause.stack) if is_user_code(p.file)]
    return tuple(dict.fromkeys((cause.position, *callers)))


def propose(
    causes: Iterable[Cause], facts: Knowledge, rules: Sequence[Rule] | None = None
) -> list[Offers]:
    """What each rule has to offer for each cause. The first offer of a cause is the best."""
    return [_offers(cause, facts, every() if rules is None else rules) for cause in causes]


def apply(offers: Iterable[Offer]) -> tuple[dict[str, str], list[Offer]]:
    """The texts of all files with as many offers applied as do not overlap, and these offers."""
    taken: dict[str, list[Offer]] = {}
    for offer in offers:
        others = taken.setdefault(offer.document.file, [])
        if not any(_overlap(offer, other) for other in others):
            others.append(offer)
    texts = {}
    for file, group in taken.items():
        replacements = _merged(one.rewrite.replacements for one in group)
        imports = [name for one in group for name in one.rewrite.imports]
        texts[file] = group[0].document.edited(replacements, imports)
    return texts, [offer for group in taken.values() for offer in group]


def selected(rules: Iterable[Rule], select: Collection[str], ignore: Collection[str]) -> list[Rule]:
    """The rules whose code or name begins with one of `select` (all if empty), without `ignore`."""
    return [
        rule
        for rule in rules
        if (not select or _matches(rule, select)) and not _matches(rule, ignore)
    ]


def _matches(rule: Rule, prefixes: Collection[str]) -> bool:
    return any(rule.code.startswith(p) or rule.name.startswith(p) for p in prefixes)


def _offers(cause: Cause, facts: Knowledge, rules: Sequence[Rule]) -> Offers:
    offers: list[Offer] = []
    refusals: list[str] = []
    for place in places(cause):
        document = _document(place.file)
        node = None if document is None else document.node(place)
        if document is None or node is None:
            continue
        site = Site(document, node, cause.category, facts, cause.detail)
        for rule in rules:
            if cause.category not in rule.categories:
                continue
            answer = rule.rewrite(site)
            if isinstance(answer, Refusal):
                refusals.append(f"{rule.code}: {answer.reason}")
            elif answer is not None:
                offer = Offer(cause, rule, answer, document, document.position(node))
                offers.append(_with_comments(offer))
        if any(offer.rewrite.replacements for offer in offers):
            break
    offers.sort(key=lambda offer: not offer.rewrite.replacements)  # ideas come last
    return Offers(cause, tuple(offers), tuple(dict.fromkeys(refusals)))


def _with_comments(offer: Offer) -> Offer:
    """`offer`, no more than unsafe if a comment would be lost."""
    lost = _comments(offer.document.text) - _comments(offer.text)
    if not lost or offer.rewrite.applicability is Applicability.DISPLAY:
        return offer
    assumes = (*offer.rewrite.assumes, f"the comment `{min(lost)}` is no longer needed")
    rewrite = replace(offer.rewrite, applicability=Applicability.UNSAFE, assumes=assumes)
    return replace(offer, rewrite=rewrite)


def _comments(text: str) -> set[str]:
    return {match.strip() for match in re.findall(r"#.*", text)}


def _merged(edits: Iterable[Mapping[cst.CSTNode, Replacement]]) -> dict[cst.CSTNode, Replacement]:
    """The replacements of several edits; what is put behind the same node twice comes once."""
    merged: dict[cst.CSTNode, Replacement] = {}
    for node, new in ((node, new) for edit in edits for node, new in edit.items()):
        old = _put_behind(node, merged.get(node))
        behind = _put_behind(node, new)
        fresh = [one for one in behind if not any(one.deep_equals(known) for known in old)]
        merged[node] = cst.FlattenSentinel([node, *old, *fresh]) if behind else new
    return merged


def _put_behind(node: cst.CSTNode, new: Replacement | None) -> list[cst.CSTNode]:
    """What a replacement puts behind `node`, if it leaves the node as it is."""
    nodes = list(new.nodes) if isinstance(new, cst.FlattenSentinel) else []
    return nodes[1:] if nodes and nodes[0] is node else []


def _overlap(one: Offer, other: Offer) -> bool:
    return any(
        _clash(one, a, other, b)
        for a in one.rewrite.replacements
        for b in other.rewrite.replacements
    )


def _clash(one: Offer, a: cst.CSTNode, other: Offer, b: cst.CSTNode) -> bool:
    if a is b:
        edits = (one.rewrite.replacements[a], other.rewrite.replacements[b])
        return not all(_put_behind(a, edit) for edit in edits)
    return a in tuple(one.document.around(b)) or b in tuple(one.document.around(a))


def _document(file: str) -> Document | None:
    source = read_source(file)
    return None if source is None else _parsed(file, source.text)


@lru_cache(maxsize=64)
def _parsed(file: str, text: str) -> Document:
    return parse(file, text)


def watched(causes: Iterable[Cause]) -> Iterator[Position]:
    """The places whose functions must be observed for `propose` to have facts."""
    for cause in causes:
        yield from places(cause)
