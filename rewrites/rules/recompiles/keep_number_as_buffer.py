"""A number that a module changes in `forward` becomes a buffer, which never recompiles.

Dynamo takes an int of a module as a constant and guards on it: each new value compiles the program
again, up to the recompile limit. A 0-d tensor is an input of the graph.

Before:

    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step

After:

    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(0), persistent=False)

    def forward(self, x):
        self.step = self.step + 1
        return x * self.step

What Python computed from the number is computed from the tensor: `min(1.0, self.step / 10)` becomes
`(self.step / 10).clamp(max=1.0)`.

In place, the update would change what the backward computes again: compiled by torch 2.13, the
gradients of `x * self.step` would be those of the next step. A number that is only counted is still
updated in place.

Always unsafe: other readers of the attribute get a 0-d tensor.
The proof runs on the live modules, with their numbers as buffers. `persistent=False` leaves
`state_dict()` as it was.

Refuses: attributes that `__init__` does not set to a number, or sets before `super().__init__()`,
and numbers that Python needs in each call, as `if self.step > 9` does.
"""

from __future__ import annotations

import libcst as cst
import torch

from fullgraph.rewrites.analysis import NotApplicable, Site, StateUses, find_state_uses, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Document, Replacement, build_statement, dotted_name
from fullgraph.rewrites.transforms.number_tensor import (
    rewrite_as_tensor,
    tensor_text,
    update_out_of_place,
)
from fullgraph.rewrites.transforms.scalars.scalar import Number
from fullgraph.rewrites.transforms.scalars.uses import Uses

_PYTHON = ("min", "max", "int", "float", "bool", "round", "range", "str", "print")
"""Functions of Python that make a number of a tensor."""


def rewrite(site: Site) -> Rewrite | Refusal | None:
    uses = find_state_uses(site.document, site.node)
    if uses is None or not uses.name.startswith("self."):
        return None
    document, name = site.document, uses.name
    value = None if uses.initial is None else _value_of(uses.initial, name)
    if uses.initial is None or not isinstance(value, cst.Integer | cst.Float):
        return Refusal(f"`__init__` does not set `{name}` to a number")
    if not uses.updates and not uses.writes:
        return Refusal(f"no method of the class changes `{name}`")
    if not _is_after_super_init(document, uses.initial):
        return Refusal(f"`{name}` is set before `super().__init__()`")
    tensor = tensor_text(document, value)
    register = build_statement(f'self.register_buffer("{name[5:]}", {tensor}, persistent=False)')
    replacements = _replace_assignment(document, uses.initial, name, register)
    reads = Uses(site)
    try:
        _write_reads(reads, uses, value)
    except NotApplicable as why:
        return Refusal(str(why))
    edited, in_place = reads.replacements(), False
    for write in uses.writes:
        if not isinstance(write, cst.Assign) or len(write.targets) != 1:
            return Refusal(f"`{name}` is written together with other variables")
        if dotted_name(write.targets[0].target) != name:
            return Refusal(f"`{name}` is written together with other variables")
        if any(dotted_name(one) == name for one in walk(write.value)):
            continue  # a tensor, too
        in_place, new = True, reads.with_edits(write.value)
        fill = build_statement(f"{name}.fill_({{value}})", value=new)
        assert isinstance(fill, cst.SimpleStatementLine)
        replacements[write] = fill.body[0]
        edited = {n: one for n, one in edited.items() if write not in document.ancestors(n)}
    replacements |= update_out_of_place(document, uses)
    return rewrite_as_tensor({**replacements, **edited}, name, *reads.assumes, in_place=in_place)


