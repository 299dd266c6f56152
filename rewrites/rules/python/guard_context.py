"""Locks, anomaly detection and flags of backends are not traced; compiled code can do without.

Before:

    with self.lock:
        y = self.net(x)

After:

    with contextlib.nullcontext() if torch.compiler.is_compiling() else self.lock:
        y = self.net(x)

Eager code is unchanged. Unsafe: compiled code takes no lock, so code that needs one must take it
around the compiled call. For `torch.backends.cudnn.flags(enabled=False)` it assumes that the
results do not depend on which kernels run.

Refuses: locks that have a name (`as`), and contexts that are more than one.
"""

from __future__ import annotations

import re

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression

_LOCKS = {"_thread.lock", "_thread.RLock", "threading.Condition", "threading.Semaphore"}
_FLAGS = re.compile(r"torch\.backends\.\w+\.flags")
_DEBUGGING = ("torch.autograd.detect_anomaly", "torch.autograd.set_detect_anomaly")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    block = next(
        (
            one
            for one in (site.node, *site.document.ancestors(site.node))
            if isinstance(one, cst.With)
        ),
        None,
    )
    assumes = {item: _assumption_for(site, item.item) for item in block.items} if block else {}
    found = {item: clause for item, clause in assumes.items() if clause}
    if block is None or not found:
        return None
    if len(block.items) > 1 or block.items[0].asname is not None:
        return Refusal("the block enters more than that")
    context = block.items[0].item
    text = "contextlib.nullcontext() if torch.compiler.is_compiling() else {context}"
    return Rewrite(
        {context: build_expression(text, context=context)},
        "The compiled program does without, and eager code goes on as before.",
        Applicability.UNSAFE,
        tuple(found.values()),
        ("contextlib", "torch"),
    )


def _assumption_for(site: Site, context: cst.BaseExpression) -> str:
    """Return a clause: what one must assume to leave out a context manager; "" if it must stay.

    For a lock it is "no other thread needs the lock while compiled code runs".
    """
    seen = site.observed(context)
    if seen is not None and set(seen.types) <= _LOCKS:
        return "no other thread needs the lock while compiled code runs"
    name = site.callee_name(context)
    if name in _DEBUGGING:
        return "anomalies need not be found in compiled code"
    if _FLAGS.fullmatch(name):
        return f"the results do not depend on the kernels that `{name}` chooses"
    return ""


_CATEGORIES = {Category.CONTEXT_MANAGER, Category.THREAD, Category.SKIPPED}
RULE = Rule("FG813", "guard-context", frozenset(c.value for c in _CATEGORIES), rewrite)
