"""Selection of the findings to show: by code, by `# noqa`, by certainty."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from fullgraph.rewrites.check.finding import Certainty, Finding

_NOQA = re.compile(r"#\s*noqa(?P<codes>\s*:\s*[A-Z]+\d*(?:[,\s]+[A-Z]+\d+)*)?", re.IGNORECASE)


def is_selected(
    finding: Finding, select: Collection[str], ignore: Collection[str], strict: bool
) -> bool:
    """Return whether to show a finding, by its code, the code of its fix, and its certainty.

    `select` and `ignore` are prefixes of codes; an empty `select` selects all. Findings that are
    only likely are shown if `strict`.
    """
    codes = codes_of(finding)
    if finding.certainty is Certainty.LIKELY and not strict:
        return False
    if any(code.startswith(prefix) for prefix in ignore for code in codes):
        return False
    return not select or any(code.startswith(prefix) for prefix in select for code in codes)


def codes_of(finding: Finding) -> tuple[str, ...]:
    """Return the codes that select or silence a finding: its own, and that of its fix's rule.

    For example ("FGB121", "FG101"). If the finding has no fix, it is only its own code.
    """
    return (finding.code, finding.fix.rule) if finding.fix else (finding.code,)


def noqa_comments(lines: Sequence[str], first: int, last: int) -> tuple[str, ...]:
    """Return the `# noqa` comments on the two lines `first` and `last`, counted from 1."""
    ends = {number: lines[number - 1] for number in (first, last) if number <= len(lines)}
    return tuple(found[0] for text in ends.values() if (found := _NOQA.search(text)))


def is_silenced(finding: Finding, comments: Iterable[str]) -> bool:
    """Return whether one of the `# noqa` comments silences a finding.

    It does if it lists no codes, or a code of the finding or of its fix.
    """
    for comment in comments:
        found = _NOQA.match(comment)
        assert found is not None
        codes = re.findall(r"[A-Z]+\d*", (found["codes"] or "").upper())
        if not codes or any(own.startswith(code) for code in codes for own in codes_of(finding)):
            return True
    return False


def count_by_code(findings: Collection[Finding]) -> Mapping[str, int]:
    """Return the number of findings of each code, sorted by code."""
    codes = sorted(finding.code for finding in findings)
    return {code: codes.count(code) for code in codes}
