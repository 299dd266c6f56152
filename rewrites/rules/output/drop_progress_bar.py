"""A progress bar is a side effect that no graph has: compiled code takes its iterable alone.

Before:

    for i in trange(self.steps, leave=False):
        x = self.step(x, i)

    with tqdm(total=len(blocks)) as bar:
        for block in blocks:
            x = block(x)
            bar.update(1)

After:

    iterations = range(self.steps)
    if not torch.compiler.is_compiling():
        iterations = trange(self.steps, leave=False)
    for i in iterations:
        x = self.step(x, i)

    for block in blocks:
        x = block(x)

Always unsafe: no progress is shown when compiled, and where the bar has a name, in eager neither.
Show it around the compiled call.

Refuses: bars of which more is used than what they show, and arguments that are unpacked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, walk
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    build_statement,
    dotted_name,
    inline_block,
    replace_nodes,
)
from fullgraph.rewrites.transforms.eager_only import compiling_condition, run_in_eager_only

_BAR = re.compile(
    r"tqdm\.(\w+\.)*(tqdm|trange|tqdm_notebook|tnrange)|rich\.progress\.track|tqdm\.(\w+\.)*std\.tqdm"
)
_SHOWN = {
    "update", "set_description", "set_description_str", "set_postfix", "set_postfix_str", "refresh",
    "close", "write", "reset", "clear", "display",
}  # fmt: skip
_ITERABLE = {"iterable", "sequence"}


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = _find_bar(site)
    if call is None:
        return None
    try:
        edits = _drop_bar(site, call)
    except NotApplicable as error:
        return Refusal(str(error))
    return Rewrite(
        edits,
        "Compiled code runs over the same elements without a progress bar.",
        Applicability.UNSAFE,
        ("no progress is shown",),
        imports=() if call not in edits else ("torch",),
    )


def _find_bar(site: Site) -> cst.Call | None:
    """Return the call that creates a progress bar which the code at the site uses.

    This includes the header of a loop or `with` around the site: `for x in tqdm(xs):`. None if no
    progress bar is found.
    """
    if not any(name in site.document.text for name in ("tqdm", "rich")):
        return None
    function = site.document.function(site.node)
    assigned = _assigned_bars(site, function) if isinstance(function, cst.FunctionDef) else {}
    for one in (site.node, *site.document.ancestors(site.node)):
        heads: Sequence[cst.CSTNode] = (one,)
        if isinstance(one, cst.For):
            heads = (one.iter,)
        elif isinstance(one, cst.With):
            heads = one.items
        elif isinstance(one, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            return None
        elif isinstance(one, cst.BaseCompoundStatement):
            continue
        for node in (inner for head in heads for inner in walk(head)):
            if isinstance(node, cst.Call) and _BAR.fullmatch(_callee(site, node)):
                return node
            if isinstance(node, cst.Name) and node.value in assigned:
                return assigned[node.value]
    return None


def _callee(site: Site, call: cst.Call) -> str:
    return site.document.qualified_name(call.func)


def _assigned_bars(site: Site, function: cst.FunctionDef) -> dict[str, cst.Call]:
    """Return the calls that create progress bars, by the name of the variable for the bar.

    If a variable is assigned several bars, the first one counts.
    """
    found: dict[str, cst.Call] = {}
    for one in walk(function):
        match one:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(value=bound))], value=cst.Call() as call
            ) if _BAR.fullmatch(_callee(site, call)):
                found.setdefault(bound, call)
    return found


def _drop_bar(site: Site, call: cst.Call) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that remove the progress bar that `call` creates.

    Raises NotApplicable if the code needs it for more than iteration and display.
    """
    document, parent = site.document, site.document.parent(call)
    iterable = _iterable_of(site, call)
    if isinstance(parent, cst.WithItem):
        block = document.parent(parent)
        assert isinstance(block, cst.With)
        if len(block.items) > 1:
            raise NotApplicable("the block enters more than that")
        name = parent.asname.name if parent.asname is not None else None
        uses = _edits_of_uses(site, call, name, iterable)
        if not isinstance(block.body, cst.IndentedBlock):
            raise NotApplicable("the block is on the line of its `with`")
        kept = [one for one in block.body.body if uses.get(one) is not cst.RemoveFromParent()]
        if not kept:
            raise NotApplicable("nothing would be left of its block")
        return {block: inline_block(block, [replace_nodes(one, uses) for one in kept])}
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        uses = _edits_of_uses(site, call, parent.targets[0].target, iterable)
        return {document.statement(parent): cst.RemoveFromParent(), **uses}
    if iterable is None:
        raise NotApplicable("it has no iterable")
    if isinstance(parent, cst.For) and isinstance(document.parent(parent), cst.IndentedBlock):
        return {parent: cst.FlattenSentinel(_choose_before(site, parent, call, iterable))}
    text = f"{{values}} if {compiling_condition(document)} else {{bar}}"
    return {call: build_expression(text, values=iterable, bar=call)}


