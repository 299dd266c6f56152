"""A table that grows with the data is built in eager alone: compiled code reads it as it is.

Before:

    seq_len = position_ids.max() + 1
    if seq_len > self.max_seq_len_cached:
        self._set_cos_sin_cache(seq_len)
    cos = self.cos_cached[position_ids]

After:

    if not torch.compiler.is_compiling():
        seq_len = position_ids.max() + 1
        if seq_len > self.max_seq_len_cached:
            self._set_cos_sin_cache(seq_len)
    cos = self.cos_cached[position_ids]

Always unsafe: build the table for the longest sequence in `__init__`, or call the model with it
once before it is compiled. Compiled, an index beyond the table raises.

Refuses: tables that had to grow in the run; methods that do more than assign attributes; conditions
with `or`; and an `if` with an `else`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
    Site,
    assignment_targets,
    called_function,
    find_all,
    find_definitions,
    names_read,
    parameter_names,
    walk,
)
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement, dotted_name
from fullgraph.rewrites.transforms.eager_only import eager_and, run_in_eager_only

_ORDER = m.GreaterThan() | m.GreaterThanEqual() | m.LessThan() | m.LessThanEqual()
_ADVICE = (
    "the data decide how long {tables} must be: build {it} in `__init__` for the longest sequence, "
    "or call the model with it once before it is compiled"
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    node = _branch_around(site)
    tables = _tables_built(site, node) if node is not None else ()
    if node is None or not tables:
        return None
    names = " and ".join(f"`self.{one}`" for one in tables)
    advice = _ADVICE.format(tables=names, it="it" if len(tables) == 1 else "them")
    grew = any(site.observed(one) for one in find_all(node.body, m.Call()))
    if grew or any(isinstance(one, cst.Or) for one in walk(node.test)):
        return Refusal(advice, advises=True)
    document = site.document
    lines = list(_lines_for(site, node))
    edits: dict[cst.CSTNode, Replacement] = {}
    block = list(getattr(document.parent(node), "body", ()))
    if lines and block[: block.index(node)][-len(lines) :] == lines:
        first, *others = lines
        edits[first] = run_in_eager_only(document, first, *others, node)
        edits |= dict.fromkeys((*others, node), cst.RemoveFromParent())
    else:
        edits = {line: run_in_eager_only(document, line) for line in lines}
        edits[node.test] = eager_and(document, node.test)
    return Rewrite(
        edits,
        "The compiled program reads the table as it is; eager code lets it grow.",
        Applicability.UNSAFE,
        (f"{names} {'is' if len(tables) == 1 else 'are'} long enough when the model is compiled",),
        imports=("torch",),
    )


def _branch_around(site: Site) -> cst.If | None:
    """Return the `if` at a site, or the one that alone reads the number computed there."""
    for outer in (site.node, *site.document.ancestors(site.node)):
        if isinstance(outer, cst.If):
            return outer
        if isinstance(outer, cst.SimpleStatementLine):
            block = list(getattr(site.document.parent(outer), "body", ()))
            later = block[block.index(outer) + 1 :] if outer in block else []
            node = next((one for one in later if isinstance(one, cst.If)), None)
            return node if node is not None and outer in _lines_for(site, node) else None
    return None


def _tables_built(site: Site, node: cst.If) -> tuple[str, ...]:
    """Return the attributes of `self` that the only call in a branch builds for a larger number.

    () unless the branch compares a number with an attribute, which the method it calls sets to one
    of its arguments, and the method does nothing but assign.
    """
    match node:
        case cst.If(
            body=cst.IndentedBlock(
                body=[cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)])]
            ),
            orelse=None,
        ):
            method = called_function(site, call)
        case _:
            return ()
    if method is None or not dotted_name(call.func).startswith("self."):
        return ()
    limits = {
        path
        for one in find_all(node.test, m.Comparison(comparisons=[m.ComparisonTarget(_ORDER)]))
        for path in names_read(one)
        if path.startswith("self.")
    }
    built: dict[str, None] = {}
    is_limit = False
    for line in method.body.body:
        small = line.body if isinstance(line, cst.SimpleStatementLine) else [line]
        for one in small:
            match one:
                case cst.Assign(value=value) | cst.AnnAssign(value=cst.BaseExpression() as value):
                    for target in map(dotted_name, assignment_targets(one)):
                        if target in limits:
                            is_limit |= bool(names_read(value) & set(parameter_names(method)))
                        elif target.startswith("self."):
                            built[target.removeprefix("self.")] = None
                        elif not target:
                            return ()
                case cst.Expr(
                    value=cst.Call(
                        func=cst.Attribute(
                            value=cst.Name("self"), attr=cst.Name("register_buffer")
                        ),
                        args=[cst.Arg(value=cst.SimpleString() as name), *_],
                    )
                ):
                    built[str(name.evaluated_value)] = None
                case cst.Expr(value=cst.SimpleString()):
                    pass
                case _:
                    return ()
    return tuple(built) if is_limit else ()


def _lines_for(site: Site, node: cst.If) -> Iterator[cst.SimpleStatementLine]:
    """Yield the assignments before an `if` in its block of names that only the `if` reads."""
    known = find_definitions(site.document, node)
    block = list(getattr(site.document.parent(node), "body", ()))
    inside = set(walk(node))
    for line in block[: block.index(node)] if known is not None else ():
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)])]
            ) if known is not None:
                uses = known.uses(name)
                if uses and inside.issuperset(uses):
                    yield line


_CATEGORIES = (Category.BRANCH, Category.COMPARISON, Category.SCALAR, Category.GUARD)
RULE = Rule("FG816", "guard-growth", frozenset(one.value for one in _CATEGORIES), rewrite)
