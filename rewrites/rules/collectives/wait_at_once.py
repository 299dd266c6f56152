"""`async_op=True` gives a handle, which TorchDynamo cannot trace; the waiting call is traced.

Compiled, the order of communication and computation is the compiler's to choose anyway.

Before:

    work = dist.all_reduce(y, async_op=True)
    z = self.net(x)
    work.wait()

After:

    dist.all_reduce(y)
    z = self.net(x)

What the call writes may not be read before the wait. Eager code loses the overlap.

Assumes that the collective does not fail, unless its `wait()` follows at once: it would fail at the
call, before what runs until the wait.

Refuses: handles that are kept, handed on, waited for under a condition, or never waited for.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, find_definitions, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement

_ASYNC = m.Arg(keyword=m.Name("async_op"), value=m.Name("True"))
_SUCCEEDS = "the collective succeeds: its error would come at the call, and not at the wait"
_WAIT = m.Call(func=m.Attribute(attr=m.Name("wait")), args=[])


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = next(
        (one for one in walk(site.node) if isinstance(one, cst.Call) and _is_async(site, one)),
        None,
    )
    if call is None:
        return None
    args = [arg for arg in call.args if not m.matches(arg, _ASYNC)]
    if args:
        args[-1] = args[-1].with_changes(comma=call.args[-1].comma)
    edits = _remove_handle(site, call, call.with_changes(args=args))
    if isinstance(edits, str):
        return Refusal(edits)
    at_once = all(isinstance(one, cst.Call) for one in edits)
    return Rewrite(
        edits,
        "The call that waits is traced; the compiler orders the work itself.",
        assumes=() if at_once else (_SUCCEEDS,),
    )


def _remove_handle(
    site: Site, call: cst.Call, waiting: cst.Call
) -> dict[cst.CSTNode, Replacement] | str:
    """Return the edits that replace `call` by `waiting` and remove the `wait()` of its handle.

    `waiting` is the call without `async_op=True`. If the edits are not possible, the result is the
    reason, a string.
    """
    document = site.document
    parent = document.parent(call)
    match parent:
        case cst.Attribute(attr=cst.Name("wait")) if m.matches(document.parent(parent), _WAIT):
            return {document.parent(parent): waiting}
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            edits: dict[cst.CSTNode, Replacement] = {parent: cst.Expr(waiting)}
            waits = _remove_waits(site, name)
            return waits if isinstance(waits, str) else edits | waits
        case cst.Arg():
            append = document.parent(parent)
            match append:
                case cst.Call(
                    func=cst.Attribute(value=cst.Name() as name, attr=cst.Name("append"))
                ):
                    waits = _remove_wait_loop(site, name, append)
                    return waits if isinstance(waits, str) else {append: waiting} | waits
        case cst.Expr():
            return "nobody waits for it"
    return "its handle is handed on"


def _remove_waits(site: Site, name: cst.Name) -> dict[cst.CSTNode, Replacement] | str:
    """Return the edits that remove the statements `name.wait()`.

    If they cannot be removed, the result is the reason, a string.
    """
    known = find_definitions(site.document, name)
    uses = known.uses(name) if known is not None else []
    edits: dict[cst.CSTNode, Replacement] = {}
    for use in uses:
        line = _removable_line(
            site, use, m.Expr(m.Call(func=m.Attribute(attr=m.Name("wait")), args=[]))
        )
        if known is None or line is None or known.reaching[use] != frozenset({name}):
            return "its handle is used for more than one wait"
        edits[line] = cst.RemoveFromParent()
    return edits or "nobody waits for it"


def _remove_wait_loop(
    site: Site, name: cst.Name, append: cst.CSTNode
) -> dict[cst.CSTNode, Replacement] | str:
    """Return the edits that remove the loops `for work in name: work.wait()`.

    `append` is the call `name.append(…)` with the handle; the list `name` stays, and is empty. If
    the loops cannot be removed, the result is the reason, a string.
    """
    known = find_definitions(site.document, name)
    bindings = known.reaching.get(name, frozenset()) if known is not None else frozenset()
    uses = [use for one in bindings for use in known.uses(one)] if known is not None else []
    edits: dict[cst.CSTNode, Replacement] = {}
    for use in dict.fromkeys(uses):
        loop = site.document.parent(use)
        if use is name or append in tuple(site.document.ancestors(use)):
            continue
        wait = m.SimpleStatementLine([m.Expr(_WAIT)])
        if not m.matches(loop, m.For(iter=m.Name(), body=m.IndentedBlock([wait]), orelse=None)):
            return "its handle is kept in a list that is used for more than one wait"
        edits[loop] = cst.RemoveFromParent()
    return edits or "nobody waits for it"


def _removable_line(site: Site, use: cst.Name, pattern: m.Expr) -> cst.SimpleStatementLine | None:
    """Return the statement that contains the variable `use`; None if it cannot be removed.

    It can if its code matches `pattern`, and it is not alone in its block.
    """
    line = site.document.statement(use)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return None
    block = site.document.parent(line)
    alone = isinstance(block, cst.IndentedBlock) and len(block.body) == 1
    return line if m.matches(line.body[0], pattern) and not alone else None


def _is_async(site: Site, call: cst.Call) -> bool:
    """Return whether `call` calls a function of `torch.distributed` with `async_op=True`."""
    named = site.callee_name(call).startswith("torch.distributed.")
    return named and any(m.matches(arg, _ASYNC) for arg in call.args)


RULE = Rule(
    "FG511",
    "wait-at-once",
    frozenset({Category.COLLECTIVE.value}),
    rewrite,
)
