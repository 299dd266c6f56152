"""Time is measured in eager alone: a graph has no clock.

Before:

    start = time.time()
    x = self.stage(x)
    self.seconds += time.time() - start

After:

    if not torch.compiler.is_compiling():
        start = time.time()
    x = self.stage(x)
    if not torch.compiler.is_compiling():
        self.seconds += time.time() - start

Times under one key of a dictionary, `self.stats["time"].append(…)`, are kept apart from what is
under others.

Always unsafe: compiled, no time is measured. Measure around the compiled call.

Refuses: times that anything else reads, such as a condition or a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    assignment_targets,
    names_bound,
    walk,
)
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement, dotted_name
from fullgraph.rewrites.transforms.eager_only import run_in_eager_only
from fullgraph.rewrites.transforms.outline import is_output_statement

_CLOCK = re.compile(
    r"time\.(time|perf_counter|monotonic|process_time|thread_time)(_ns)?"
    r"|datetime\.datetime\.(now|utcnow|today)"
)
_Statement = cst.SimpleStatementLine | cst.If


def rewrite(site: Site) -> Rewrite | Refusal | None:
    if not any(_reads_clock(site, one) for one in walk(site.node)):
        return None
    function = site.document.function(site.node)
    if not isinstance(function, cst.FunctionDef):
        return None
    try:
        timed = _timed_statements(site, function)
    except NotApplicable as error:
        return Refusal(str(error))
    changed = {name for one in timed for name in _names_changed(one)}
    state = {name.partition("[")[0].rpartition(".")[2] for name in changed if "." in name}
    return Rewrite(
        _guard_statements(site, timed),
        "The compiled program measures no time; eager code does as before.",
        Applicability.UNSAFE,
        ("nobody needs times from inside the compiled program",),
        imports=("torch",),
        exempts=frozenset({"text", "records", *(f"state of {name}" for name in state)}),
    )


def _guard_statements(site: Site, timed: list[_Statement]) -> dict[cst.CSTNode, Replacement]:
    """Return the edits after which the statements `timed` run in eager only.

    Each edit puts a statement, and those directly after it, under one `if` on `is_compiling()`.
    """
    groups: list[list[_Statement]] = []
    for one in timed:
        block = site.document.parent(one)
        body = list(getattr(block, "body", ()))
        before = body[body.index(one) - 1] if one in body[1:] else None
        if groups and before is groups[-1][-1] and not one.leading_lines:
            groups[-1].append(one)
        else:
            groups.append([one])
    edits: dict[cst.CSTNode, Replacement] = {}
    for first, *others in groups:
        edits[first] = run_in_eager_only(site.document, first, *others)
        edits |= {one: cst.RemoveFromParent() for one in others}
    return edits


def _reads_clock(site: Site, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and bool(
        _CLOCK.fullmatch(site.document.qualified_name(node.func))
    )


def _timed_statements(site: Site, function: cst.FunctionDef) -> list[_Statement]:
    """Return the statements of a function that only measure, store or print times.

    Raises NotApplicable if another statement uses a time, or a variable holds more than times.
    """
    lines = list(_statements(site, function.body))
    timed: list[_Statement] = []
    times: set[str] = set()
    while new := [
        one
        for one in lines
        if one not in timed
        and any(
            _reads_time(site, inner, times)
            for inner in walk(one)
            if not isinstance(site.document.parents.get(inner), cst.AssignTarget)
        )
    ]:
        for one in new:
            if not _only_records_time(site, one):
                raise NotApplicable("more than a statistic or a message reads the time")
            timed.append(one)
            times |= _names_changed(one)
    bound_elsewhere = {name for one in lines if one not in timed for name in names_bound(one)}
    if bound_elsewhere & {name for one in timed for name in names_bound(one) if "." not in name}:
        raise NotApplicable("a variable holds more than times")
    inside = {inner for one in timed for inner in walk(one)}
    for node in walk(function.body):
        if _reads_time(site, node, times) and node not in inside:
            raise NotApplicable("more than a statistic or a message reads the time")
    return sorted(timed, key=lines.index)


def _statements(site: Site, node: cst.CSTNode) -> Iterator[_Statement]:
    """Yield the statements of one line each inside a node, at any depth.

    An `if` that only writes output is yielded whole, as one statement.
    """
    for child in node.children:
        output = isinstance(child, cst.If) and is_output_statement(site, child)
        if isinstance(child, cst.SimpleStatementLine) or (output and isinstance(child, cst.If)):
            yield child
        else:
            yield from _statements(site, child)


def _reads_time(site: Site, node: cst.CSTNode, times: set[str]) -> bool:
    """Return whether a node reads a clock, or one of `times` or a container of it."""
    if not isinstance(node, cst.Name | cst.Attribute):
        return _reads_clock(site, node)
    path, parent = dotted_name(node), site.document.parents.get(node)
    if isinstance(parent, cst.Attribute) and parent.attr is node:
        return False
    if isinstance(parent, cst.Subscript) and parent.value is node and _key(parent):
        return path in times or _path(parent) in times
    return path in times or any(one.startswith(f"{path}[") for one in times)


def _names_changed(line: _Statement) -> set[str]:
    """Return what a statement assigns or mutates, such as "t", "self.times" and "stats['t']"."""
    if isinstance(line, cst.If):
        return set()
    changed = list(_targets(line))
    match line.body[0]:
        case cst.Expr(value=cst.Call(func=cst.Attribute(value=kept, attr=cst.Name("append")))):
            changed.append(kept)
    return {_path(one) for one in changed}


def _targets(line: cst.SimpleStatementLine) -> tuple[cst.BaseExpression, ...]:
    return tuple(target for one in line.body for target in assignment_targets(one))


def _path(target: cst.BaseExpression) -> str:
    """Return "self.t" for `self.t[0]`, and "self.t['a']" for `self.t["a"]` and `self.t["a"][0]`.

    "" for other expressions.
    """
    key = ""
    while isinstance(target, cst.Subscript):
        key, target = _key(target), target.value
    path = dotted_name(target)
    return f"{path}[{key}]" if path and key else path


def _key(node: cst.Subscript) -> str:
    """Return the literal string that is the only index of a subscript; "" if there is none."""
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() as key))]:
            return repr(key.evaluated_value)
    return ""


def _only_records_time(site: Site, line: _Statement) -> bool:
    """Return whether a statement does nothing but assign, append or print a time."""
    if isinstance(line, cst.If):
        return True
    if len(line.body) != 1 or is_output_statement(site, line):
        return len(line.body) == 1
    match line.body[0]:
        case cst.Assign(value=value) | cst.AugAssign(value=value) if all(
            map(_path, _targets(line))
        ):
            return _is_time(site, value)
        case cst.Expr(
            value=cst.Call(
                func=cst.Attribute(value=kept, attr=cst.Name("append")), args=[cst.Arg(value=value)]
            )
        ):
            return bool(_path(kept)) and _is_time(site, value)
    return False


def _is_time(site: Site, value: cst.BaseExpression) -> bool:
    """Return whether an expression has no tensor and no call but those that read a clock.

    `time.time() - start` is such an expression.
    """
    return all(
        _reads_clock(site, one)
        for one in walk(value)
        if isinstance(one, cst.Call | cst.Await | cst.Yield | cst.NamedExpr | cst.Lambda)
    ) and not any(site.is_tensor(one) for one in walk(value))


_CATEGORIES = {Category.CLOCK, Category.SKIPPED, Category.CALL}
RULE = Rule("FG116", "guard-clock", frozenset(c.value for c in _CATEGORIES), rewrite)
