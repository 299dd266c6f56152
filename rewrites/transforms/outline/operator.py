"""Definitions of custom operators that run statements, and the names of these operators.

`torch.compile` does not trace a `torch.library.custom_op`. One that returns nothing is dropped as
dead code unless it is marked: Inductor keeps what `torch.fx.has_side_effect` marks (seen on torch
2.13), but merges calls with the same arguments. An ordered effect keeps each call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path

import libcst as cst

from fullgraph.compiler.sources import cell_name
from fullgraph.rewrites.analysis import Site, walk
from fullgraph.rewrites.source import Document, Replacement, leading_lines
from fullgraph.rewrites.transforms.outline.free_variables import local_names

StatementPredicate = Callable[[Site, cst.CSTNode], bool]
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement

_OPERATOR = """\
@{torch}.library.custom_op("{space}::{path}", mutates_args=())
def {name}({signature}) -> None:
    pass


{name}.register_fake(lambda *args: None)
"""
KEPT_ONCE = """\
{torch}.fx.has_side_effect({torch}.ops.{space}.{path}.default)
"""
"""Code after an operator's definition: torch.compile keeps it, or an equal call in its place."""
KEPT_IN_ORDER = """\
if hasattr({name}, "register_effect"):  # torch 2.10
    {name}.register_effect({torch}.library.EffectType.ORDERED)
"""
"""Code after an operator's definition: torch.compile keeps each call, in program order."""


@dataclass(frozen=True)
class OperatorKind:
    """Operators that a rule makes of statements."""

    stem: str
    """First part of their names: "check"."""
    accepts: StatementPredicate
    """Whether a statement becomes such an operator."""
    mark: str
    """The code that keeps a call from being dropped."""
    stays_in_eager: StatementPredicate = lambda site, statement: False
    """Whether eager code keeps a statement, for which an operator would differ or cost more."""

    def name_operator(
        self, document: Document, statement: Statement, alike: Collection[Statement]
    ) -> str:
        """Return an unused name for the operator: "_check_mask", "_report_forward".

        `alike` are all statements of the file that become such operators: each gets its own name.
        """
        candidates = {one: tuple(self._names_for(document, one)) for one in {*alike, statement}}
        names = candidates[statement]
        for level, name in enumerate(names):
            same = [one for one, other in candidates.items() if other[level] == name]
            if len(same) == 1 and document.unused_name(name) == name:
                return name
        lines = sorted(document.position(one).line for one in same)
        numbered = [name, *(f"{name}_{n}" for n in range(2, 999))]
        used = [n for n, one in enumerate(numbered[:99], 1) if document.unused_name(one) != one]
        return numbered[max(used, default=0) + lines.index(document.position(statement).line)]

    def _names_for(self, document: Document, statement: Statement) -> Iterator[str]:
        """Yield four names for the operator of a statement, from the shortest."""
        function = document.function_name(statement).strip("_")
        owner = document.class_around(statement)
        inside = function
        if owner is not None:
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", owner.name.value).lower()
            inside = words if function == "forward" else f"{words}_{function}"
        subject = _subject_of(document, statement)
        yield f"_{self.stem}_{subject or function}"
        tested = "_".join(filter(None, (subject or function, _question_of(statement))))
        yield f"_{self.stem}_{tested}"
        yield f"_{self.stem}_{subject}_of_{function}" if subject else f"_{self.stem}_{inside}"
        yield f"_{self.stem}_{subject}_of_{inside}" if subject else f"_{self.stem}_{inside}"


def _question_of(statement: Statement) -> str:
    """Return the first name of a statement that asks something, such as "isnan"; "" without one."""
    names = (one.value for one in walk(statement) if isinstance(one, cst.Name))
    return next((one for one in names if re.fullmatch(r"is_?[a-z]+", one)), "")


