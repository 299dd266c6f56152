"""Edits for findings, from those rules of `fix` that need no run of the program."""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.events import Position
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.check.finding import Fix, TextEdit
from fullgraph.rewrites.check.interpreter.values import Value
from fullgraph.rewrites.check.knowledge import SourceKnowledge
from fullgraph.rewrites.check.project import Module
from fullgraph.rewrites.check.report import Found, Place
from fullgraph.rewrites.check.syntax import walk
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule
from fullgraph.rewrites.rules import rules_of_topics
from fullgraph.rewrites.source import Document, parse_document

TOPICS = ("legacy", "output", "shapes")
"""Topics whose rules need no facts about tensors, and do not import torch."""
SAFE_BY_SYNTAX = frozenset({"FG603", "FG604"})
"""Rules whose edits are safe without a proof; edits of other rules become unsafe."""
UNPROVED = "a run would prove it: `fullgraph fix`"


Count = Callable[[Module, str], Mapping[tuple[str, str], int]]
"""Takes a module and a new text for it; returns the number of findings by code and function."""


_ALWAYS = frozenset(
    {
        *("legacy Variable", "legacy argument", "requires_grad", "saved_variables"),
        *("autograd call", "print / logging", "warning", "clock"),
        *("NumPy function", "NumPy scalar"),
    }
)
"""Categories for which a rule edits the finding's expression, whatever its text."""
_HINT = re.compile(
    r"\bprint\(|\blog(?:ger|ging)?\.|warn|\bwrite\(|\btime\b|tqdm|\bnp\.|numpy|\.size\(|\btensor\("
)
"""Matches lines on which a rule may edit a finding of another category."""


def may_have_edit(one: Found, module: Module) -> bool:
    """Return whether some rule may have an edit for a finding.

    The answer is quick, from the finding's category and lines; libcst does not parse the file.
    """
    category = one.finding.category
    if one.finding.cell is not None or not any(category in r.categories for r in _rules()):
        return False
    if category in _ALWAYS:
        return True
    first, _, last, _ = one.place.span
    return any(map(_HINT.search, module.lines[first - 1 : min(last, first + 20)]))


def fixes_in(
    module: Module, found: Sequence[Found], values: Mapping[ast.expr, Value], count: Count
) -> dict[Place, Fix]:
    """Return the fixes of the findings of one file, by place; each removes a finding.

    First the best fixes of all findings are applied together; if a finding stays, each fix is tried
    alone. `values` are the values of expressions as the interpreter found them. `count` checks the
    module with another text, and returns the number of findings by code and function.
    """
    source = module.source
    try:
        document = parse_document(source.name, source.text)
    except (FullgraphError, RecursionError):
        return {}
    facts = SourceKnowledge(values, walk(source.tree))
    offered: dict[Place, list[Fix]] = {}
    for one in found:
        where = one.finding
        position = Position(
            *(source.name, where.line, where.column, where.end_line, where.end_column)
        )
        node = document.node(position)
        if node is not None:
            site = Site(document, node, where.category, facts, where.message)
            if fixes := _offered_fixes(site, _rules()):
                offered[one.place] = fixes
    if not offered:
        return {}
    before = count(module, source.text)
    chosen = [one for one in found if one.place in offered]
    first = {one.place: offered[one.place][0] for one in chosen}
    text, applied = apply_edits(source.text, first.values())
    removed = Counter((one.finding.code, one.finding.function) for one in chosen)
    if applied == len(first) and count(module, text) == _without_edited(before, removed):
        return first
    kept: dict[Place, Fix] = {}
    for one in chosen:
        key = one.finding.code, one.finding.function
        known = before.get(key, 0)  # 0 if only other files call this code
        for fix in offered[one.place]:
            after = count(module, apply_edits(source.text, [fix])[0])
            fewer = not known or after.get(key, 0) < known
            if sum(after.values()) <= sum(before.values()) and fewer:
                kept[one.place] = fix
                break
    return kept


def _without_edited(
    before: Mapping[tuple[str, str], int], removed: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
    """Return the counts in `before` minus those in `removed`; keys with count 0 are left out.

    Both count findings, by code and function: `{("FGB101", "Net.forward"): 2}`.
    """
    left = {key: count - removed.get(key, 0) for key, count in before.items()}
    return {key: count for key, count in left.items() if count}


@cache
def _rules() -> tuple[Rule, ...]:
    return tuple(rules_of_topics(TOPICS))


def _offered_fixes(site: Site, rules: Iterable[Rule]) -> list[Fix]:
    """Return the fixes that rules offer for a site, best first: safe before unsafe."""
    offered: list[Fix] = []
    for rule in rules:
        if site.category not in rule.categories or rule.boundary:
            continue
        answer = rule.answer(site)
        if isinstance(answer, Rewrite) and answer.replacements:
            offered += _as_fixes(site.document, rule, answer)
    order = [Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY]
    preferred = ("FG113", "FG114", "FG116")
    offered.sort(key=lambda fix: (order.index(fix.applicability), fix.rule not in preferred))
    return offered


def _as_fixes(document: Document, rule: Rule, rewrite: Rewrite) -> list[Fix]:
    """Return a list with `rewrite` as a fix; [] if the edit would delete a comment.

    The fix is unsafe if the rewrite is, or if `rule` is one whose edits need a run to prove them.
    """
    text = document.with_edits(rewrite.replacements, rewrite.imports)
    if _comments_in(document.text) - _comments_in(text):
        return []
    safe = rewrite.applicability is Applicability.SAFE
    applicability, assumes = rewrite.applicability, rewrite.assumes
    if safe and rule.code not in SAFE_BY_SYNTAX:
        applicability, assumes = Applicability.UNSAFE, (*assumes, UNPROVED)
    edits = edits_between(document.text, text)
    return [Fix(rule.code, applicability, rewrite.why, assumes, edits)]


def _comments_in(text: str) -> set[str]:
    return {match.strip() for match in re.findall(r"#.*", text)}


def edits_between(before: str, after: str) -> tuple[TextEdit, ...]:
    """Return edits of whole lines that turn the text `before` into `after`."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        TextEdit(a + 1, 0, b + 1, 0, "".join(new[c:d]))
        for kind, a, b, c, d in matcher.get_opcodes()
        if kind != "equal"
    )


def apply_edits(text: str, fixes: Iterable[Fix]) -> tuple[str, int]:
    """Apply the fixes in order, and leave out each one that overlaps an applied one.

    Returns the new text and how many fixes were applied.
    """
    lines = text.splitlines(keepends=True)
    taken: list[TextEdit] = []
    count = 0
    for fix in fixes:
        new = [edit for edit in fix.edits if edit not in taken]
        if new and not any(_overlap(edit, other) for edit in new for other in taken):
            taken += new
            count += 1
    for edit in sorted(taken, key=lambda one: (one.line, one.end_line), reverse=True):
        lines[edit.line - 1 : edit.end_line - 1] = [edit.text]
    return "".join(lines), count


def _overlap(one: TextEdit, other: TextEdit) -> bool:
    """Return whether two edits of whole lines touch the same lines."""
    if one.line == other.line:
        return True
    return one.line < other.end_line and other.line < one.end_line
