"""`.item()`, `int(t)` and `float(t)` take a number out of a tensor, and the graph ends there.

In arithmetic a tensor without dimensions does the same, inside the graph.

Before:

    loss = loss / max(1, mask.sum().item())
    scale = float(x.abs().max())
    y = y * (scale + 1e-6)
    self.stats["sum"] = x.sum().item()

After:

    loss = loss / mask.sum().clamp(min=1)
    scale = x.abs().max().detach()
    y = y * (scale + 1e-6)
    self.stats["sum"] = x.sum().detach()

A number carries no gradient, so a floating-point tensor is detached. Unsafe where the number is
kept or returned, because whoever reads it finds a tensor, and where a number is divided by it,
because a tensor gives inf where Python raises ZeroDivisionError.

Refuses: numbers that become sizes, indices, text, keys or the test of a branch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.rewrites.build import expression
from fullgraph.rewrites.facts.definitions import definitions
from fullgraph.rewrites.facts.seen import Seen
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.site import Site

_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power, cst.Modulo)
_MATH = re.compile(r"math\.(sqrt|exp|log|log2|log10|log1p|sin|cos|tan|tanh|ceil|floor|trunc|fabs)")
_TAKES = frozenset({"where", "masked_fill", "mul", "div", "add", "sub", "maximum", "minimum"})
_KEPT = "whoever reads the number that is kept can do with a tensor"
_RETURNED = "the caller can do with a tensor in place of the number"
_DIVIDES = "nothing is divided by zero, which would raise for numbers"


class No(Exception):
    """The number is used in a way that a tensor cannot be; the message is a clause."""


@dataclass
class _Change:
    """What becomes of the uses of a number."""

    site: Site
    replacements: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)
    assumes: dict[str, None] = field(default_factory=dict)

    def absorb(self, node: cst.BaseExpression, new: cst.BaseExpression) -> None:
        """Let `new`, a tensor, stand for the number at `node`. Raises No."""
        parent = self.site.document.parent(node)
        match parent:
            case cst.BinaryOperation() if isinstance(parent.operator, _ARITHMETIC):
                other = parent.right if parent.left is node else parent.left
                if self._is_tensor(other):
                    self.replacements[node] = new
                    return
                if isinstance(parent.operator, cst.Divide) and parent.right is node:
                    self.assumes[_DIVIDES] = None
                side = "left" if parent.left is node else "right"
                self.absorb(parent, parent.with_changes(**{side: new}))
            case cst.UnaryOperation(operator=cst.Minus()):
                self.absorb(parent, parent.with_changes(expression=new))
            case cst.Comparison() if self._is_tensor(parent.comparisons[0].comparator):
                self.replacements[node] = new
            case cst.ComparisonTarget():
                comparison = self.site.document.parent(parent)
                assert isinstance(comparison, cst.Comparison)
                if not self._is_tensor(comparison.left) or len(comparison.comparisons) > 1:
                    raise No("the number is compared with another")
                self.replacements[node] = new
            case cst.Arg(star=""):
                call = self.site.document.parent(parent)
                assert isinstance(call, cst.Call)
                self._argument(call, parent, new)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
                self.replacements[node] = new
                self._uses(name)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() | cst.Subscript())]):
                self.replacements[node] = new
                self.assumes[_KEPT] = None
            case cst.AugAssign(target=target) if self._is_tensor(target):
                self.replacements[node] = new
            case cst.Return():
                self.replacements[node] = new
                self.assumes[_RETURNED] = None
            case cst.Element() | cst.DictElement():
                self._element(parent, node, new)
            case _:
                raise No("a tensor cannot stand where the number is used")

    def _argument(self, call: cst.Call, arg: cst.Arg, new: cst.BaseExpression) -> None:
        called = self.site.calls(call)
        others = [one.value for one in call.args if one is not arg]
        if arg.keyword is None and self._takes_tensor(call, others):
            self.replacements[arg.value] = new
        elif arg.keyword is not None:
            raise No(f"`{arg.keyword.value}=` may need a number")
        elif called in ("max", "min") and len(others) == 1 and self._is_number(others[0]):
            bound = "min" if called == "max" else "max"
            clamped = expression(f"{{new}}.clamp({bound}={{other}})", new=new, other=others[0])
            self.absorb(call, clamped)
        elif called == "float" and not others:
            self.absorb(call, new)
        elif _MATH.fullmatch(called) and not others:
            name = {"fabs": "abs"}.get(called[5:], called[5:])
            self.absorb(call, expression(f"{{new}}.{name}()", new=new))
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "append":
            self.replacements[arg.value] = new
            self.assumes[_KEPT] = None
        else:
            raise No(f"`{self.site.document.code(call.func)}` may need a number")

    def _takes_tensor(self, call: cst.Call, others: list[cst.BaseExpression]) -> bool:
        """Whether a tensor operation takes a tensor without dimensions for a number."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _TAKES:
            return False
        return self._is_tensor(call.func.value) or any(map(self._is_tensor, others))

    def _element(self, parent: cst.CSTNode, node: cst.CSTNode, new: cst.BaseExpression) -> None:
        if isinstance(parent, cst.DictElement) and parent.key is node:
            raise No("the number is a key")
        for around in self.site.document.around(parent):
            if isinstance(around, cst.Return):
                self.replacements[node] = new
                self.assumes[_RETURNED] = None
                return
            if not isinstance(around, cst.Tuple | cst.List | cst.Dict | cst.BaseElement):
                break
        raise No("the number goes into a container")

    def _uses(self, name: cst.Name) -> None:
        """Every use of a name that now is a tensor must be able to do with one."""
        known = definitions(self.site.document, name)
        if known is None:
            raise No("the number is a global variable")
        for use in known.uses(name):
            self.absorb(use, use)
            if self.replacements.get(use) is use:
                del self.replacements[use]

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        seen = self._seen(node)
        return seen is not None and seen.is_tensor

    def _is_number(self, node: cst.BaseExpression) -> bool:
        seen = self._seen(node)
        return m.matches(node, m.Integer() | m.Float()) or (seen is not None and seen.is_number)

    def _seen(self, node: cst.BaseExpression) -> Seen | None:
        return self.site.seen(node) if node in self.site.document.ranges else None


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = _taken(site, site.node)
    if found is None:
        return None
    node, tensor, as_int = found
    seen = site.seen(tensor)
    if seen is None or not seen.is_tensor:
        return Refusal("it is not known to be a tensor")
    if any(t.layout != "strided" for t in seen.tensors):
        return Refusal("the tensor is not dense")
    floating = any(t.is_float for t in seen.tensors)
    new = tensor if all(t.shape == () for t in seen.tensors) else _flat(tensor)
    if as_int and floating:
        new = expression("{new}.trunc()", new=new)
    if floating and not m.matches(tensor, m.Call(func=m.Attribute(attr=m.Name("detach")))):
        new = expression("{new}.detach()", new=new)
    change = _Change(site)
    try:
        change.absorb(node, new)
    except No as why:
        return Refusal(str(why))
    kept = bool({_KEPT, _RETURNED} & change.assumes.keys())
    return Rewrite(
        change.replacements,
        "A tensor without dimensions does what the number did, inside the graph.",
        Applicability.UNSAFE if change.assumes else Applicability.SAFE,
        tuple(change.assumes),
        numbers=kept,
    )


