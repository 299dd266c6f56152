"""Ideas: what a person may do where a rule makes no edit."""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category, Usage, advise
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Rewrite


def idea_for(site: Site) -> Rewrite:
    """Return the best advice on the graph break at a site, as a rewrite without an edit."""
    code = site.document.code
    usage = Usage(code(site.node).strip(), code(site.statement).strip())
    advice = advise(Category(site.category), usage)[0]
    return Rewrite({}, advice.text.rstrip("."), Applicability.DISPLAY)
