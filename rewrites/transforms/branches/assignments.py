"""What the branches of an `if` assign, as values that `torch.where` can choose between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    infer,
    is_tensor,
    may_raise,
    names_bound,
    names_read,
    side_effect_of,
    walk,
)
from fullgraph.rewrites.source import (
    Replacement,
    build_statement,
    dotted_name,
    parenthesize,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches.own_tensors import updates_own_tensor

RETURN = "return"
"""Key of the function's result among the values that a branch assigns."""
APPEND = ".append()"
"""Suffix of the key of a list to which a branch appends: `values.append()`."""
ITEM = "]"
"""Suffix of the key of a dict's item, which is its source: `results["loss"]`."""


@dataclass
class BranchValues:
    """Values that the names assigned in one branch have at its end."""

    values: dict[str, cst.BaseExpression] = field(default_factory=dict)
    """The final value of each name, in terms of the values before the branch and `local_lines`."""
    local_lines: list[cst.BaseStatement] = field(default_factory=list)
    """Assignments to names that only this branch uses; they are to run unconditionally."""


def values_assigned(
    site: Site, body: Sequence[cst.CSTNode], read_later: frozenset[str]
) -> BranchValues:
    """Return the values that the statements of a branch assign.

    `read_later` are the names that code after the branch reads. Raises NotApplicable if a statement
    does more than assign.
    """
    made = BranchValues()
    for line in body:
        if not isinstance(line, cst.SimpleStatementLine):
            raise NotApplicable(f"there is `{_first_line(site, line)}` in the branch")
        for small in line.body:
            _add_small_statement(site, made, line, small, read_later)
    holders = Counter(
        key.removesuffix(APPEND).partition("[")[0]
        for key in made.values
        if key.endswith((APPEND, ITEM))
    )
    uses = [one.value for line in body for one in walk(line) if isinstance(one, cst.Name)]
    if again := sorted(name for name, stores in holders.items() if uses.count(name) > stores):
        appends = f"{again[0]}{APPEND}" in made.values
        done = "to which it appends" if appends else "of which it sets an item"
        raise NotApplicable(f"the branch uses `{again[0]}`, {done}")
    return BranchValues(made.values, _drop_unread(site, made))


def _drop_unread(site: Site, made: BranchValues) -> list[cst.BaseStatement]:
    """Return `made.local_lines` without assignments to names that are never read.

    `local_lines` are assignments to names that only the branch uses. Those that have a side effect
    or may raise are kept.
    """
    kept: list[cst.BaseStatement] = []
    for line in reversed(made.local_lines):
        read = names_read(*kept, *made.values.values()).intersection(names_bound(line))
        if read or side_effect_of(site, line) or may_raise(site, line):
            kept.insert(0, line)
    return kept


def statements_of(suite: cst.BaseSuite) -> Sequence[cst.BaseStatement]:
    """Return the statements of a block, or those after the colon of `if t: y = 1`."""
    if isinstance(suite, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine([small]) for small in suite.body]
    return cst.ensure_type(suite, cst.IndentedBlock).body


