"""Which findings are shown: by code, by `# noqa`, by certainty."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from fullgraph.rewrites.check.finding import Certainty, Finding

_NOQA = re.compile(r"#\s*noqa(?P<codes>\s*:\s*[A-Z]+\d*(?:[,\s]+[A-Z]+\d+)*)?", re.IGNORECASE)


def is_selected(
    finding: Finding, select: Collection[str], ignore: Collection[str], strict: bool
) -> bool:
    """Return whether a finding is shown; prefixes match its code or the code of its fix."""
    codes = codes_of(finding)
    if finding.certainty is Certainty.LIKELY and not strict:
        return False
    if any(code.startswith(prefix) for prefix in ignore for code in codes):
        return False
    return not select or any(code.startswith(prefix) for prefix in select for code in codes)


def codes_of(finding: Finding) -> tuple[str, ...]:
    """Return the code of a finding and that of its fix."""
    return (finding.code, finding.fix.rule) if finding.fix else (finding.code,)


def is_silenced(finding: Finding, lines: Sequence[str], first: int) -> bool:
    """Return whether a line of the finding has a `# noqa` for it; `first` is its first line."""
    last = first + finding.end_line - finding.line
    for text in (lines[first - 1 : first], lines[last - 1 : last]):
        found = _NOQA.search(text[0]) if text else None
        if found is None:
            continue
        codes = re.findall(r"[A-Z]+\d*", (found["codes"] or "").upper())
        if not codes or any(own.startswith(code) for code in codes for own in codes_of(finding)):
            return True
    return False


def count_by_code(findings: Collection[Finding]) -> Mapping[str, int]:
    """Return the number of findings of each code, in order of the codes."""
    codes = sorted(finding.code for finding in findings)
    return {code: codes.count(code) for code in codes}
