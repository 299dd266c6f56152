"""Check whether one tensor can take the place of either of two values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import (
    LAYERS_WITHOUT_PARAMETERS,
    NotApplicable,
    Site,
    class_of,
    infer,
    names_bound,
)
from fullgraph.rewrites.rule import Rewrite
from fullgraph.rewrites.source import Document, Replacement, dotted_name
from fullgraph.rewrites.transforms.subgraphs import keep_out_of_eager

_CONVERSIONS = frozenset({"float", "double", "half", "bfloat16", "long", "int", "bool"})
_NUMBER = "a tensor may take the place of"


@dataclass
class Agreement:
    """Checks that one `torch.where` can select between two values; collects the assumptions."""

    site: Site
    assumes: dict[str, None] = field(default_factory=dict)
    known: dict[cst.CSTNode, ValueSummary] = field(default_factory=dict)
    """Observed values of expressions that the edit creates."""
    arithmetic: bool = False
    """Whether the values are only operands of tensor operations, where a number may be a tensor."""

    def check_pair(
        self, one: cst.BaseExpression, other: cst.BaseExpression, *, numbers: bool = True
    ) -> None:
        """Check that two values have the same type, dtype and shape; assume what is unknown.

        `numbers` says whether a Python number may become a tensor. Raises NotApplicable if the
        values certainly differ.
        """
        a, b = (self.known.get(when) or infer(self.site, when) for when in (one, other))
        texts = [self.text(one), self.text(other)]
        if numbers:
            a, b = (self._as_tensor_facts(s, t) for s, t in zip((a, b), texts, strict=True))
        for seen, text in zip((a, b), texts, strict=True):
            if seen is not None and not seen.is_tensor and not (numbers and seen.is_number):
                raise NotApplicable(f"{text} is no tensor")
        if a is None or b is None:
            unknown, known = (texts[0], texts[1]) if a is None else (texts[1], texts[0])
            self.assumes[f"{unknown} has the dtype and shape of {known}"] = None
        elif a.is_tensor and b.is_tensor:
            self._check_tensors(a, b, texts)
            if _names_dtype(one) is not _names_dtype(other):
                self.assumes[_same("dtype", texts)] = None
        elif a.is_number and b.is_number:
            if a.types != b.types:
                self.assumes[f"{texts[0]} and {texts[1]} may be of one type"] = None
            if not self.arithmetic:
                clause = f"{_NUMBER} {texts[0]} and {texts[1]}"
                self.assumes[clause] = None
        else:
            number, tensor = (0, 1) if a.is_number else (1, 0)
            shapes = (a, b)[tensor].shapes
            if shapes != {()}:
                raise NotApplicable(
                    f"{texts[number]} is a number and {texts[tensor]} has dimensions"
                )
            if not self.arithmetic:
                self.assumes[f"{_NUMBER} {texts[number]}"] = None

    def _as_tensor_facts(self, seen: ValueSummary | None, text: str) -> ValueSummary | None:
        """Return the facts of a value that was sometimes a number and sometimes a 0-d tensor.

        They become those of a tensor, with an assumption: `loss = 0` before a loop, a tensor in it.
        `text` is the source of the value. Other facts are returned unchanged.
        """
        if seen is None or seen.dims != {0} or seen.is_tensor:
            return seen
        kinds = {one for one in seen.types if "Tensor" not in one and "Parameter" not in one}
        if not kinds <= {"int", "float"} or not all(one.is_float for one in seen.tensors):
            return seen
        self.assumes[f"{_NUMBER} {text}"] = None
        return replace(seen, types=("torch.Tensor",), values=())

    def assume_zero_gradients(
        self,
        one: Sequence[cst.CSTNode],
        other: Sequence[cst.CSTNode],
        local: Collection[str] = (),
    ) -> None:
        """Assume that a zero gradient is acceptable for tensors that only one branch uses.

        Not for the names `local`, which a branch assigns.
        """
        sides = [used_names(when) for when in (one, other)]
        for path in sorted((sides[0].keys() ^ sides[1].keys()) - {*local}):
            node = sides[0].get(path) or sides[1][path]
            others = sides[path in sides[0]].keys() - {"self"}
            shared = any(f"{one}.".startswith(f"{path}.") for one in others)  # `x.sum` uses `x`
            if not shared and self.may_require_grad(node):
                clause = f"`{path}` may get a gradient of zero where it got none"
                self.assumes[clause] = None

    def may_require_grad(self, node: cst.BaseExpression) -> bool:
        """Return whether an expression may require grad, or is a layer whose parameters may."""
        parent = self.site.document.parents.get(node)
        if isinstance(parent, cst.Call) and parent.func is node:
            kind = class_of(self.site, node).rpartition(".")[2]
            return bool(kind) and not (kind in LAYERS_WITHOUT_PARAMETERS or kind.startswith("_"))
        seen = infer(self.site, node)
        return seen is not None and seen.requires_grad

    def _check_tensors(self, a: ValueSummary, b: ValueSummary, texts: list[str]) -> None:
        """Raise NotApplicable for different dtypes or shapes; add an assumption where unknown."""
        for what, x, y in (("dtype", a.dtypes, b.dtypes), ("shape", a.shapes, b.shapes)):
            if len(x) == len(y) == 1 and x != y:
                (p,), (q,) = x, y
                raise NotApplicable(f"{texts[0]} has {what} {p} and {texts[1]} has {what} {q}")
            if x != y or len(x) > 1:
                self.assumes[_same(what, texts)] = None
        if a.requires_grad != b.requires_grad:
            constant = texts[0] if b.requires_grad else texts[1]
            self.assumes[f"the result may ask for a gradient where {constant} does not"] = None

    def text(self, node: cst.BaseExpression) -> str:
        """Return the source of a value, shortened for messages."""
        code = " ".join(cst.Module([]).code_for_node(node).split())
        return f"`{code}`" if len(code) <= 40 else f"`{code[:37]}…`"


def _same(what: str, texts: Sequence[str]) -> str:
    return f"{texts[0]} and {texts[1]} have the same {what}"


def _names_dtype(node: cst.BaseExpression) -> bool:
    """Return whether code says the dtype of its result, whatever it is given: `x.float()`."""
    if not isinstance(node, cst.Call):
        return False
    called = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    named = any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in node.args)
    return named or (isinstance(called, cst.Name) and called.value in _CONVERSIONS)


def rewrite_assuming(
    document: Document,
    replacements: Mapping[cst.CSTNode, Replacement],
    why: str,
    assumes: Iterable[str],
    tests: Iterable[cst.BaseExpression] = (),
    *,
    numbers: bool = True,
    has_shortcut: bool = False,
) -> Rewrite:
    """Return a rewrite that imports torch; it is unsafe if there are any assumptions.

    `why` explains the rewrite to the user, and `assumes` are the assumptions. `tests` are the
    conditions that the rewrite replaces: the proof has to reach both branches of each. `numbers` is
    False if callers cannot see that a number became a tensor. `has_shortcut`: see `Rewrite`.
    """
    clauses = tuple(assumes)
    rewrite = Rewrite(
        replacements,
        why,
        assumes=clauses,
        imports=("torch",),
        tests=tuple(tests),
        numbers=numbers and any(clause.startswith(_NUMBER) for clause in clauses),
        has_shortcut=has_shortcut,
    )
    return keep_out_of_eager(document, rewrite)


def used_names(
    branch: Sequence[cst.CSTNode], skip_bound: bool = True
) -> dict[str, cst.BaseExpression]:
    """Return the names that a branch uses, each with a node that reads it.

    {"x": …, "self.eps": …} for `y = x * self.eps`. `skip_bound` leaves out names that the branch
    binds.
    """
    without = set(names_bound(*branch)) if skip_bound else ()
    return {
        dotted_name(n): n
        for node in branch
        for n in _variables_in(node)
        if dotted_name(n) not in without
    }


def _variables_in(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the variables and attribute paths in a node: `a.b.c` as a whole, not also `a.b`."""
    if isinstance(node, cst.Name | cst.Attribute) and dotted_name(node):
        yield node
        return
    for child in node.children:
        yield from _variables_in(child)
