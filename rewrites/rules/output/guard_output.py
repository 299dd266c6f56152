"""Output that a compiled program can do without is kept for eager alone.

torch.compile does not trace loggers, not even a `logger.debug` whose level is too low, nor
`warnings.warn`. `torch.compiler.is_compiling()` is a constant for it, and the branch goes away.

Before:

    logger.warning_once("no mask was given")
    if h.isnan().any():
        warnings.warn("NaN")

After:

    if not torch.compiler.is_compiling():
        logger.warning_once("no mask was given")
    if not torch.compiler.is_compiling() and h.isnan().any():
        warnings.warn("NaN")

Always unsafe: compiled, nothing is written, whatever the level. FG112 keeps the text.

Refuses: statements that do more than write.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.rules.output.outline_output import WRITTEN
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.eager_only import eager_condition, run_in_eager_only
from fullgraph.rewrites.transforms.outline import (
    find_outlined_statement,
    find_outlining_refusal,
    is_output_statement,
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    statement = find_outlined_statement(site, is_output_statement)
    if statement is None:
        return None
    if (refusal := find_outlining_refusal(site, statement)) is not None:
        return refusal
    document = site.document
    if isinstance(statement, cst.If) and statement.orelse is None:
        test = build_expression(f"{eager_condition(document)} and {{test}}", test=statement.test)
        return _only_eager({statement.test: test})
    return _only_eager({statement: run_in_eager_only(document, statement)})


def _only_eager(replacements: dict[cst.CSTNode, cst.CSTNode]) -> Rewrite:
    """Return a rewrite with the edits `replacements`, which make output statements eager-only.

    It is unsafe: it assumes that nobody needs the output of the compiled program.
    """
    return Rewrite(
        replacements,
        "The compiled program leaves the output out; eager code writes it as before.",
        Applicability.UNSAFE,
        ("nobody needs this output from the compiled program",),
        imports=("torch",),
        exempts=frozenset({"text", "records"}),
    )


RULE = Rule("FG113", "guard-output", WRITTEN, rewrite)
