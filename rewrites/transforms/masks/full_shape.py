"""Write selected elements at full shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, walk
from fullgraph.rewrites.source import build_expression, replace_nodes
from fullgraph.rewrites.transforms.masks import dimensions as extent
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.elementwise_calls import ElementwiseCall, elementwise_call
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.index_ranges import is_in_range
from fullgraph.rewrites.transforms.masks.operators import parse_operation
from fullgraph.rewrites.transforms.masks.padding import PaddedValue, evaluate_padding
from fullgraph.rewrites.transforms.masks.reads import Read

_RAISING = frozenset({"remainder", "fmod", "floor_divide", "div", "divide", "true_divide", "pow"})


@dataclass(eq=False)
class FullShapeWriter:
    """Writer of one flow's expressions at full shape: `torch.where(m, x, 0) * 2` for `x[m] * 2`."""

    flow: Flow
    mask: cst.BaseExpression
    fill: str = "0"
    """The padding value where nothing is selected."""
    values: dict[cst.CSTNode, float | None] = field(default_factory=dict)
    """The value of each bound name where nothing is selected; None if unknown."""
    masks: int = 0
    """How often the mask was written."""
    inside: set[cst.CSTNode] = field(default_factory=set)
    """The uses of selected elements in the functions that they are given to."""

    # Expressions.

    def full(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return `node` at full shape, padded where nothing is selected.

        Only a zero gradient reaches unselected elements, whatever their values."""
        cuts: dict[cst.CSTNode, cst.BaseExpression] = {
            cut: self.where(self.with_whole_tensors(cut), cut) for cut in self.padding_points(node)
        }
        return self._replace_parts(node, cuts)

    def where(self, full: cst.BaseExpression, node: cst.BaseExpression, fill: str = "") -> cst.Call:
        """Return `torch.where(mask, full, fill)`, where `full` replaces `node`.

        The padding value is `self.fill` if `fill` is "".
        """
        made = build_expression(
            "{where}({mask}, {full}, {fill})",
            where=self.torch("where"),
            mask=self.broadcast_mask(node),
            full=full.with_changes(lpar=(), rpar=()),
            fill=fill or self.fill,
        )
        assert isinstance(made, cst.Call)
        return made

    def broadcast_mask(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the mask with trailing dimensions of size one, to broadcast against `node`."""
        first, axis = self.flow.first, self.flow.axis(node)
        rest = self.flow.other_dims(node) - axis if first.known else 0
        ndim = axis + first.dims + rest
        self.masks += 1
        return Read(node, node, self.mask, axis, first.dims, ndim).broadcast_mask(self.mask)

    def with_whole_tensors(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return `node` with its masked reads replaced by the whole tensors."""
        return self._replace_parts(node, {r: found.base for r, found in self.flow.reads.items()})

    def count(self) -> cst.BaseExpression:
        """Return the expression for the number of selected elements."""
        self.masks += 1
        return build_expression("{mask}.sum()", mask=self.mask)

    def flatten(self, node: cst.BaseExpression, full: cst.BaseExpression) -> cst.BaseExpression:
        """Return `full`, which replaces `node`, with the mask's dimensions merged into one."""
        rest = self.flow.other_dims(node)
        return build_expression(f"{{x}}.flatten({f'0, {-1 - rest}' if rest else ''})", x=full)

    def torch(self, name: str) -> str:
        """Return the file's spelling of `torch.name`."""
        return self.flow.site.document.imported_name(f"torch.{name}") or f"torch.{name}"

    def _replace_parts(
        self, node: cst.BaseExpression, known: Mapping[cst.CSTNode, cst.BaseExpression]
    ) -> cst.BaseExpression:
        """Return `node` with the parts in `known` replaced.

        Removes calls that flatten, and writes torch functions for Python builtins.
        """
        if node in known:
            return known[node]
        inner = {one: known[one] for one in walk(node) if one in known}
        while isinstance(node, cst.Call) and self._flattens(node):
            node = cst.ensure_type(node.func, cst.Attribute).value
            if node in known:
                return known[node]
        for one in walk(node):
            if isinstance(one, cst.Call) and one not in known:
                name = self.flow.site.callee_name(one)
                if name in ops.BUILTIN and self.contains_selected(one):
                    spelled = self.torch(ops.BUILTIN[name].rpartition(".")[2])
                    inner[one.func] = build_expression(spelled)
                elif self._flattens(one) and one is not node:
                    inner[one] = self._replace_parts(one, known)
                elif (index := self._index_of_gather(one)) is not None:
                    inner[index] = self.with_neutral_padding(index, "0")
        for one in walk(node):
            if isinstance(one, cst.Subscript) and one in self.flow.gathers:
                index = extent.only_index(one)
                assert index is not None
                if is_in_range(self.flow, index, one.value):
                    inner[index] = self.with_whole_tensors(index)
                else:
                    inner[index] = self.with_neutral_padding(index, "0")
        return replace_nodes(node, inner)

    def _index_of_gather(self, call: cst.Call) -> cst.BaseExpression | None:
        """Return the selected indices of a call that gathers from each selected row; else None."""
        made = parse_operation(self.flow.site, call)
        if made is None or made.name not in ops.GATHERING:
            return None
        index = ops.gather_index(made)
        return index if index is not None and self.contains_selected(index) else None

    def _flattens(self, call: cst.Call) -> bool:
        """Return whether a call flattens selected elements."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ops.FLATTENING:
            return False
        return self.contains_selected(call.func.value)

    def with_neutral_padding(self, root: cst.BaseExpression, neutral: str) -> cst.BaseExpression:
        """Return `root` at full shape with the number `neutral` where nothing is selected.

        Raises NotApplicable if the dtype has no such number.
        """
        fill = self._neutral_number(root, neutral)
        if list(self.padding_points(root)) == [root]:
            found = self.flow.reads.get(root)
            if neutral in ("0", "False") and found is not None and found.dtype == "bool":
                mask = self.broadcast_mask(root)
                return build_expression("{base} & {mask}", base=found.base, mask=mask)
            return self.where(self.with_whole_tensors(root), root, fill)
        known = self.padded_value(root)
        if not known.finite:
            raise NotApplicable("there is no number that could stand where nothing is selected")
        full = self.full(root)
        if known.number is not None and known.number == _as_number(neutral):
            return full
        return self.where(full, root, fill)

    def _neutral_number(self, root: cst.BaseExpression, neutral: str) -> str:
        """Return code for the number `neutral` in the dtype of `root`.

        Raises NotApplicable if the dtype has no such number.
        """
        if neutral not in ("inf", "-inf", "nan"):
            return neutral
        seen = self.flow.site.observed(root)
        dtypes = seen.dtypes if seen is not None else frozenset({self.flow.first.dtype})
        if all(name.startswith(("float", "bfloat")) for name in dtypes):
            return f'float("{neutral}")'
        if neutral == "nan" or len(dtypes) != 1 or "bool" in dtypes:
            raise NotApplicable("there is no such number as it would take for whole numbers")
        limit = "min" if neutral == "-inf" else "max"
        info, name = self.torch("iinfo"), self.torch(next(iter(dtypes)))
        return f"{info}({name}).{limit}"

    # What they are.

    def contains_selected(self, node: cst.CSTNode) -> bool:
        """Return whether `node` contains selected elements."""
        known = (self.flow.reads, self.flow.names, self.inside)
        return any(one in found for one in walk(node) for found in known)

    def padding_points(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """Yield the largest parts of `node` that only scale the gradients of their operands.

        Padding those parts keeps the gradient finite.
        """
        known = (self.flow.reads, self.flow.gathers)
        if not any(one in found for one in walk(node) for found in known):
            return
        if self.is_linear(node):
            yield node
            return
        if isinstance(node, cst.Call):
            made = parse_operation(self.flow.site, node)
            plain = tuple(arg.value for arg in node.args)
            for operand in made.operands if made is not None else plain:
                yield from self.padding_points(operand)
            return
        for child in node.children:
            inner = child.comparator if isinstance(child, cst.ComparisonTarget) else child
            if isinstance(inner, cst.BaseExpression):
                yield from self.padding_points(inner)

    def is_linear(self, node: cst.BaseExpression) -> bool:
        """Return whether a zero gradient of `node` gives zero gradients of its operands.

        That must hold for any values of the elements, and nothing in `node` may raise.
        """
        if node in self.flow.reads or node in self.flow.names or not self.contains_selected(node):
            return True
        if node in self.flow.gathers or node in self.inside:
            return True
        match node:
            case cst.Subscript():  # some of what stands behind the mask's dimensions
                return self.is_linear(node.value)
            case cst.UnaryOperation():
                return self.is_linear(node.expression)
            case cst.BinaryOperation(operator=cst.Add() | cst.Subtract()):
                return self.is_linear(node.left) and self.is_linear(node.right)
            case cst.BinaryOperation(operator=cst.BitAnd() | cst.BitOr() | cst.BitXor()):
                return self.is_linear(node.left) and self.is_linear(node.right)
            case cst.BinaryOperation(operator=cst.Multiply()):
                return self._is_scaled(node.left, node.right)
            case cst.BinaryOperation(operator=cst.Divide() | cst.Modulo()):
                return ops.is_number(self.flow.site, node.right) and self.is_linear(node.left)
            case cst.Comparison(comparisons=[one]):
                return self._is_harmless(node.left) and self._is_harmless(one.comparator)
            case cst.Call():
                return self._is_linear_call(node)
        return False

    def _is_harmless(self, node: cst.BaseExpression) -> bool:
        """Return whether unselected elements in `node` affect only its gradients, and cannot raise.

        This is enough for an expression whose gradients nothing uses.
        """
        if self.is_linear(node):
            return True
        floats = all(self._may_have_gradients())
        match node:
            case cst.BinaryOperation(operator=cst.Multiply() | cst.Divide()) if floats:
                return self._is_harmless(node.left) and self._is_harmless(node.right)
            case cst.Call():
                made = parse_operation(self.flow.site, node)
                if made is None or made.in_place or made.name not in ops.ELEMENTWISE or not floats:
                    return False
                return all(self._is_harmless(one) for one in made.operands)
        return False

    def _is_linear_call(self, node: cst.Call) -> bool:
        """Return whether a zero gradient of a call gives zero gradients of its operands."""
        if (function := elementwise_call(self.flow.site, node)) is not None:
            return self._is_linear_function(function)
        made = parse_operation(self.flow.site, node)
        if made is None or made.in_place:
            return False
        if made.name in ops.SAME | ops.FLATTENING | ops.RESHAPED | ops.GATHERING | {"detach"}:
            return self.is_linear(made.tensor)
        if made.name in ops.CONSTANT:
            return all(self._is_harmless(operand) for operand in made.operands)
        finite = ops.LINEAR | ops.PIECEWISE_LINEAR
        if made.name in finite or self._has_no_gradient(made.name):
            return all(self.is_linear(operand) for operand in made.operands)
        if made.name == "linear":  # a gradient of zero times infinity would be NaN
            seen = self.flow.site.observed(node)
            return seen is not None and not seen.requires_grad and self.is_linear(made.tensor)
        if made.name in ("sum", "mean"):  # over what lies behind the mask: others are ends
            return self.is_linear(made.tensor)
        if made.name in ops.SCALED and len(made.operands) == 2:
            left, right = made.operands
            if made.name in ("mul", "multiply"):
                return self._is_scaled(left, right)
            return ops.is_number(self.flow.site, right) and self.is_linear(left)
        return False

    def _is_linear_function(self, function: ElementwiseCall) -> bool:
        """Return whether all that a function computes of selected elements is linear."""
        for binding, value in (function.given | function.assigned).items():
            if self.contains_selected(value):
                if not self.is_linear(value):
                    return False
                self.inside |= {*function.known.uses(binding)}
        return self.is_linear(function.result)

    def _has_no_gradient(self, name: str) -> bool:
        """Return whether an operation is on integers only and cannot raise."""
        return not any(self._may_have_gradients()) and name in ops.CURVED - _RAISING

    def _may_have_gradients(self) -> Iterator[bool]:
        """Yield for every masked read whether it may have a gradient."""
        yield from (found.is_float for found in self.flow.reads.values())
        for one in self.flow.gathers:
            seen = self.flow.site.observed(one)
            yield seen is None or any(tensor.is_float for tensor in seen.tensors)

    def _is_scaled(self, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
        """Return whether a product only scales the gradient of its selected operand."""
        if ops.is_number(self.flow.site, right):
            return self.is_linear(left)
        return ops.is_number(self.flow.site, left) and self.is_linear(right)

    def padded_value(self, node: cst.BaseExpression) -> PaddedValue:
        """Return the value of `full(node)` at unselected elements."""
        leaves: dict[cst.CSTNode, float] = {
            cut: float(self.fill) for cut in self.padding_points(node)
        }
        for one in walk(node):
            if isinstance(one, cst.Name) and one in self.flow.names:
                known = self._bound_value(one)
                if known is None:
                    return PaddedValue(None, True)
                leaves[one] = known
        return evaluate_padding(self.flow.site, node, leaves)

    def _bound_value(self, use: cst.Name) -> float | None:
        """Return the padding value that a variable holds; None if it is not unique."""
        definitions = self.flow.definitions
        assert definitions is not None
        bindings = definitions.reaching[use] & set(self.flow.bound)
        found = {self.values.get(binding) for binding in bindings}
        return next(iter(found)) if len(found) == 1 else None


def _as_number(neutral: str) -> float:
    return {"False": 0.0, "True": 1.0}[neutral] if neutral in ("False", "True") else float(neutral)
