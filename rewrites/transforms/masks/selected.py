"""Expressions that consist of the elements that a mask selects."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import Definitions, NotApplicable, Site, walk
from fullgraph.rewrites.transforms.masks import dimensions as extent
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.elementwise_calls import elementwise_call, is_elementwise
from fullgraph.rewrites.transforms.masks.operators import is_number, parse_operation
from fullgraph.rewrites.transforms.masks.reads import Read, find_read, is_repeatable, is_same_mask


@dataclass(eq=False)
class SelectedElements:
    """Masked reads with the same mask, and the names and expressions of selected elements."""

    site: Site
    first: Read
    definitions: Definitions | None
    reads: dict[cst.CSTNode, Read] = field(default_factory=dict)
    bound: dict[cst.CSTNode, cst.BaseExpression] = field(default_factory=dict)
    """The values of names that hold selected elements, by the nodes that bind the names."""
    axes: dict[cst.CSTNode, int] = field(default_factory=dict)
    """For each such node the first dimension of the name's value that the mask covers."""
    names: dict[cst.Name, None] = field(default_factory=dict)
    """The uses of these names."""
    gathers: dict[cst.Subscript, None] = field(default_factory=dict)
    """Subscripts in which selected elements index a whole tensor."""
    unsure: bool = False
    """Whether a value was not observed, so that the edit has to assume its shape."""
    continuation: tuple[cst.SimpleStatementLine, ...] = ()
    """The statements after an `if` that ends with the first read, up to the `return`."""
    waiting: list[cst.BaseExpression] = field(default_factory=list)
    """Reads and uses whose sinks are not found yet."""

    def is_selected(self, node: cst.CSTNode) -> bool:
        """Return whether an expression consists of selected elements.

        Adds the masked reads in it, whose uses are then followed too. Raises NotApplicable if
        another mask selects elements.
        """
        if node in self.reads or node in self.names:
            return True
        found = find_read(self.site, node)
        if found is not None:
            if not is_same_mask(found.mask, self.first.mask):
                raise NotApplicable(f"`{self.code(node)}` is selected by another mask")
            if not is_repeatable(self.site, found.mask):
                raise NotApplicable("the mask is not the same when it is worked out again")
            self.add_read(found)
            return True
        match node:
            case cst.Name():
                return self._is_bound_to_selected(node)
            case cst.BinaryOperation():
                return self._is_any_selected(node.left, node.right)
            case cst.UnaryOperation():
                return self.is_selected(node.expression)
            case cst.Comparison(comparisons=[one]):
                return self._is_any_selected(node.left, one.comparator)
            case cst.Subscript():
                return self.is_selected_subscript(node)
            case cst.Call():
                function = elementwise_call(self.site, node)
                if function is not None:
                    return is_elementwise(
                        self.site, function, self.is_selected, self.require_fitting
                    )
                made = parse_operation(self.site, node)
                if made is None:
                    return False
                if made.name in ops.ELEMENTWISE | ops.FLATTENING:
                    return self._is_any_selected(*made.operands)
                return self.is_selected(made.tensor) and self.keeps_rows(made)
        return False

    def _is_any_selected(self, *nodes: cst.BaseExpression) -> bool:
        """Return whether one of several operands is selected; adds the masked reads in all."""
        return sum(map(self.is_selected, nodes)) > 0

    def keeps_rows(self, made: ops.Operation) -> bool:
        """Return whether an operation on selected rows returns one row for each of them."""
        axis = self.axis(made.tensor)
        if made.name == "linear":
            return self.other_dims(made.tensor) > axis == 0
        if made.name in ops.GATHERING:
            index = ops.gather_index(made)
            if index is None or not self.is_selected(index) or self.axis(index) != axis:
                return False
        elif made.name not in ops.ROWWISE | ops.RESHAPED | ops.NEUTRAL.keys():
            return False
        return extent.is_rowwise(self.site, self.first, made, axis)

    def other_dims(self, node: cst.BaseExpression) -> int:
        """Return how many dimensions of `node` do not count selected elements."""
        return extent.other_dims(self.site, self.first, node)

    def axis(self, node: cst.CSTNode) -> int:
        """Return the first dimension of `node` that the mask covers.

        Raises NotApplicable if operands of `node` differ in it.
        """
        if node in self.reads:
            return self.reads[node].axis
        if isinstance(node, cst.Name) and node in self.names:
            assert self.definitions is not None
            found = {self.axes.get(b, 0) for b in self.definitions.reaching[node] if b in self.axes}
        elif isinstance(node, cst.Subscript) and self._takes_one(node):
            return self.axis(node.value) - 1
        else:
            inner = [one for one in node.children if self._contains_selected(one)]
            found = {self.axis(one) for one in inner}
        if len(found) > 1:
            raise NotApplicable("the mask selects in several dimensions")
        return next(iter(found), self.first.axis)

    def _contains_selected(self, node: cst.CSTNode) -> bool:
        return any(one in self.reads or one in self.names for one in walk(node))

    def _takes_one(self, node: cst.Subscript) -> bool:
        return self._contains_selected(node.value) and extent.is_index_before_mask(
            node, self.axis(node.value)
        )

    def is_selected_subscript(self, node: cst.Subscript) -> bool:
        """Return whether a subscript that is no masked read consists of selected elements."""
        if self.is_selected(node.value):
            axis = self.axis(node.value)
            first = self.first
            return extent.is_index_before_mask(node, axis) or extent.is_column_read(
                self.site, first, node, axis
            )
        index = extent.only_index(node)
        return index is not None and self.is_selected(index) and self.is_gather(node, index)

    def is_gather(self, node: cst.Subscript, index: cst.BaseExpression) -> bool:
        """Return whether selected elements are the only index of a whole tensor: `table[x[m]]`.

        Adds such a subscript to `gathers`.
        """
        one_index = extent.only_index(node) is index and self.other_dims(index) == 0
        if not one_index or self.axis(index) or not extent.is_table(self.site, node.value, index):
            return False
        if self.is_selected(node.value):
            return False
        self.gathers[node] = None
        return True

    def add_read(self, found: Read) -> None:
        """Add a masked read, to be followed."""
        if found.node not in self.reads:
            self.reads[found.node] = found
            self.unsure |= not found.known
            self.waiting.append(found.node)

    def _is_bound_to_selected(self, use: cst.Name) -> bool:
        """Return whether a variable holds selected elements.

        Raises NotApplicable if it holds them only sometimes.
        """
        if self.definitions is None:
            return False
        found = self.definitions.reaching.get(use, frozenset())
        selected = [self._binds_selected(one) for one in found]
        if not any(selected):
            return False
        if not all(selected) and self.site.document.statement(use) not in self.continuation:
            raise NotApplicable(f"`{use.value}` is not always what the mask selects")
        self.names[use] = None
        self.waiting.append(use)
        return True

    def _binds_selected(self, binding: cst.CSTNode) -> bool:
        """Return whether a binding stores selected elements."""
        if binding in self.bound:
            return True
        inside: cst.CSTNode = binding
        for one in self.site.document.ancestors(binding):
            if isinstance(one, cst.Assign):
                return self.is_selected(extent.value_of_element(one, inside))
            if isinstance(one, cst.Element):
                inside = one
            if not isinstance(one, cst.Element | cst.Tuple | cst.AssignTarget):
                return False
        return False

    def require_fitting(self, other: cst.BaseExpression) -> None:
        """Raise NotApplicable if `other` cannot be an operand beside elements at full shape."""
        if self.is_selected(other) or is_number(self.site, other):
            return
        seen = self.site.observed(other)
        if seen is None:
            if self.first.known and not isinstance(other, cst.Name | cst.Attribute):
                raise NotApplicable(f"it is not known what `{self.code(other)}` is")
            self.unsure = True
            return
        width = self.first.trailing_dims if self.first.axis == 0 else 0
        wide = [shape for shape in seen.shapes if any(n != 1 for n in shape[: len(shape) - width])]
        if not seen.is_tensor or wide:
            raise NotApplicable(
                f"`{self.code(other)}` goes with the selected elements only, one for each"
            )

    def code(self, node: cst.CSTNode) -> str:
        return self.site.document.code(node)
