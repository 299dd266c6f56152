"""Garbage collection and pauses are for eager alone.

Before:

    gc.collect()

After:

    if not torch.compiler.is_compiling():
        gc.collect()

Always unsafe: compiled, nothing is collected, and nothing waits. It changes no result.

Refuses nothing; calls whose result is used are not its business.
"""

from __future__ import annotations

import re

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule
from fullgraph.rewrites.transforms.eager_only import run_in_eager_only

_HOUSEKEEPING = re.compile(r"gc\.(collect|enable|disable|freeze)|time\.sleep")


def rewrite(site: Site) -> Rewrite | None:
    try:
        statement = site.statement
    except KeyError:
        return None
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call(func=callee))]):
            name = site.document.qualified_name(callee)
        case _:
            return None
    if not _HOUSEKEEPING.fullmatch(name):
        return None
    return Rewrite(
        {statement: run_in_eager_only(site.document, statement)},
        "The compiled program does without; eager code goes on as before.",
        Applicability.UNSAFE,
        (f"the compiled program can do without `{site.document.code(statement)}`",),
        imports=("torch",),
    )


_CATEGORIES = {
    Category.SKIPPED, Category.CALL, Category.SYSTEM, Category.CLOCK, Category.DEVICE,
    Category.C_EXTENSION, Category.NON_TENSOR, Category.SIDE_EFFECT, Category.BUILTIN,
    Category.INTROSPECTION, Category.OTHER, Category.OPERATOR_ERROR,
}  # fmt: skip
RULE = Rule("FG814", "guard-housekeeping", frozenset(c.value for c in _CATEGORIES), rewrite)
