"""`hits = m.nonzero()` gives all indices, though only the first or the last one is asked for.

TorchDynamo cannot give the indices a shape in its default mode and breaks the graph there; in a
loop it gives up the whole function.

Before:

    for row in x:
        hits = (row > 0.5).nonzero()
        if len(hits) > 0:
            rows.append(hits[0, 0])
        else:
            rows.append(torch.tensor(-1))

After:

    for row in x:
        hits = row > 0.5
        rows.append(torch.where(hits.any(), hits.int().argmax(), -1))

Where nothing else is in the loop, and the list is only stacked, the loop goes too (FG406).

Likewise `m.nonzero().item()`, the place of the only one, which stays a number for other rules. An
assertion keeps the error of a search without a match:

    hits = self.timesteps == t
    assert hits.sum() == 1, "no single match for `self.timesteps == t`"
    step = hits.int().argmax().item()

The second one is asserted by `hits.sum() > 1`. Python leaves such lines out under `-O`. No line is
added where a tensor decides whether the search runs, where `torch.where` may drop its result, or
where a `try` may handle its error.

Unsafe where no condition guards the index: without a match it raised another exception. A branch or
an early return guards it if the condition implies a match, as `m.sum() > 0` does. `torch.where`
only drops the result, and eager code raised an IndexError before.

Refuses: indices that are used themselves, masks of several dimensions, and branches that do more
than one assignment, `append` or `return` each.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.masks.first_match import find_search, write_search
from fullgraph.rewrites.transforms.masks.nonzero import find_indices

_ONE_FOUND = "exactly one is found: of none or several `.item()` is an error"
_NOTHING_FOUND = "something is found: of nothing the index is an error"
_DROPPED = "no caller needs the IndexError of a search without a match"
_ASSERTED = (
    "no caller needs the exception of a search without a match: it is an AssertionError, or "
    "compiled a RuntimeError"
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = find_indices(site)
    if found is None or (not found.bound and isinstance(site.parent, cst.Assign)):
        return None
    try:
        asked = find_search(site, found)
        if asked is None:
            return None
        edits, message = write_search(site, found, asked)
    except NotApplicable as reason:
        return Refusal(str(reason))
    assumes = () if asked.is_guarded else (_DROPPED if asked.is_selected else _NOTHING_FOUND,)
    assumes = (_ONE_FOUND,) if asked.is_single else assumes
    if message:
        assumes = (_ASSERTED,)
    return Rewrite(
        edits,
        "`argmax` finds the first one at a fixed shape.",
        assumes=assumes,
        imports=("torch",),
        tests=asked.tests,
        exempts=frozenset({f"raises RuntimeError: {message}"} if message else ()),
    )


RULE = Rule("FG407", "find-through-argmax", frozenset({Category.NONZERO.value}), rewrite)
