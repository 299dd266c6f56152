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
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule

_IDEAS = {
    Category.CLOCK.value: "read the clock outside of the compiled region; to time kernels, use "
    "torch.profiler or events",
    Category.UNIQUE_ID.value: "make the id in the caller and pass it in, or leave it out",
    Category.SYSTEM.value: "ask the operating system once, in `__init__`, and keep the answer",
    Category.IMPORT.value: "import at the top of the file",
    Category.THREAD.value: "take the lock around the compiled call",
}


def rewrite(site: Site) -> Rewrite | None:
    return Rewrite({}, _IDEAS[site.category], Applicability.DISPLAY)


RULE = Rule("FG711", "hoist-outside-world", frozenset(_IDEAS), rewrite)
