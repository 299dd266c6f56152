"""Data flow of selected elements, from masked reads to the sinks that hide their number.

Sinks are reductions, losses, counts and assignments through the same mask."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import Definitions, NotApplicable, Site, find_definitions, walk
from fullgraph.rewrites.transforms.masks import dimensions as extent
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.continuation import find_continuation
from fullgraph.rewrites.transforms.masks.counts import find_count
from fullgraph.rewrites.transforms.masks.elementwise_calls import elementwise_call, is_elementwise
from fullgraph.rewrites.transforms.masks.index_add import IndexAdd, find_accumulation
from fullgraph.rewrites.transforms.masks.losses import find_loss
from fullgraph.rewrites.transforms.masks.operators import is_number, is_option, parse_operation
from fullgraph.rewrites.transforms.masks.reads import Read, find_read, is_repeatable, is_same_mask
from fullgraph.rewrites.transforms.masks.sinks import (
    BindSink,
    End,
    MetadataSink,
    ReduceSink,
    StoreSink,
    UnpackSink,
    is_same_sink,
    refuse_elements,
)


@dataclass(eq=False)
class Flow:
    """Data flow of the elements that one mask selects."""

    site: Site
    first: Read
    definitions: Definitions | None
    reads: dict[cst.CSTNode, Read] = field(default_factory=dict)
    bound: dict[cst.CSTNode, cst.BaseExpression] = field(default_factory=dict)
    """Each name that holds selected elements, by where it is bound, and its value."""
    axes: dict[cst.CSTNode, int] = field(default_factory=dict)
    """The dimension of each such name in which the mask's dimensions begin."""
    names: dict[cst.Name, None] = field(default_factory=dict)
    """The uses of these names."""
    gathers: dict[cst.Subscript, None] = field(default_factory=dict)
    """Where selected elements index a whole tensor."""
    trees: dict[cst.BaseExpression, list[End]] = field(default_factory=dict)
    """The outermost expressions of selected elements, each with its sink."""
    unsure: bool = False
    """Whether something was not observed in a run."""
    continuation: tuple[cst.SimpleStatementLine, ...] = ()
    """What follows an `if` that ends with the first read, up to the `return`."""
    mixed: bool = False
    """Whether the continuation also receives unselected elements, when the `if` is not taken."""
    _waiting: list[cst.BaseExpression] = field(default_factory=list)

    # What is selected.

    def is_selected(self, node: cst.CSTNode) -> bool:
        """Return whether an expression consists of selected elements, and follow its operands."""
        if node in self.reads or node in self.names:
            return True
        found = find_read(self.site, node)
        if found is not None:
            if not is_same_mask(found.mask, self.first.mask):
                raise NotApplicable(f"`{self._code(node)}` is selected by another mask")
            if not is_repeatable(self.site, found.mask):
                raise NotApplicable("the mask is not the same when it is worked out again")
            self._add_read(found)
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
                return self._is_selected_subscript(node)
            case cst.Call():
                function = elementwise_call(self.site, node)
                if function is not None:
                    return is_elementwise(
                        self.site, function, self.is_selected, self._require_fitting
                    )
                made = parse_operation(self.site, node)
                if made is None:
                    return False
                if made.name in ops.ELEMENTWISE | ops.FLATTENING:
                    return self._is_any_selected(*made.operands)
                return self.is_selected(made.tensor) and self._keeps_rows(made)
        return False

    def _is_any_selected(self, *nodes: cst.BaseExpression) -> bool:
        """Return whether one of several operands is selected, and follow them all."""
        return sum(map(self.is_selected, nodes)) > 0

    def _keeps_rows(self, made: ops.Operation) -> bool:
        """Return whether an operation on selected rows gives one row for each."""
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
        """Return how many dimensions selected elements have besides the mask's."""
        return extent.other_dims(self.site, self.first, node)

    def axis(self, node: cst.CSTNode) -> int:
        """Return the dimension in which the mask's dimensions begin. Raises NotApplicable."""
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

    def _is_selected_subscript(self, node: cst.Subscript) -> bool:
        """Return whether a subscript that is no masked read consists of selected elements."""
        if self.is_selected(node.value):
            axis = self.axis(node.value)
            first = self.first
            return extent.is_index_before_mask(node, axis) or extent.is_row_index(
                self.site, first, node, axis
            )
        index = extent.only_index(node)
        return index is not None and self.is_selected(index) and self._is_gather(node, index)

    def _is_gather(self, node: cst.Subscript, index: cst.BaseExpression) -> bool:
        """Return whether selected elements are the only index of a whole tensor: `table[x[m]]`."""
        one_index = extent.only_index(node) is index and self.other_dims(index) == 0
        if not one_index or self.axis(index) or not extent.is_table(self.site, node.value, index):
            return False
        if self.is_selected(node.value):
            return False
        self.gathers[node] = None
        return True

    # Where it goes.

    def follow(self) -> None:
        """Find all masked reads, names and sinks. Raises NotApplicable."""
        self._add_read(self.first)
        while self._waiting:
            leaf = self._waiting.pop()
            root, end = self._outermost_selected(leaf)
            ends = self.trees.setdefault(root, [])
            ends += [end] if not any(is_same_sink(end, one) for one in ends) else []
            for one in (end,) if isinstance(end, BindSink) else getattr(end, "names", ()):
                self._follow_binding(one, root, self.axis(root) - isinstance(end, UnpackSink))
        for name in self.names:
            if self.definitions is None or not self.definitions.reaching[name] <= set(self.bound):
                if self.site.document.statement(name) not in self.continuation:
                    raise NotApplicable(f"`{name.value}` is not always what the mask selects")
                self.mixed = True

    def _add_read(self, found: Read) -> None:
        """Add a masked read, to be followed."""
        if found.node not in self.reads:
            self.reads[found.node] = found
            self.unsure |= not found.known
            self._waiting.append(found.node)

    def _follow_binding(self, end: BindSink, root: cst.BaseExpression, axis: int) -> None:
        """Follow the uses of a variable that selected values are bound to."""
        if end.name in self.bound:
            return
        self.bound[end.name], self.axes[end.name] = root, axis
        if self.definitions is None:
            raise NotApplicable(f"`{end.name.value}` may be used elsewhere")
        for use in self.definitions.uses(end.name):
            if self.site.document.function(use) is not self.definitions.function:
                raise NotApplicable(f"`{use.value}` is used in a function inside this one")
            if use not in self.names:
                self.names[use] = None
                self._waiting.append(use)

    def _is_bound_to_selected(self, use: cst.Name) -> bool:
        """Whether a variable holds selected values; raise NotApplicable if only sometimes."""
        if self.definitions is None:
            return False
        found = self.definitions.reaching.get(use, frozenset())
        selected = [self._binds_selected(one) for one in found]
        if not any(selected):
            return False
        if not all(selected) and self.site.document.statement(use) not in self.continuation:
            raise NotApplicable(f"`{use.value}` is not always what the mask selects")
        self.names[use] = None
        self._waiting.append(use)
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

    def _outermost_selected(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, End]:
        """Return the outermost expression of selected elements around `node`, and its sink."""
        parent = self.site.document.parent(node)
        match parent:
            case cst.BinaryOperation():
                if isinstance(parent.operator, cst.MatrixMultiply):
                    raise refuse_elements(self.site, parent)
                self._require_fitting(parent.right if parent.left is node else parent.left)
                return self._outermost_selected(parent)
            case cst.UnaryOperation() if not isinstance(parent.operator, cst.Not):
                return self._outermost_selected(parent)
            case cst.Comparison(comparisons=[one]):
                self._require_fitting(one.comparator)
                return self._outermost_selected(parent)
            case cst.ComparisonTarget():
                outer = self.site.document.parent(parent)
                assert isinstance(outer, cst.Comparison)
                if len(outer.comparisons) > 1 or isinstance(parent.operator, cst.In | cst.Is):
                    raise refuse_elements(self.site, outer)
                self._require_fitting(outer.left)
                return self._outermost_selected(outer)
            case cst.Attribute():
                return self._sink_of_attribute(node, parent)
            case cst.Arg():
                call = self.site.document.parent(parent)
                if isinstance(call, cst.Call):
                    return self._sink_of_call(node, call)
            case cst.AssignTarget() | cst.Assign() | cst.AnnAssign() | cst.AugAssign():
                return node, self._sink_of_assignment(node, parent)
            case cst.Subscript() if parent.value is node and self._is_selected_subscript(parent):
                return self._outermost_selected(parent)
            case cst.Element():
                outer = self.site.document.parent(self.site.document.parent(parent))
                target = extent.target_of_element(outer, parent)
                if target is not None:
                    return node, BindSink(target)
            case cst.Index():
                table = self.site.document.parent(self.site.document.parent(parent))
                if isinstance(table, cst.Subscript) and self._is_gather(table, node):
                    return self._outermost_selected(table)
        raise refuse_elements(self.site, parent, node)

    def _sink_of_attribute(
        self, node: cst.BaseExpression, parent: cst.Attribute
    ) -> tuple[cst.BaseExpression, End]:
        """Return the outermost expression and the sink of an attribute of selected elements."""
        outer = self.site.document.parent(parent)
        name = parent.attr.value
        if isinstance(outer, cst.Call) and outer.func is parent:
            return self._sink_of_call(node, outer)
        if name in ("dtype", "device", "is_cuda", "requires_grad", "ndim"):
            return node, MetadataSink()
        if name == "shape" and isinstance(outer, cst.Subscript):
            match outer.slice:
                case [cst.SubscriptElement(slice=cst.Index(value=cst.Integer(value="0")))]:
                    return node, find_count(self.site, outer, node)
        raise refuse_elements(self.site, outer if isinstance(outer, cst.BaseExpression) else parent)

    def _sink_of_call(
        self, node: cst.BaseExpression, call: cst.Call
    ) -> tuple[cst.BaseExpression, End]:
        """Return the outermost expression and the sink of a call on selected elements."""
        found = find_loss(self.site, call)
        if found is not None:
            pair = [self.is_selected(one) for one in (found.input, found.target)]
            if not all(pair):
                raise NotApplicable(
                    f"only one side of `{self._code(call.func)}` is selected by the mask"
                )
            return node, found
        sums = find_accumulation(self.site, call)
        if sums is not None and not self.is_selected(sums.base):
            self._check_added(sums)
            return node, sums
        function = elementwise_call(self.site, call)
        if function is not None and is_elementwise(
            self.site, function, self.is_selected, self._require_fitting
        ):
            return self._outermost_selected(call)
        if self.site.callee_name(call) == "len":
            return node, find_count(self.site, call, node)
        made = parse_operation(self.site, call)
        if made is None:
            raise refuse_elements(self.site, call)
        if made.name in ops.ELEMENTWISE:
            for operand in made.operands:
                if operand is not node and not is_option(made, operand):
                    self._require_fitting(operand)
            return self._outermost_selected(call)
        if made.name == "cosine_similarity":
            pair = [self.is_selected(one) for one in made.operands[:2]]
            if not all(pair):
                raise refuse_elements(self.site, call)
        elif made.name in ops.GATHERING:
            if not self.is_selected(made.tensor):
                raise refuse_elements(self.site, call)
        elif node is not made.tensor:
            raise refuse_elements(self.site, call)
        axis = self.axis(node)
        if self._keeps_rows(made):
            return self._outermost_selected(call)
        if made.name in ops.FLATTENING and extent.is_flat(self.site, self.first, made):
            return self._outermost_selected(call)
        if made.name in ("numel", "nelement") and self.other_dims(node) == 0:
            return node, find_count(self.site, call, node)
        if made.name == "size" and ops.integer_literal(made.argument("dim", 0)) == 0 and axis == 0:
            return node, find_count(self.site, call, node)
        if made.name in ops.NEUTRAL and extent.covers_mask_dims(self.site, self.first, made, axis):
            return node, ReduceSink(made)
        raise refuse_elements(self.site, call)

    def _check_added(self, sums: IndexAdd) -> None:
        """Raise NotApplicable unless index and source are selected, and rows are added."""
        parts = [one for one in (sums.index, sums.source) if one is not None]
        selected = [self.is_selected(one) for one in parts]
        if not all(selected):
            raise NotApplicable(f"only a part of `{self._code(sums.call)}` is selected by the mask")
        if any(self.axis(one) for one in parts) or self.other_dims(sums.index) != 0:
            raise refuse_elements(self.site, sums.call)
        if sums.source is not None and self.other_dims(sums.source) and not sums.rows:
            raise refuse_elements(self.site, sums.call)

    def _sink_of_assignment(self, node: cst.BaseExpression, parent: cst.CSTNode) -> End:
        """Return the sink of assigned selected elements: a variable, or the masked tensor
        itself."""
        document = self.site.document
        statement = document.parent(parent) if isinstance(parent, cst.AssignTarget) else parent
        if isinstance(statement, cst.AugAssign) and statement.target is node:
            self._require_fitting(statement.value)
            if isinstance(node, cst.Name):
                return BindSink(node, augmented=True)
            return StoreSink(statement, self.reads[node])
        if isinstance(parent, cst.AssignTarget):
            raise NotApplicable(f"`{self._code(node)}` is assigned to")
        match statement:
            case cst.Assign(targets=[one]):
                target = one.target
            case cst.AnnAssign() | cst.AugAssign():
                target = statement.target
            case _:
                raise refuse_elements(self.site, statement)
        if isinstance(target, cst.Name):
            augmented = isinstance(statement, cst.AugAssign)
            if not augmented or self.is_selected(target):
                return BindSink(target, augmented)
        if isinstance(target, cst.Tuple | cst.List) and self.axis(node) > 0:
            names = [one.value for one in target.elements]
            plain = [one for one in names if isinstance(one, cst.Name)]
            if len(plain) == len(names):
                return UnpackSink(tuple(map(BindSink, plain)))
        place = find_read(self.site, target)
        if place is not None and isinstance(statement, cst.Assign | cst.AugAssign):
            if not is_same_mask(place.mask, self.first.mask):
                raise NotApplicable(f"`{self._code(target)}` is selected by another mask")
            self.unsure |= not place.known
            return StoreSink(statement, place)
        raise NotApplicable(f"`{self._code(target)}` keeps the selected elements themselves")

    # What stands beside it.

    def _require_fitting(self, other: cst.BaseExpression) -> None:
        """Raise NotApplicable for an operand that cannot be combined with elements at full
        shape."""
        if self.is_selected(other) or is_number(self.site, other):
            return
        seen = self.site.observed(other)
        if seen is None:
            if self.first.known and not isinstance(other, cst.Name | cst.Attribute):
                raise NotApplicable(f"it is not known what `{self._code(other)}` is")
            self.unsure = True
            return
        width = self.first.trailing_dims if self.first.axis == 0 else 0
        wide = [shape for shape in seen.shapes if any(n != 1 for n in shape[: len(shape) - width])]
        if not seen.is_tensor or wide:
            raise NotApplicable(
                f"`{self._code(other)}` goes with the selected elements only, one for each"
            )

    def _code(self, node: cst.CSTNode) -> str:
        return self.site.document.code(node)


def find_flow(site: Site) -> Flow | NotApplicable | None:
    """Return the data flow of the elements that the site's node selects.

    A refusal if it cannot be followed; None if the node is no masked read."""
    first = find_read(site, site.node)
    if first is None:
        return None
    known = find_definitions(site.document, site.node)
    found = Flow(site, first, known, continuation=find_continuation(site, first.node))
    try:
        found.follow()
    except NotApplicable as reason:
        return reason
    return found
