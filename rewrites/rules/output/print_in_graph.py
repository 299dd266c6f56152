"""`print` becomes `torch._higher_order_ops.print`, a print that the graph holds.

torch.compile does not trace `print` with tensors. The operator takes a format string and prints
at its place in the graph, with the values of that moment, in both modes and under Inductor.

Before:

    print("loss", loss)
    print(f"{step}: {loss.item():.3f}")

After:

    torch._higher_order_ops.print("loss {loss!s}", loss=loss)
    torch._higher_order_ops.print("{step}: {loss:.3f}", step=step, loss=loss)

The text is the same: `print` shows a tensor of no dimension as `tensor(0.5)`, a format string as
`0.5`, so `!s` stands where that matters.

Unsafe where a tensor is shown that asks for a gradient, which a compiled program shows without
`grad_fn=`; on a GPU, where the print must not be captured in a CUDA graph; and in a file that has
to do with `torch.func.vmap`, which has no rule for this operator.

Not its business, and left to FG112: shapes, lists and other objects (the operator shows a shape as
a tuple, and Inductor fails on it), `end=`, `file=` and `flush=`, braces in a text, and texts made
before the call. On torch 2.10 Inductor fails on tensors here; FG112 works there, too.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.categories import Category as C
from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.source import string_literal as literal
from fullgraph.rewrites.transforms.branches.output import find_branch_refusal
from fullgraph.rewrites.transforms.outline import (
    call_of,
    find_outlining_refusal,
    observation_of,
    uses_function_transforms,
)

_REDUCTIONS = ("mean", "sum", "max", "min", "std", "var", "norm", "prod", "median")
_REDUCTION = m.Call(func=m.Attribute(attr=m.OneOf(*map(m.Name, _REDUCTIONS))), args=[])


def rewrite(site: Site) -> Rewrite | Refusal | None:
    statement = site.statement
    call = call_of(statement)
    if call is None or site.callee_name(call) not in ("print", "builtins.print"):
        return None
    text = FormatString(site)
    if not text.read_call(call) or not any(text.parts):
        return None
    if (refusal := find_outlining_refusal(site, statement)) is not None:
        return refusal
    if (refusal := find_branch_refusal(site, statement)) is not None:
        return refusal
    if uses_function_transforms(site.document):
        text.assumes.append("nothing runs it under `torch.func.vmap`")
    torch = site.document.torch
    new = build_expression(
        "{torch}._higher_order_ops.print({text}{values})",
        torch=torch,
        text=literal("".join(text.parts)),
        values="".join(f", {name}={code}" for name, code in text.values.items()),
    )
    return Rewrite(
        {call: new},
        "The graph prints the same text when its turn comes.",
        assumes=tuple(dict.fromkeys(text.assumes)),
        imports=("torch",),
        exempts=frozenset({"grad_fn"} if any("grad_fn=" in one for one in text.assumes) else ()),
    )


@dataclass
class FormatString:
    """The values that a `print` call writes, and the format string that makes its text of them."""

    site: Site
    parts: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    """Code of each value, by the keyword that the format string uses."""
    assumes: list[str] = field(default_factory=list)

    def read_call(self, call: cst.Call) -> bool:
        """Add the arguments of `print`; return whether a format string can express them all."""
        separator = " "
        shown = []
        for argument in call.args:
            if argument.star:
                return False
            if argument.keyword is None:
                shown.append(argument.value)
            elif (
                argument.keyword.value == "sep"
                and (text := _literal_text(argument.value)) is not None
            ):
                separator = text
            else:
                return False
        if "{" in separator or "}" in separator:
            return False
        for number, value in enumerate(shown):
            self.parts += [separator] if number else []
            if not self._add_argument(value):
                return False
        return True

    def _add_argument(self, value: cst.BaseExpression) -> bool:
        """Add one argument; return whether a format string can express it."""
        if (text := _literal_text(value)) is not None:
            self.parts.append(text)
            return "{" not in text and "}" not in text
        if isinstance(value, cst.FormattedString):
            return all(self._add_piece(piece) for piece in value.parts)
        return self._add_value(value, "", printed=True)

    def _add_piece(self, piece: cst.BaseFormattedStringContent) -> bool:
        """Add one piece of an f-string; return whether a format string can express it."""
        if isinstance(piece, cst.FormattedStringText):
            text = _literal_text(cst.SimpleString(f'"""{piece.value}"""')) if piece.value else ""
            self.parts.append(text or "")
            return text is not None and "{" not in text and "}" not in text
        assert isinstance(piece, cst.FormattedStringExpression)
        if piece.equal is not None:
            return False
        form = f"!{piece.conversion}" if piece.conversion else ""
        for part in piece.format_spec or ():
            if not isinstance(part, cst.FormattedStringText):
                return False
            form += part.value if ":" in form else f":{part.value}"
        return self._add_value(piece.expression, form, printed=False)

    def _add_value(self, value: cst.BaseExpression, form: str, *, printed: bool) -> bool:
        """Add one value; return whether the operator prints it as Python does.

        `form` is its conversion and format, such as ":.2f"; `printed` is False in an f-string.
        """
        if m.matches(value, m.Call(func=m.Attribute(attr=m.Name("item")), args=[])):
            value, printed = _receiver_of(value), False
            if form.startswith("!") or _dimensions_of(self.site, value) != {0}:
                return False
        dims = _dimensions_of(self.site, value)
        seen = observation_of(
            self.site, self.site.statement, _strip_reductions(value) if dims else value
        )
        if seen is None or not (dims or _is_plain(value, seen)):
            return False
        if dims:
            if any(one.kind != "Tensor" or one.layout != "strided" for one in seen.tensors):
                return False
            whole = dims != {0} or printed or form.startswith("!")
            form = "!s" if printed and 0 in dims else form
            if whole and seen.requires_grad:
                code = self.site.document.code(value)
                self.assumes.append(f"`{code}` may be shown without its `grad_fn=` when compiled")
            if any(one.device != "cpu" for one in seen.tensors):
                self.assumes.append("the compiled graph is not captured as a CUDA graph")
        self.parts.append(f"{{{self._keyword_for(value)}{form}}}")
        return True

    def _keyword_for(self, value: cst.BaseExpression) -> str:
        """Add a value under a new keyword made of its last name; return the keyword."""
        code = self.site.document.code(value)
        last = value.func if isinstance(value, cst.Call) else value
        last = last.attr if isinstance(last, cst.Attribute) else last
        stem = last.value if isinstance(last, cst.Name) else "value"
        stem = "value" if stem in ("format_str", "self") else stem
        name, number = stem, 2
        while self.values.get(name, code) != code:
            name, number = f"{stem}_{number}", number + 1
        self.values[name] = code
        return name


def _dimensions_of(site: Site, value: cst.BaseExpression) -> frozenset[int]:
    """Return the numbers of dimensions that `value`, a tensor, had in the run, such as {2}.

    Empty if it is not known to be a tensor. For an expression in an f-string the run records only
    variables; there, a reduction of a tensor, such as `x.mean()`, counts as 0-d.
    """
    seen = observation_of(site, site.statement, value)
    if seen is not None:
        return seen.dims if seen.is_tensor else frozenset()
    if m.matches(value, _REDUCTION) and _dimensions_of(site, _receiver_of(value)):
        return frozenset({0})
    return frozenset()


def _strip_reductions(value: cst.BaseExpression) -> cst.BaseExpression:
    """Return `x` for `x.mean().sum()`: the expression without the reductions called on it."""
    while m.matches(value, _REDUCTION):
        value = _receiver_of(value)
    return value


def _receiver_of(call: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression on which a method is called."""
    return cst.ensure_type(cst.ensure_type(call, cst.Call).func, cst.Attribute).value


def _is_plain(value: cst.BaseExpression, seen: ValueSummary) -> bool:
    """Return whether a printed value is a number, None, or a string that no call makes.

    `seen` is what the run recorded of it. A string counts if `value` is a variable, an attribute or
    a subscript.
    """
    if set(seen.types) <= {"str"}:
        return isinstance(value, cst.Name | cst.Attribute | cst.Subscript)
    return set(seen.types) <= {"int", "float", "bool", "NoneType"}


def _literal_text(node: cst.BaseExpression) -> str | None:
    """Return the text that `print` shows for a literal; None for other expressions."""
    try:
        value = ast.literal_eval(cst.Module([]).code_for_node(node))
    except (SyntaxError, ValueError):
        return None
    return str(value) if isinstance(value, str | int | float | None) else None


RULE = Rule(
    "FG111",
    "print-in-graph",
    frozenset({C.PRINT.value, C.TEXT.value, C.SCALAR.value}),
    rewrite,
)
