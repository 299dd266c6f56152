"""Output that a compiled program can do without is kept for eager alone.

torch.compile does not trace loggers, not even a `logger.debug` whose level is too low, nor
`warnings.warn`. `torch.compiler.is_compiling()` is a constant for it, and the branch goes away.

Before:

    logger.warning_once("no mask was given")
    if h.isnan().any() and not self.warned:
        warnings.warn("NaN")
        self.warned = True
    self.history.append(h.norm().item())

After:

    if not torch.compiler.is_compiling():
        logger.warning_once("no mask was given")
    if not torch.compiler.is_compiling() and h.isnan().any() and not self.warned:
        warnings.warn("NaN")
        self.warned = True
    if not torch.compiler.is_compiling():
        self.history.append(h.norm().item())

Always unsafe: compiled, nothing is written, whatever the level, and nothing is recorded. FG111 and
FG112 keep the text.

Refuses: statements that do more than write, and append to lists or set flags that the function
reads elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from fullgraph.rewrites.analysis import Site, walk
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.rules.output.outline_output import WRITTEN
from fullgraph.rewrites.source import Document, dotted_name
from fullgraph.rewrites.transforms.eager_only import eager_and, run_in_eager_only
from fullgraph.rewrites.transforms.outline import (
    Statement,
    find_outlined_statement,
    find_outlining_refusal,
    is_output_statement,
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    statement = find_outlined_statement(site, _is_output_or_record)
    if statement is None:
        return None
    records = frozenset(_records_in(site, statement))
    if (refusal := find_outlining_refusal(site, statement, records)) is not None:
        return refusal
    needed = [f"`{name}` of calls to the compiled program" for name in sorted(records)]
    if is_output_statement(site, statement) or not records:
        needed = ["this output from the compiled program"]
    return Rewrite(
        _only_eager(site.document, statement),
        "The compiled program leaves this out; eager code runs it as before.",
        Applicability.UNSAFE,
        tuple(f"nobody needs {one}" for one in needed),
        imports=("torch",),
        exempts=frozenset({"text", "records", *(f"state of {name[5:]}" for name in records)}),
    )


def _only_eager(document: Document, statement: Statement) -> dict[cst.CSTNode, cst.CSTNode]:
    """Return the edits by which a statement runs in eager only.

    The condition of an `if` that contains nothing else becomes part of the new one.
    """
    if isinstance(statement, cst.If) and statement.orelse is None:
        return {statement.test: eager_and(document, statement.test)}
    block = document.parent(statement)
    around = document.parent(block) if isinstance(block, cst.IndentedBlock) else None
    if isinstance(around, cst.If) and around.orelse is None and len(around.body.body) == 1:
        return {around.test: eager_and(document, around.test, last=True)}
    return {statement: run_in_eager_only(document, statement)}


def _is_output_or_record(site: Site, statement: cst.CSTNode) -> bool:
    """Return whether a statement only writes output and records, also under `if`s."""
    records = _records_in(site, statement)
    return is_output_statement(site, statement, lambda line: _record_of(site, line) in records)


def _records_in(site: Site, statement: cst.CSTNode) -> set[str]:
    """Return the attributes of `self` in which a statement records what only it reads.

    These are lists to which it appends and, beside output, flags that it sets.
    """
    own = set(walk(statement))
    found = {name for line in own if (name := _record_of(site, line))}
    return {name for name in found if _is_used_only_in(site, name, statement, own)}


def _record_of(site: Site, line: cst.CSTNode) -> str:
    """Return "self.seen" for `self.seen.append(…)` and `self.seen = True`; "" for other lines.

    A flag counts only in a block that also writes output.
    """
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Expr(cst.Call(cst.Attribute(value=target, attr=cst.Name("append"))))]
        ):
            pass
        case cst.SimpleStatementLine(
            body=[cst.Assign([cst.AssignTarget(target)], cst.Name("True" | "False"))]
        ):
            block = site.document.parents.get(line)
            if not any(is_output_statement(site, one) for one in getattr(block, "body", ())):
                return ""
        case _:
            return ""
    name = dotted_name(target)
    return name if name.startswith("self.") and name.count(".") == 1 else ""


def _is_used_only_in(
    site: Site, name: str, statement: cst.CSTNode, own: Collection[cst.CSTNode]
) -> bool:
    """Return whether the function of `statement` uses `name` in no other statement.

    `own` are the nodes of `statement`.
    """
    function = site.document.function(statement)
    uses = [one for one in walk(function) if dotted_name(one) == name] if function else []
    return bool(uses) and all(one in own for one in uses)


RULE = Rule("FG113", "guard-output", WRITTEN, rewrite)
