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
        self.step += 1
        return x * self.step

Always unsafe: other readers of the attribute get a 0-d tensor, which the update changes in place.
The proof runs on the live modules, with their numbers as buffers. `persistent=False` leaves
`state_dict()` as it was.

Refuses: attributes that `__init__` does not set to a number, or sets before `super().__init__()`.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.analysis import Site, find_state_uses
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Document, Replacement, build_statement, dotted_name
from fullgraph.rewrites.transforms.number_tensor import rewrite_as_tensor, tensor_text


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
    for write in uses.writes:
        if not isinstance(write, cst.Assign) or len(write.targets) != 1:
            return Refusal(f"`{name}` is written together with other variables")
        if dotted_name(write.targets[0].target) != name:
            return Refusal(f"`{name}` is written together with other variables")
        fill = build_statement(f"{name}.fill_({{value}})", value=write.value)
        assert isinstance(fill, cst.SimpleStatementLine)
        replacements[write] = fill.body[0]
    return rewrite_as_tensor(replacements, name)


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
