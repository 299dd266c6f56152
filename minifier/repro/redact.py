"""Replace the names, strings and numbers of a script that the failure does not need."""

from __future__ import annotations

import base64
import builtins
import itertools
import keyword
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import torch
from libcst import matchers as m

from fullgraph.minifier.emit.literals import literal

StillFails = Callable[[str], bool]
"""Returns whether a text fails in the same way as the script."""

_KEPT = frozenset(
    {
        *("self", "cls", "ctx", "forward", "backward", "setup_context", "args", "kwargs"),
        *("inputs", "expected", "got", "compiled", "model", "build"),
    }
)
"""Names that reveal nothing about the user, or that torch requires."""
_VOCABULARY = (builtins, torch, torch.Tensor, torch.nn, torch.nn.Module, torch.nn.functional)
"""Objects whose attributes are names that reveal nothing."""
_LISTED = 4
"""Number of elements up to which a tensor counts as no secret."""
_DIGITS = 3
"""Number of digits up to which a number counts as no secret."""


@dataclass(frozen=True)
class _Change:
    """A replacement of one name, string or value, in the whole script."""

    kind: str
    """One of "name", "string", "value"."""
    old: str
    new: str


def redact(text: str, still_fails: StillFails) -> str:
    """Return `text` with as many names, strings and numbers replaced as the failure permits.

    All names are replaced first; if `still_fails` says no, half of them, and so on; then strings,
    then numbers. Comments are removed, except the first line, which names the versions.
    """
    current = _without_comments(text)
    if current != text and not still_fails(current):
        return text
    for changes in (_new_names, _new_strings, _new_values):
        current = _apply_most(current, list(changes(current)), still_fails)
    return current


def _apply_most(text: str, changes: Sequence[_Change], still_fails: StillFails) -> str:
    """Return `text` after as many of `changes` as the failure permits."""
    if not changes:
        return text
    tried = _apply_changes(text, changes)
    if tried == text or still_fails(tried):
        return tried
    if len(changes) == 1:
        return text
    half = len(changes) // 2
    return _apply_most(_apply_most(text, changes[:half], still_fails), changes[half:], still_fails)


def _apply_changes(text: str, changes: Sequence[_Change]) -> str:
    """Return `text` after all of `changes`."""
    new = {kind: {c.old: c.new for c in changes if c.kind == kind} for kind in _KINDS}
    return cst.parse_module(text).visit(_Changer(**new)).code


_KINDS = ("name", "string", "value")