def _add_small_statement(
    site: Site,
    made: BranchValues,
    line: cst.SimpleStatementLine,
    small: cst.BaseSmallStatement,
    read_later: frozenset[str],
) -> None:
    """Add to `made` the values that `small`, one simple statement of the line `line`, assigns.

    `read_later` are the names that code after the branch reads. Raises NotApplicable if the
    statement does more than assign.
    """
    match small:
        case cst.Pass():
            return
        case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()):
            return
        case cst.Expr(value=cst.Call() as call) if name := _appended_list(site, call):
            value = _fill_in_values(site, made, call.args[0].value)
            made.values[f"{name}{APPEND}"] = value
        case cst.Return():
            made.values[RETURN] = _fill_in_values(site, made, small.value or cst.Name("None"))
        case cst.Assign() if own := updates_own_tensor(site, small, made.local_lines):
            if names_read(*made.values.values()) & set(names_bound(*made.local_lines)):
                raise NotApplicable(f"the branch uses `{own}` before it changes it in place")
            _add_local_line(made, line, small)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=elements))]) if (
            not isinstance(small.value, cst.Tuple)
            and all(isinstance(one.value, cst.Name) for one in elements)
        ):
            if read_later.intersection(names_bound(small)):
                _add_unpacked(site, made, small)
            elif shared := set(names_bound(small)) & names_read(*made.values.values()):
                raise NotApplicable(f"the branch assigns to `{min(shared)}` twice")
            else:
                _add_local_line(made, line, small)
        case cst.Assign(targets=[target]):
            _add_assignment(site, made, line, target.target, small.value, read_later)
        case cst.Assign(targets=targets) if read_later.issuperset(
            names_bound(small)
        ) and not names_read(small.value) & {*names_bound(small)}:
            for target in targets:
                _add_assignment(site, made, line, target.target, small.value, read_later)
        case cst.AnnAssign(value=cst.BaseExpression() as value):
            _add_assignment(site, made, line, small.target, value, read_later)
        case cst.AugAssign():
            if is_tensor(site, small.target) is not False:
                raise NotApplicable(f"`{site.document.code(small)}` changes a tensor in place")
            operator = OPERATORS.get(type(small.operator))
            if operator is None or not dotted_name(small.target):
                raise NotApplicable(f"`{site.document.code(small)}` is no assignment of a value")
            value = cst.BinaryOperation(small.target, operator(), small.value)
            made.values[dotted_name(small.target)] = _fill_in_values(site, made, value)
        case _:
            raise NotApplicable(f"`{site.document.code(small)}` in the branch is no assignment")


def _add_local_line(
    made: BranchValues, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement
) -> None:
    """Add a statement that runs unconditionally.

    Raises NotApplicable if it reads what the branch assigned, which has no name until its end.
    """
    if known := names_read(small) & made.values.keys():
        raise NotApplicable(f"the branch uses `{min(known)}`, which it has just assigned")
    whole = len(line.body) == 1
    made.local_lines.append(line if whole else cst.SimpleStatementLine([small]))


def _add_unpacked(site: Site, made: BranchValues, small: cst.Assign) -> None:
    """Add `new_h, new_c = f(x)` to the local lines, and `new_h` as the value of `h`."""
    value = _fill_in_values(site, made, small.value)
    target = small.targets[0]
    names: dict[str, str] = {}
    renamed: dict[cst.CSTNode, Replacement] = {}
    for one in walk(target):
        if isinstance(one, cst.Name):
            stems = f"new_{one.value}", f"other_{one.value}"
            names[one.value] = site.document.unused_local(small, *stems)
            renamed[one] = cst.Name(names[one.value])
    new = cst.Assign([cst.ensure_type(replace_nodes(target, renamed), cst.AssignTarget)], value)
    made.local_lines.append(cst.SimpleStatementLine([new]))
    made.values |= {old: cst.Name(name) for old, name in names.items()}


def _appended_list(site: Site, call: cst.Call) -> str:
    """Return the name of the local list to which a call appends one value; "" for other calls."""
    match call:
        case cst.Call(
            func=cst.Attribute(value=cst.Name() as name, attr=cst.Name("append")),
            args=[cst.Arg(keyword=None, star="")],
        ):
            seen = infer(site, name)
            return name.value if seen is not None and seen.types == ("list",) else ""
    return ""


def _item_of_dict(site: Site, target: cst.BaseExpression) -> str:
    """Return the source of `target` if it is `name["key"]` and `name` is a dict; else ""."""
    match target:
        case cst.Subscript(
            value=cst.Name() as name,
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString(), star=None))],
        ):
            seen = infer(site, name)
            plain = seen is not None and seen.types == ("dict",)
            return site.document.code(target.with_changes(lpar=(), rpar=())) if plain else ""
    return ""


