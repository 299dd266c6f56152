"""`ExitStack` enters context managers by hand, which is not traced; a `with` statement is.

Before:

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        if self.amp:
            stack.enter_context(torch.autocast("cpu"))
        y = self.net(x)

After:

    with torch.no_grad(), torch.autocast("cpu") if self.amp else contextlib.nullcontext():
        y = self.net(x)

Assumes nothing: the same is entered in the same order, and left in the other.

Refuses: stacks that are used for more than entering at the start of the block.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, find_all, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression


def rewrite(site: Site) -> Rewrite | Refusal | None:
    block = next(
        (
            one
            for one in (site.node, *site.document.ancestors(site.node))
            if isinstance(one, cst.With) and _is_stack(site, one)
        ),
        None,
    )
    if block is None:
        return None
    name = block.items[0].asname
    if len(block.items) > 1 or name is None or not isinstance(name.name, cst.Name):
        return Refusal("the block enters more than the stack")
    if not isinstance(block.body, cst.IndentedBlock):
        return Refusal("the block is on one line")
    stack = name.name.value
    items: list[cst.WithItem] = []
    rest = list(block.body.body)
    while rest and (item := _context_of(stack, rest[0])) is not None:
        items.append(item)
        rest.pop(0)
    if not items or not rest:
        return Refusal("it does not enter anything at the start")
    if any(isinstance(one, cst.Name) and one.value == stack for line in rest for one in walk(line)):
        return Refusal("the stack is used for more than entering at the start")
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    items = [item.with_changes(comma=comma) for item in items[:-1]] + items[-1:]
    new = block.with_changes(items=items, body=block.body.with_changes(body=rest))
    null = any(find_all(item, m.Attribute(attr=m.Name("nullcontext"))) for item in items)
    return Rewrite(
        {block: new},
        "A `with` statement enters the same, and is traced.",
        imports=("contextlib",) if null else (),
    )


def _is_stack(site: Site, block: cst.With) -> bool:
    return any(site.callee_name(item.item) == "contextlib.ExitStack" for item in block.items)


def _context_of(stack: str, line: cst.BaseStatement) -> cst.WithItem | None:
    """Return the `with` item for a statement that enters a context manager into an `ExitStack`.

    For `stack.enter_context(c)` it is `c`; under `if t:` it is `c if t else
    contextlib.nullcontext()`. `stack` is the variable's name. None for any other statement.
    """
    enter = m.Call(
        func=m.Attribute(value=m.Name(stack), attr=m.Name("enter_context")),
        args=[m.Arg(keyword=None)],
    )
    match line:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)]):
            return cst.WithItem(call.args[0].value) if m.matches(call, enter) else None
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name() as name)],
                    value=cst.Call() as call,
                )
            ]
        ):
            if m.matches(call, enter):
                return cst.WithItem(call.args[0].value, asname=cst.AsName(name))
        case cst.If(test=test, body=cst.IndentedBlock(body=[inner]), orelse=None):
            item = _context_of(stack, inner)
            if item is not None and item.asname is None:
                text = "{one} if {test} else contextlib.nullcontext()"
                return cst.WithItem(build_expression(text, one=item.item, test=test))
    return None


RULE = Rule("FG812", "nest-contexts", frozenset({Category.CONTEXT_MANAGER.value}), rewrite)
