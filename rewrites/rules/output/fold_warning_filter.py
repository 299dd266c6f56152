"""A filter of warnings is an argument of `catch_warnings`, which Dynamo traces, or for eager alone.

Before:

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = self.resize(x)
    warnings.filterwarnings("ignore", message="lossy")

After:

    with warnings.catch_warnings(action="ignore"):
        y = self.resize(x)
    if not torch.compiler.is_compiling():
        warnings.filterwarnings("ignore", message="lossy")

Safe in the first form if the project requires Python 3.11, which has the argument; else unsafe.
Unsafe in the second: compiled, the filter is not set.

Refuses nothing.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule
from fullgraph.rewrites.source import build_expression, required_python
from fullgraph.rewrites.transforms.eager_only import run_in_eager_only

_SINCE = (3, 11)
"""The version of Python in which `catch_warnings` got the arguments of a filter."""
_FILTERS = {f"warnings.{name}" for name in ("simplefilter", "filterwarnings", "resetwarnings")}


def rewrite(site: Site) -> Rewrite | None:
    document = site.document
    try:
        statement = site.statement
    except KeyError:
        return None
    call = _filter_call(site, statement)
    if call is None or not isinstance(statement, cst.SimpleStatementLine):
        return None
    block = document.parent(statement)
    outer = document.parent(block)
    known = _folded_arguments(site, call)
    if (
        known is not None
        and isinstance(outer, cst.With)
        and isinstance(block, cst.IndentedBlock)
        and block.body[0] is statement
        and len(block.body) > 1
        and len(outer.items) == 1
        and isinstance(context := outer.items[0].item, cst.Call)
        and site.document.qualified_name(context.func) == "warnings.catch_warnings"
        and not context.args
    ):
        text = f"{document.code(context.func)}({', '.join(known)})"
        is_known = (required_python(document.file) or (0, 0)) >= _SINCE
        return Rewrite(
            {context: build_expression(text), statement: cst.RemoveFromParent()},
            "Dynamo traces the filter as an argument of `catch_warnings`.",
            Applicability.SAFE if is_known else Applicability.UNSAFE,
            () if is_known else ("the code runs on Python 3.11 or newer alone",),
        )
    return Rewrite(
        {statement: run_in_eager_only(document, statement)},
        "The compiled program leaves the filter out; eager code sets it as before.",
        Applicability.UNSAFE,
        ("the compiled program warns of nothing that the filter hides",),
        imports=("torch",),
        exempts=frozenset({"records"}),
    )


def _filter_call(site: Site, statement: cst.CSTNode) -> cst.Call | None:
    """Return the call of a statement that only sets a warnings filter; None for others."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)]) if (
            site.document.qualified_name(call.func) in _FILTERS
        ):
            return call
    return None


def _folded_arguments(site: Site, call: cst.Call) -> list[str] | None:
    """Return the arguments with which `catch_warnings` itself sets the filter that `call` sets.

    For `simplefilter('ignore')` they are `["action='ignore'"]`. None if `catch_warnings` has no
    such arguments, for example for a filter with a `message`.
    """
    name = site.document.qualified_name(call.func).rpartition(".")[2]
    if name == "resetwarnings":
        return None
    names = ["action", "category"] if name == "simplefilter" else ["action", "message", "category"]
    found: dict[str, str] = {}
    for number, arg in enumerate(call.args):
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if arg.star or (not keyword and number >= len(names)):
            return None
        found[keyword or names[number]] = site.document.code(arg.value)
    if not found.keys() <= {"action", "category", "lineno", "append"} or "action" not in found:
        return None
    return [f"{name}={value}" for name, value in found.items()]


_CATEGORIES = {Category.WARNING, Category.SKIPPED, Category.CALL, Category.CONTEXT_MANAGER}
RULE = Rule("FG115", "fold-warning-filter", frozenset(c.value for c in _CATEGORIES), rewrite)
