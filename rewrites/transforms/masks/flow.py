"""Data flow of selected elements, from masked reads to the sinks that hide their number.

Sinks are reductions, losses, counts and assignments through the same mask."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site, find_definitions
from fullgraph.rewrites.transforms.masks import dimensions as extent
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.continuation import find_continuation
from fullgraph.rewrites.transforms.masks.counts import find_count
from fullgraph.rewrites.transforms.masks.elementwise_calls import elementwise_call, is_elementwise
from fullgraph.rewrites.transforms.masks.index_add import IndexAdd, find_accumulation
from fullgraph.rewrites.transforms.masks.losses import find_loss
from fullgraph.rewrites.transforms.masks.operators import is_option, parse_operation
from fullgraph.rewrites.transforms.masks.reads import find_read, is_same_mask
from fullgraph.rewrites.transforms.masks.selected import SelectedElements
from fullgraph.rewrites.transforms.masks.sinks import (
    BindSink,
    MetadataSink,
    ReduceSink,
    Sink,
    StoreSink,
    UnpackSink,
    is_same_sink,
    refuse_elements,
)


@dataclass(eq=False)
class Flow(SelectedElements):
    """Data flow of the elements that one mask selects."""

    trees: dict[cst.BaseExpression, list[Sink]] = field(default_factory=dict)
    """The outermost expressions of selected elements, each with its sink."""
    mixed: bool = False
    """Whether the continuation also receives unselected elements, when the `if` is not taken."""

    def follow(self) -> None:
        """Find all masked reads, names and sinks. Raises NotApplicable."""
        self.add_read(self.first)
        while self.waiting:
            leaf = self.waiting.pop()
            root, sink = self._outermost_selected(leaf)
            sinks = self.trees.setdefault(root, [])
            sinks += [sink] if not any(is_same_sink(sink, one) for one in sinks) else []
            for one in (sink,) if isinstance(sink, BindSink) else getattr(sink, "names", ()):
                self._follow_binding(one, root, self.axis(root) - isinstance(sink, UnpackSink))
        for name in self.names:
            if self.definitions is None or not self.definitions.reaching[name] <= set(self.bound):
                if self.site.document.statement(name) not in self.continuation:
                    raise NotApplicable(f"`{name.value}` is not always what the mask selects")
                self.mixed = True

    def _follow_binding(self, sink: BindSink, root: cst.BaseExpression, axis: int) -> None:
        """Follow the uses of a variable that selected elements are bound to.

        `root` is the bound expression, and `axis` the first dimension of the variable that the mask
        covers.
        """
        if sink.name in self.bound:
            return
        self.bound[sink.name], self.axes[sink.name] = root, axis
        if self.definitions is None:
            raise NotApplicable(f"`{sink.name.value}` may be used elsewhere")
        for use in self.definitions.uses(sink.name):
            if self.site.document.function(use) is not self.definitions.function:
                raise NotApplicable(f"`{use.value}` is used in a function inside this one")
            if use not in self.names:
                self.names[use] = None
                self.waiting.append(use)

    def _outermost_selected(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, Sink]:
        """Return the outermost expression of selected elements around `node`, and its sink."""
        parent = self.site.document.parent(node)
        match parent:
            case cst.BinaryOperation():
                if isinstance(parent.operator, cst.MatrixMultiply):
                    raise refuse_elements(self.site, parent)
                self.require_fitting(parent.right if parent.left is node else parent.left)
                return self._outermost_selected(parent)
            case cst.UnaryOperation() if not isinstance(parent.operator, cst.Not):
                return self._outermost_selected(parent)
            case cst.Comparison(comparisons=[one]):
                self.require_fitting(one.comparator)
                return self._outermost_selected(parent)
            case cst.ComparisonTarget():
                outer = self.site.document.parent(parent)
                assert isinstance(outer, cst.Comparison)
                if len(outer.comparisons) > 1 or isinstance(parent.operator, cst.In | cst.Is):
                    raise refuse_elements(self.site, outer)
                self.require_fitting(outer.left)
                return self._outermost_selected(outer)
            case cst.Attribute():
                return self._sink_of_attribute(node, parent)
            case cst.Arg():
                call = self.site.document.parent(parent)
                if isinstance(call, cst.Call):
                    return self._sink_of_call(node, call)
            case cst.AssignTarget() | cst.Assign() | cst.AnnAssign() | cst.AugAssign():
                return node, self._sink_of_assignment(node, parent)
            case cst.Subscript() if parent.value is node and self.is_selected_subscript(parent):
                return self._outermost_selected(parent)
            case cst.Element():
                outer = self.site.document.parent(self.site.document.parent(parent))
                target = extent.target_of_element(outer, parent)
                if target is not None:
                    return node, BindSink(target)
            case cst.Index():
                table = self.site.document.parent(self.site.document.parent(parent))
                if isinstance(table, cst.Subscript) and self.is_gather(table, node):
                    return self._outermost_selected(table)
        raise refuse_elements(self.site, parent, node)

    def _sink_of_attribute(
        self, node: cst.BaseExpression, parent: cst.Attribute
    ) -> tuple[cst.BaseExpression, Sink]:
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
    ) -> tuple[cst.BaseExpression, Sink]:
        """Return the outermost expression and the sink of a call on selected elements."""
        found = find_loss(self.site, call)
        if found is not None:
            pair = [self.is_selected(one) for one in (found.input, found.target)]
            if not all(pair):
                raise NotApplicable(
                    f"only one side of `{self.code(call.func)}` is selected by the mask"
                )
            return node, found
        sums = find_accumulation(self.site, call)
        if sums is not None and not self.is_selected(sums.base):
            self._check_added(sums)
            return node, sums
        function = elementwise_call(self.site, call)
        if function is not None and is_elementwise(
            self.site, function, self.is_selected, self.require_fitting
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
                    self.require_fitting(operand)
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
        if self.keeps_rows(made):
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
        """Raise NotApplicable unless the mask selects both index and source, row by row."""
        parts = [one for one in (sums.index, sums.source) if one is not None]
        selected = [self.is_selected(one) for one in parts]
        if not all(selected):
            raise NotApplicable(f"only a part of `{self.code(sums.call)}` is selected by the mask")
        if any(self.axis(one) for one in parts) or self.other_dims(sums.index) != 0:
            raise refuse_elements(self.site, sums.call)
        if sums.source is not None and self.other_dims(sums.source) and not sums.rows:
            raise refuse_elements(self.site, sums.call)

    def _sink_of_assignment(self, node: cst.BaseExpression, parent: cst.CSTNode) -> Sink:
        """Return the sink of an assignment: a variable, or an assignment through the same mask.

        Raises NotApplicable for other targets.
        """
        document = self.site.document
        statement = document.parent(parent) if isinstance(parent, cst.AssignTarget) else parent
        if isinstance(statement, cst.AugAssign) and statement.target is node:
            self.require_fitting(statement.value)
            if isinstance(node, cst.Name):
                return BindSink(node, augmented=True)
            return StoreSink(statement, self.reads[node])
        if isinstance(parent, cst.AssignTarget):
            raise NotApplicable(f"`{self.code(node)}` is assigned to")
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
                raise NotApplicable(f"`{self.code(target)}` is selected by another mask")
            self.unsure |= not place.known
            return StoreSink(statement, place)
        raise NotApplicable(f"`{self.code(target)}` keeps the selected elements themselves")


def find_flow(site: Site) -> Flow | NotApplicable | None:
    """Return the data flow of the elements that the site's node selects.

    If it cannot be followed, return the NotApplicable with the reason. None if the node is no
    masked read.
    """
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