def _choose_before(
    site: Site, loop: cst.For, call: cst.Call, iterable: cst.BaseExpression
) -> list[cst.BaseStatement]:
    """Return the loop after lines that choose what it runs over, with the bar in eager code."""
    name = site.document.unused_local(loop, "iterations")
    bar = call.with_changes(
        args=[
            arg.with_changes(value=cst.Name(name)) if arg.value is iterable else arg
            for arg in call.args
        ]
    )
    value = iterable
    if isinstance(iterable, cst.GeneratorExp) and not iterable.lpar:
        value = iterable.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    plain = build_statement(f"{name} = {{v}}", v=value)
    shown = run_in_eager_only(site.document, build_statement(f"{name} = {{v}}", v=bar))
    new = loop.with_changes(iter=cst.Name(name), leading_lines=())
    return [plain.with_changes(leading_lines=loop.leading_lines), shown, new]


def _iterable_of(site: Site, call: cst.Call) -> cst.BaseExpression | None:
    """Return the iterable of a progress bar: `xs` for `tqdm(xs)`, `range(n)` for `trange(n)`.

    None if the call has no iterable. Raises NotApplicable if it has starred arguments.
    """
    if any(arg.star for arg in call.args):
        raise NotApplicable("its arguments are unpacked")
    if _callee(site, call).rpartition(".")[2] in ("trange", "tnrange"):
        bounds = [arg.value for arg in call.args if arg.keyword is None]
        names = {f"bound{number}": bound for number, bound in enumerate(bounds)}
        return build_expression(f"range({', '.join(f'{{{name}}}' for name in names)})", **names)
    for number, arg in enumerate(call.args):
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if keyword in _ITERABLE or (number == 0 and not keyword):
            return arg.value
    return None


def _edits_of_uses(
    site: Site, call: cst.Call, name: cst.BaseExpression | None, iterable: cst.BaseExpression | None
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits of all uses of a progress bar, with which the bar can be removed.

    `name` is the variable that holds the bar (None if there is none), `iterable` what the bar
    iterates over. Raises NotApplicable if a use does more than iterate or change the display.
    """
    if name is None:
        return {}
    function = site.document.function(call)
    if not isinstance(name, cst.Name) or not isinstance(function, cst.FunctionDef):
        raise NotApplicable("it is kept in more than a variable")
    edits: dict[cst.CSTNode, Replacement] = {}
    for use in walk(function):
        if not isinstance(use, cst.Name) or use.value != name.value or use is name:
            continue
        parent = site.document.parent(use)
        if isinstance(parent, cst.For) and parent.iter is use and iterable is not None:
            edits[use] = iterable
            continue
        statement = site.document.statement(use)
        if isinstance(parent, cst.Attribute) and parent.attr is use:
            continue
        if not _only_shows(statement, name.value):
            raise NotApplicable("more than its display is used")
        block = site.document.parent(statement)
        alone = isinstance(block, cst.IndentedBlock) and all(
            _only_shows(one, name.value) for one in block.body
        )
        if alone and not isinstance(site.document.parent(block), cst.With):
            outer = site.document.parent(block)
            if not isinstance(outer, cst.If) or outer.orelse is not None:
                raise NotApplicable("nothing would be left of its block")
            edits[outer] = cst.RemoveFromParent()
        else:
            edits[statement] = cst.RemoveFromParent()
    if len([one for one in edits if isinstance(one, cst.Name)]) > 1:
        raise NotApplicable("more than one loop runs over it")
    return edits


def _only_shows(statement: cst.CSTNode, name: str) -> bool:
    """Return whether a statement only calls a method that changes the bar's display."""
    match statement:
        case cst.SimpleStatementLine(
            body=[cst.Expr(value=cst.Call(func=cst.Attribute(value=bar, attr=method)))]
        ):
            return dotted_name(bar) == name and method.value in _SHOWN
    return False


_CATEGORIES = {
    Category.PRINT, Category.CALL, Category.SKIPPED, Category.ITERATOR, Category.LOOP,
    Category.CONTEXT_MANAGER, Category.SCALAR, Category.OBJECT, Category.BUILTIN,
    Category.THREAD, Category.CLOCK, Category.EXCEPTION, Category.OTHER, Category.SIDE_EFFECT,
}  # fmt: skip
RULE = Rule("FG114", "drop-progress-bar", frozenset(c.value for c in _CATEGORIES), rewrite)
