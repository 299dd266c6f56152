"""An `Explanation` as a notebook shows it."""

from __future__ import annotations

from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.report.html import fragment
from fullgraph.diagnose.report.terminal import plain


def mimebundle(explanation: Explanation) -> dict[str, str]:
    """`explanation` by MIME type: plain text, and HTML that needs no JavaScript."""
    return {"text/plain": plain(explanation), "text/html": fragment(explanation)}
