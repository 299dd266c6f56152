"""The clock, unique ids and the environment change from call to call; a graph cannot hold them.

Before:

    def forward(self, x):
        start = time.time()
        return self.net(x), start

After:

    def forward(self, x, start):
        return self.net(x), start

    model(x, time.time())

This is an idea, not an edit: whether the value belongs to the call, to the model or nowhere at all
(time that is measured inside a compiled region is not the time the kernels take) is for a person
to say.

Refuses: nothing; it never edits.
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Rewrite, Rule
from fullgraph.rewrites.transforms.ideas import idea_for

_CATEGORIES = frozenset(
    one.value
    for one in (
        Category.CLOCK,
        Category.UNIQUE_ID,
        Category.SYSTEM,
        Category.IMPORT,
        Category.THREAD,
    )
)


def rewrite(site: Site) -> Rewrite | None:
    return idea_for(site)


RULE = Rule("FG711", "hoist-outside-world", _CATEGORIES, rewrite)