def _flat(tensor: cst.BaseExpression) -> cst.BaseExpression:
    """A tensor of one element, without dimensions."""
    return expression("{tensor}.reshape(())", tensor=tensor)


def _taken(
    site: Site, node: cst.CSTNode
) -> tuple[cst.BaseExpression, cst.BaseExpression, bool] | None:
    """The expression that takes a number, the tensor it takes it from, and whether it is cut."""
    for one in (node, *_inside(node)):
        match one:
            case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("item")), args=[]):
                return one, tensor, False
            case cst.Call(func=cst.Name("int" | "float" as kind), args=[cst.Arg(value=tensor)]):
                if (seen := site.seen(tensor)) is not None and seen.is_tensor:
                    return one, tensor, kind == "int"
            case cst.Call(args=[cst.Arg(value=tensor, keyword=None)]):
                name = site.calls(one)
                if _MATH.fullmatch(name) and site.is_tensor(tensor):
                    return tensor, tensor, False
    return None


def _inside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The calls in a statement or an expression that is more than a call."""
    if not isinstance(node, cst.BaseCompoundStatement):
        yield from m.findall(node, m.Call())


RULE = Rule(
    "FG201",
    "keep-tensor",
    frozenset({Category.SCALAR.value, Category.NON_TENSOR.value, Category.BUILTIN.value}),
    rewrite,
)