class _Changer(cst.CSTTransformer):
    """Transformer that applies changes to names, strings and values."""

    def __init__(
        self, name: Mapping[str, str], string: Mapping[str, str], value: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._name, self._string, self._value = name, string, value

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        return self._new_value(original_node, updated_node)

    def visit_ImportAlias(self, node: cst.ImportAlias) -> bool:
        return False

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        new = self._name.get(original_node.value)
        return updated_node if new is None else updated_node.with_changes(value=new)

    def leave_SimpleString(
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.SimpleString:
        new = self._string.get(original_node.value)
        return updated_node if new is None else updated_node.with_changes(value=new)

    def leave_Float(self, original_node: cst.Float, updated_node: cst.Float) -> cst.BaseExpression:
        return self._new_value(original_node, updated_node)

    def _new_value(
        self, original: cst.BaseExpression, updated: cst.BaseExpression
    ) -> cst.BaseExpression:
        """Return the new expression for `original`; `updated` if it has none."""
        new = self._value.get(_code_of(original)) if self._value else None
        return updated if new is None else cst.parse_expression(new)


def _code_of(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


_TEXT = m.SimpleStatementLine([m.Expr(m.SimpleString() | m.ConcatenatedString())])
"""Matches a docstring."""


def _without_comments(text: str) -> str:
    """Return source without comments and docstrings, except the first line."""

    class Remover(cst.CSTTransformer):
        """Transformer that removes comments."""

        def leave_EmptyLine(
            self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
        ) -> cst.EmptyLine | cst.RemovalSentinel:
            return updated_node if original_node.comment is None else cst.RemoveFromParent()

        def leave_TrailingWhitespace(
            self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
        ) -> cst.TrailingWhitespace:
            plain = cst.SimpleWhitespace("")
            return updated_node.with_changes(comment=None, whitespace=plain)

        def leave_IndentedBlock(
            self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
        ) -> cst.IndentedBlock:
            body = [line for line in updated_node.body if not m.matches(line, _TEXT)]
            return updated_node.with_changes(body=body or [cst.parse_statement("pass")])

    first, _, rest = text.partition("\n")
    if not first.startswith("#"):
        first, rest = "", text
    body = cst.parse_module(rest).visit(Remover()).code
    return f"{first}\n{body}" if first else body


# --- names ---


def _new_names(text: str) -> Iterator[_Change]:
    """Yield new names for the script's own names, such as `x1` for `customer_ids`."""
    module = cst.parse_module(text)
    finder = _Definitions()
    module.visit(finder)
    found = {name: kind for name, kind in finder.defined.items() if name not in finder.foreign}
    taken = {node.value for node in m.findall(module, m.Name()) if isinstance(node, cst.Name)}
    free = {
        kind: _unused_names(kind, taken) for kind in ("function", "class", "attribute", "variable")
    }
    for name, kind in found.items():
        if not _is_plain(name):
            yield _Change("name", name, next(free[kind]))


def _is_plain(name: str) -> bool:
    """Return whether a name is so general that it reveals nothing about the user."""
    if name in _KEPT or name.startswith("__") or re.fullmatch(r"_|[a-zA-Z]\d?", name):
        return True
    return any(hasattr(thing, name) for thing in _VOCABULARY)


def _unused_names(kind: str, taken: set[str]) -> Iterator[str]:
    """Yield unused names for a kind of definition: f1, M1, a1, x1."""
    start = {"function": "f", "class": "M", "attribute": "a", "variable": "x"}[kind]
    for number in itertools.count(1):
        name = f"{start}{number}"
        if name not in taken and not keyword.iskeyword(name):
            taken.add(name)
            yield name


class _Definitions(cst.CSTVisitor):
    """Visitor that collects the names that a script binds, and the names that other code knows."""

    def __init__(self) -> None:
        super().__init__()
        self.defined: dict[str, str] = {}
        """Kind of each name that the script binds: "function", "class", "attribute", "variable"."""
        self.foreign: set[str] = set()
        """Names that must not change, because code outside the script uses them."""

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.defined.setdefault(node.name.value, "function")

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.defined.setdefault(node.name.value, "class")

    def visit_Param(self, node: cst.Param) -> None:
        self.defined.setdefault(node.name.value, "variable")

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._add_target(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._add_target(node.target)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._add_target(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._add_target(node.target)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self._add_target(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._add_target(node.name)

    def visit_ImportAlias(self, node: cst.ImportAlias) -> bool:
        self.foreign |= {n.value for n in m.findall(node, m.Name()) if isinstance(n, cst.Name)}
        return False

    def leave_Module(self, original_node: cst.Module) -> None:
        """Add the keywords with which functions of other code are called to the foreign names."""
        for call in m.findall(original_node, m.Call()):
            assert isinstance(call, cst.Call)
            name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
            if not (isinstance(name, cst.Name) and name.value in self.defined):
                self.foreign |= {arg.keyword.value for arg in call.args if arg.keyword is not None}

    def visit_Global(self, node: cst.Global) -> None:
        self.foreign |= {item.name.value for item in node.names}

    def _add_target(self, target: cst.BaseExpression) -> None:
        """Add the names and attributes that an assignment target binds."""
        if isinstance(target, cst.Name):
            self.defined.setdefault(target.value, "variable")
        elif isinstance(target, cst.Attribute) and m.matches(target.value, m.Name("self")):
            self.defined.setdefault(target.attr.value, "attribute")
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self._add_target(element.value)
        elif isinstance(target, cst.StarredElement):
            self._add_target(target.value)


# --- strings and numbers ---


def _new_strings(text: str) -> Iterator[_Change]:
    """Yield a letter in place of each string that has no meaning for torch and is no data."""
    module = cst.parse_module(text)
    kept = {
        _code_of(arg.value)
        for call in m.findall(module, m.Call())
        if isinstance(call, cst.Call) and _is_of_torch(call.func)
        for arg in call.args
    }
    letters = (f'"{letter}"' for letter in itertools.chain("abcdefghijklmnopqrstuvwxyz"))
    seen: set[str] = set()
    for node in m.findall(module, m.SimpleString()):
        assert isinstance(node, cst.SimpleString)
        content = node.evaluated_value
        if node.value in kept | seen or len(content) < 2:
            continue
        seen.add(node.value)
        prefix = "b" if isinstance(content, bytes) else ""
        new = next(letters, None)
        if new is not None:
            yield _Change("string", node.value, prefix + new)


def _is_of_torch(function: cst.BaseExpression) -> bool:
    """Return whether strings passed to `function` mean something to torch, as "cpu" does."""
    if not isinstance(function, cst.Attribute):
        return False
    root: cst.BaseExpression = function
    while isinstance(root, cst.Attribute):
        root = root.value
    known = isinstance(root, cst.Name) and root.value in ("torch", "F", "nn", "np", "base64")
    return known or hasattr(torch.Tensor, function.attr.value)


def _new_values(text: str) -> Iterator[_Change]:
    """Yield plain tensors in place of tensors with data, and short numbers: `0.1` for `0.1234`."""
    module = cst.parse_module(text)
    inside: set[str] = set()
    for node in m.findall(module, m.Call(func=m.Attribute(value=m.Name("torch")))):
        code = _code_of(node)
        if code.startswith(("torch.tensor(", "torch.frombuffer(")) and code not in inside:
            plain = _plain_tensor_like(code)
            if plain is not None:
                inside |= {_code_of(number) for number in m.findall(node, m.Float())}
                yield _Change("value", code, plain)
    for node in m.findall(module, m.Float()):
        code = _code_of(node)
        short = f"{float(code):.1g}"
        if code not in inside and len(code.strip("-0.").replace(".", "")) > _DIGITS:
            yield _Change("value", code, short if "." in short or "e" in short else f"{short}.0")


def _plain_tensor_like(code: str) -> str | None:
    """Return source for a tensor of 0, 1, 2, … with the shape and dtype of the tensor `code`.

    `code` is source. None if it gives no tensor, or one of few elements.
    """
    try:
        tensor = eval(code, {"torch": torch, "base64": base64, "zlib": zlib})
    except Exception:  # names of the script's own
        return None
    if not isinstance(tensor, torch.Tensor) or tensor.numel() <= _LISTED:
        return None
    steps = torch.arange(tensor.numel()).reshape(tensor.shape)
    return literal((steps if tensor.dtype != torch.bool else steps % 2).to(tensor.dtype))