def _add_assignment(
    site: Site,
    made: BranchValues,
    line: cst.SimpleStatementLine,
    target: cst.BaseExpression,
    value: cst.BaseExpression,
    read_later: frozenset[str],
) -> None:
    """Add to `made` the values that an assignment in `line` assigns; tuples element by element.

    `read_later` are the names that code after the branch reads. Adds an assignment to any other
    name to `made.local_lines` instead. Raises NotApplicable for targets that are neither a name, an
    attribute nor an item of a dict.
    """
    if (
        isinstance(target, cst.Tuple)
        and isinstance(value, cst.Tuple)
        and len(target.elements) == len(value.elements)
    ):
        found = [_fill_in_values(site, made, element.value) for element in value.elements]
        for element, one in zip(target.elements, found, strict=True):
            if not dotted_name(element.value):
                raise NotApplicable(f"the branch assigns to `{site.document.code(element)}`")
            made.values[dotted_name(element.value)] = one
        return
    item = _item_of_dict(site, target)
    path = dotted_name(target) or item
    if not path:
        raise NotApplicable(f"the branch assigns to `{site.document.code(target)}`")
    if item or path in read_later:
        made.values[path] = _fill_in_values(site, made, value)
        return
    if set(names_bound(*(one for one in made.local_lines))) & {path}:
        raise NotApplicable(f"the branch assigns to `{path}` twice")
    filled = _fill_in_values(site, made, value)
    if filled is value and len(line.body) == 1:
        made.local_lines.append(line)
    else:
        made.local_lines.append(build_statement("{target} = {value}", target=path, value=filled))


def _fill_in_values(
    site: Site, made: BranchValues, value: cst.BaseExpression
) -> cst.BaseExpression:
    """Return `value` with names that the branch already assigned replaced by their values.

    `y + 1` → `(2 * x) + 1` after `y = 2 * x`. Raises NotApplicable if `value` has such a name
    twice.
    """
    known = names_read(value) & made.values.keys()
    if not known:
        return value
    places = [one for one in walk(value) if dotted_name(one) in known]
    if len({dotted_name(one) for one in places}) < len(places):
        raise NotApplicable("the branch uses a value several times that it has just assigned")
    edits = {one: parenthesize(made.values[dotted_name(one)]) for one in places}
    if not edits:
        return value.with_changes()
    # nodes without such a name stay the same objects, by which their facts are found
    return replace_nodes(value, edits, lambda node: not edits.keys().isdisjoint(walk(node)))


def require_once(
    assigned: Iterable[cst.BaseExpression], made: Iterable[cst.BaseExpression]
) -> None:
    """Raise NotApplicable if a value that `a = b = f(x)` assigns twice would be computed twice.

    `assigned` are the values of the branches, and `made` the selections of them.
    """
    nodes = Counter(node for one in made for node in walk(one))
    if any(nodes[one] > 1 and isinstance(one, cst.Call | cst.BinaryOperation) for one in assigned):
        raise NotApplicable("what it assigns to several names would be computed several times")


def make_assignments(values: dict[str, cst.BaseExpression]) -> list[cst.BaseStatement]:
    """Return the assignment of each value to the name that is its key.

    One statement `a, b = b, a` if a value depends on a name assigned before it. Raises
    NotApplicable if such a value would also have to be appended to a list or stored in a dict.
    """
    if RETURN in values:
        return [build_statement("return {v}", v=values[RETURN])]
    changed = [key for key, value in values.items() if dotted_name(value) != key]
    tangled = any(
        changed[i] in names_read(values[later])
        for i in range(len(changed))
        for later in changed[i + 1 :]
    )
    if tangled and any(key.endswith((APPEND, ITEM)) for key in changed):
        raise NotApplicable("what it adds depends on what it assigns")
    if tangled:
        parts = {f"v{i}": values[key] for i, key in enumerate(changed)}
        right = ", ".join(f"{{{part}}}" for part in parts)
        return [build_statement(f"{', '.join(changed)} = {right}", **parts)]
    return [
        build_statement(f"{key.removesuffix(APPEND)}.append({{v}})", v=values[key])
        if key.endswith(APPEND)
        else build_statement("{k} = {v}", k=key, v=values[key])
        for key in changed
    ]


def _first_line(site: Site, node: cst.CSTNode) -> str:
    return site.document.code(node).partition("\n")[0]


OPERATORS: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
    cst.DivideAssign: cst.Divide,
    cst.FloorDivideAssign: cst.FloorDivide,
    cst.PowerAssign: cst.Power,
}