def _write_reads(reads: Uses, uses: StateUses, value: cst.Integer | cst.Float) -> None:
    """Edit the reads of a number that becomes a buffer where Python would read the tensor.

    `reads` takes the edits, and `value` is the literal that the number starts with. Reads of which
    too little is known stay as they are. Raises NotApplicable if Python needs the number itself.
    """
    document = reads.document
    kind, dtype = (int, torch.int64) if isinstance(value, cst.Integer) else (float, torch.float64)
    functions = {document.function(one) for one in (reads.site.node, *uses.updates, *uses.writes)}
    for read in uses.reads:
        if document.function(read) not in functions or not isinstance(read, cst.BaseExpression):
            continue
        edits = Uses(reads.site)
        try:
            edits.propagate(read, Number(kind, dtype, owns_memory=False))
        except NotApplicable:
            if reader := _python_reader(reads.site, read):
                raise NotApplicable(f"`{reader}` would read the tensor in each call") from None
            continue
        reads.texts |= edits.texts
        reads.others |= edits.others
        reads.assumes |= edits.assumes


def _python_reader(site: Site, node: cst.CSTNode) -> str:
    """Return the source of what makes a Python number of `node`, or of arithmetic with it.

    "" if nothing does: then a tensor is as good.
    """
    inner = node
    for outer in site.document.ancestors(node):
        match outer:
            case cst.Call() if isinstance(inner, cst.Arg):
                called = site.callee_name(outer)
                reads = called in _PYTHON or called.startswith("math.")
                return site.document.code(outer) if reads else ""
            case cst.If() | cst.While() | cst.IfExp() | cst.Assert():
                return site.document.code(outer.test) if outer.test is inner else ""
            case cst.FormattedStringExpression():
                return site.document.code(outer.expression)
            case cst.BaseStatement() | cst.BaseSmallStatement() | cst.Subscript():
                return ""
        inner = outer
    return ""


def _value_of(statement: cst.Assign | cst.AnnAssign, name: str) -> cst.BaseExpression | None:
    """Return the value that an assignment gives to `name`: `1` for "n" in `n, m = 1, 2`.

    None if the statement gives it no value, or has several targets, as `a = b = 1` has.
    """
    if isinstance(statement, cst.AnnAssign):
        return statement.value
    if len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    if isinstance(target, cst.Tuple) and isinstance(statement.value, cst.Tuple):
        pairs = zip(target.elements, statement.value.elements, strict=False)
        return next((v.value for t, v in pairs if dotted_name(t.value) == name), None)
    return statement.value


def _is_after_super_init(document: Document, statement: cst.CSTNode) -> bool:
    """Return whether a statement of `__init__` comes after the line `super().__init__()`.

    False if the statement is nested in a block, such as an `if`.
    """
    function, line = document.function(statement), document.statement(statement)
    block = function.body if isinstance(function, cst.FunctionDef) else None
    if not isinstance(block, cst.IndentedBlock) or line not in block.body:
        return False
    before = block.body[: list(block.body).index(line)]
    return any(".__init__(" in document.code(one) for one in before)


def _replace_assignment(
    document: Document,
    statement: cst.Assign | cst.AnnAssign,
    name: str,
    register: cst.BaseStatement,
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that replace the assignment to `name` by the statement `register`.

    Of `self.n, self.m = 1, 2` the assignment to `self.m` stays.
    """
    line = document.statement(statement)
    assert isinstance(register, cst.SimpleStatementLine)
    target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
    if not isinstance(target, cst.Tuple) or not isinstance(statement.value, cst.Tuple):
        return {statement: register.body[0]}
    pairs = list(zip(target.elements, statement.value.elements, strict=True))
    others = [(t, v) for t, v in pairs if dotted_name(t.value) != name]
    names = ", ".join(document.code(t.value) for t, _ in others)
    values = ", ".join(document.code(v.value) for _, v in others)
    kept = build_statement(f"{names} = {values}").with_changes(
        leading_lines=getattr(line, "leading_lines", ())
    )
    return {line: cst.FlattenSentinel([kept, register])}


RULE = Rule("FG852", "keep-number-as-buffer", frozenset({"recompile: number attribute"}), rewrite)