def operator_path(document: Document, name: str) -> tuple[str, str] | None:
    """Return the namespace and the name of an operator in it: ("layers", "check_mask").

    In a package these are ("package", "layers_check_mask"). None if no namespace can have the name
    of the file.
    """
    name = name.strip("_")
    if cell_name(document.file) is not None:
        return "notebook", name
    file = Path(document.file)
    packages = [*takewhile(lambda one: (one / "__init__.py").is_file(), file.parents)]
    stem = file.stem.strip("_")
    space, path = (packages[-1].name, f"{stem}_{name}") if packages else (stem, name)
    return (space, path) if space.isidentifier() and path.isidentifier() else None


def define_operator(
    document: Document, kind: OperatorKind, name: str, signature: str, body: Sequence[Statement]
) -> list[cst.BaseStatement]:
    """Return the statements that define the operator `name`, whose body is `body`."""
    torch = document.torch
    path = operator_path(document, name)
    assert path is not None
    text = (_OPERATOR + kind.mark).format(
        torch=torch,
        name=name,
        signature=signature.replace("torch.", f"{torch}."),
        space=path[0],
        path=path[1],
    )
    parsed = cst.parse_module(text, document.module.config_for_parsing).body
    operator = cst.ensure_type(parsed[0], cst.FunctionDef)
    inner = cst.IndentedBlock([body[0].with_changes(leading_lines=()), *body[1:]])
    return [set_apart(operator.with_changes(body=inner)), *parsed[1:]]


def set_apart(definition: Statement) -> Statement:
    """Return a statement preceded by two empty lines, and by its comments."""
    empty = cst.EmptyLine(indent=False)
    comments = dropwhile(lambda line: line.comment is None, definition.leading_lines)
    return definition.with_changes(leading_lines=(empty, empty, *comments))


def insert_after(
    document: Document,
    anchor: cst.CSTNode,
    definitions: Sequence[cst.CSTNode],
    edits: dict[cst.CSTNode, Replacement],
) -> dict[cst.CSTNode, Replacement]:
    """Return `edits` with definitions after `anchor`, a statement of the file's top level.

    They come after those that `edits` has there.
    """
    known = edits.get(anchor)
    before = known.nodes if isinstance(known, cst.FlattenSentinel) else [anchor]
    new = {**edits, anchor: cst.FlattenSentinel([*before, *definitions])}
    after = next((two for one, two in pairwise(document.module.body) if one is anchor), None)
    if isinstance(after, cst.SimpleStatementLine):
        new.setdefault(after, set_apart(after))
    return new


def chain_of(document: Document, statement: Statement) -> list[Statement]:
    """Return the `if` and each `elif` down to the `elif` that is `statement`; others alone."""
    chain = [statement]
    while isinstance(around := document.parent(chain[0]), cst.If) and around.orelse is chain[0]:
        chain.insert(0, around)
    return chain


def replace_in_chain(
    document: Document, statement: cst.CSTNode, lines: Sequence[cst.BaseStatement]
) -> Replacement:
    """Return `lines` as the replacement of a statement, which may be an `elif`.

    An `elif` becomes an `else`, unless a single `if` takes its place.
    """
    first, *others = lines
    around = document.parent(statement)
    if isinstance(around, cst.If) and around.orelse is statement:
        if isinstance(first, cst.If) and not others:
            return first
        above, first = leading_lines(first), first.with_changes(leading_lines=())
        return cst.Else(cst.IndentedBlock([first, *others]), leading_lines=above)
    return cst.FlattenSentinel(lines) if others else first


def _subject_of(document: Document, statement: Statement) -> str:
    """Return what the condition of a check reads first: "mask" for `mask.any()`; "" if unknown."""
    match statement:
        case cst.If(test=test) | cst.SimpleStatementLine([cst.Assert(test=test)]):
            pass
        case _:
            return ""
    known = local_names(document, statement)
    for one in walk(test):
        if isinstance(one, cst.Name) and one.value in known:
            around = document.parent(one)
            if one.value == "self" and isinstance(around, cst.Attribute):
                return around.attr.value.strip("_")
            return one.value.strip("_")
    return ""
