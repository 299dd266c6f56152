"""Write each sink of a flow at full shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import build_expression, build_statement
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.aliases import has_no_alias
from fullgraph.rewrites.transforms.masks.dimensions import only_index
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.full_shape import FullShapeWriter
from fullgraph.rewrites.transforms.masks.index_add import IndexAdd
from fullgraph.rewrites.transforms.masks.index_ranges import is_in_range
from fullgraph.rewrites.transforms.masks.losses import Loss
from fullgraph.rewrites.transforms.masks.reduction_text import ReductionWriter
from fullgraph.rewrites.transforms.masks.sinks import (
    BindSink,
    CountSink,
    ReduceSink,
    StoreSink,
    UnpackSink,
)

_STEPS: dict[type[cst.BaseAugOp], tuple[str, str]] = {
    cst.AddAssign: ("+", "0"),
    cst.SubtractAssign: ("-", "0"),
    cst.MultiplyAssign: ("*", "1"),
    cst.DivideAssign: ("/", "1"),
}
_OPERATORS = {
    cst.PowerAssign: "**",
    cst.FloorDivideAssign: "//",
    cst.ModuloAssign: "%",
    cst.BitAndAssign: "&",
    cst.BitOrAssign: "|",
    cst.BitXorAssign: "^",
}


@dataclass(eq=False)
class SinkWriter:
    """Writer of the code that replaces a flow's sinks: `torch.where(m, x, 0).sum()`.

    `assumes` collects assumptions.
    """

    flow: Flow
    text: FullShapeWriter
    assumes: dict[str, None] = field(default_factory=dict)

    def edits(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """Return the replacement of each node. Raises NotApplicable."""
        found: dict[cst.CSTNode, cst.CSTNode] = {}
        reductions = ReductionWriter(self.flow, self.text, self.assumes)
        for root, sinks in self._in_order():
            for sink in sinks:
                match sink:
                    case BindSink():
                        found |= self._rewrite_bound(root, sink)
                    case ReduceSink():
                        found[sink.operation.call] = reductions.rewrite_reduction(sink)
                    case Loss():
                        found[sink.call] = reductions.rewrite_loss(sink)
                    case UnpackSink():
                        found |= self._rewrite_unpacked(root, sink)
                    case CountSink():
                        found[sink.node] = self._rewrite_count(sink)
                    case IndexAdd():
                        found[sink.call] = self._rewrite_accumulation(sink)
                    case StoreSink():
                        found[sink.statement] = self._rewrite_store(root, sink)
        return found

    def _in_order(self) -> Iterator[tuple[cst.BaseExpression, list[object]]]:
        """Yield expressions of selected elements with their sinks, those that bind names first.

        Other sinks need the padding values of these names. Otherwise in source order.
        """
        position = self.flow.site.document.position
        trees = sorted(self.flow.trees.items(), key=lambda tree: position(tree[0]).line)
        for root, sinks in sorted(
            trees, key=lambda t: not isinstance(t[1][0], BindSink | UnpackSink)
        ):
            yield root, list(sinks)

    # Names.

    def _rewrite_bound(
        self, root: cst.BaseExpression, sink: BindSink
    ) -> dict[cst.CSTNode, cst.CSTNode]:
        """Return the edit that binds a name to its value at full shape; record the padding value.

        Raises NotApplicable if no padding value is finite.
        """
        if (self._only_stored(sink) or self._only_in_range(sink)) and self.text.is_linear(root):
            return {root: self.text.with_whole_tensors(root)}
        known = self.text.padded_value(root)
        self.text.values[sink.name] = None if sink.augmented else known.number
        if not known.finite:
            raise NotApplicable("there is no number that could stand where nothing is selected")
        return {} if root is sink.name else {root: self.text.full(root)}

    def _rewrite_unpacked(
        self, root: cst.BaseExpression, sink: UnpackSink
    ) -> dict[cst.CSTNode, cst.CSTNode]:
        """Return the edit of an unpacked value, and record the padding value of its names."""
        known = self.text.padded_value(root)
        if not known.finite:
            raise NotApplicable("there is no number that could stand where nothing is selected")
        self.text.values |= {one.name: known.number for one in sink.names}
        return {} if isinstance(root, cst.Name) else {root: self.text.full(root)}

    def _rewrite_count(self, sink: CountSink) -> cst.BaseExpression:
        """Return code for the number of true elements, at least `sink.least`."""
        count = self.text.count()
        if sink.least is None:
            return count
        return build_expression("{count}.clamp(min={least})", count=count, least=sink.least)

    def _rewrite_accumulation(self, sink: IndexAdd) -> cst.BaseExpression:
        """Return a call like `index_add` in which unselected elements add zero at index 0."""
        index = self.text.with_neutral_padding(sink.index, "0")
        if sink.source is not None:
            source = self.text.with_neutral_padding(sink.source, "0")
            if self.flow.first.dims > 1:
                index = self.text.flatten(sink.index, index)
                source = self.text.flatten(sink.source, source)
            new = {id(sink.index): index, id(sink.source): source}
            args = [
                one.with_changes(value=new.get(id(one.value), one.value)) for one in sink.call.args
            ]
            return sink.call.with_changes(args=args)
        length, code = sink.base, self._code(sink.index)
        self.assumes[f"no element of `{code}` is {self._code(length)} or more"] = None
        self.text.masks += 1
        return build_expression(
            "{zeros}({n}, dtype={long}, device={mask}.device).scatter_add_(0, {index}, {ones})",
            zeros=self.text.torch("zeros"),
            n=length,
            long=self.text.torch("long"),
            mask=self.text.mask,
            index=self.text.flatten(sink.index, index),
            ones=build_expression("{mask}.flatten().long()", mask=self.text.mask),
        )

    def _only_stored(self, sink: BindSink) -> bool:
        """Return whether all uses of a name are assignments through the same mask."""
        definitions = self.flow.definitions
        assert definitions is not None
        uses = definitions.uses(sink.name)
        sinks = [one for use in uses for one in self.flow.trees.get(use, [])]
        return len(uses) > 0 and all(isinstance(one, StoreSink) for one in sinks) and bool(sinks)

    def _only_in_range(self, sink: BindSink) -> bool:
        """Return whether all uses of a name index a tensor whose length they stay below."""
        definitions, parent = self.flow.definitions, self.flow.site.document.parent
        assert definitions is not None
        tables = [parent(parent(parent(use))) for use in definitions.uses(sink.name)]
        return bool(tables) and all(
            isinstance(table, cst.Subscript)
            and table in self.flow.gathers
            and (index := only_index(table)) is not None
            and is_in_range(self.flow, index, table.value)
            for table in tables
        )

    # Assignments.

    def _rewrite_store(self, root: cst.BaseExpression, sink: StoreSink) -> cst.CSTNode:
        """Write an assignment to `x[mask]` as a selection over all of `x`."""
        target = sink.target
        if isinstance(sink.statement, cst.AugAssign):
            return self._rewrite_augmented(sink.statement, sink)
        value = sink.statement.value
        linear = self.text.is_linear(value)
        full = self.text.with_whole_tensors(value) if linear else self.text.full(value)
        if not linear and not self.text.padded_value(value).finite:
            raise NotApplicable("there is no number that could stand where nothing is selected")
        return self._select_into(sink, full, target.base)

    def _rewrite_augmented(self, step: cst.AugAssign, sink: StoreSink) -> cst.CSTNode:
        """Return the statement that replaces `x[m] += …`. Raises NotApplicable."""
        base, value = sink.target.base, step.value
        kind = type(step.operator)
        if kind in _STEPS and self.flow.site.is_tensor(value) and sink.target.plain:
            _, neutral = _STEPS[kind]
            if self.text.contains_selected(value):
                steps = self.text.with_neutral_padding(value, neutral)
            else:
                steps = self.text.where(value, step.target, neutral)
            return step.with_changes(target=base, value=steps.with_changes(lpar=(), rpar=()))
        sign = _STEPS[kind][0] if kind in _STEPS else _OPERATORS.get(kind, "")
        if not sign or not ops.is_number(self.flow.site, value):
            raise NotApplicable(f"`{self._code(step)}` is not written as a choice")
        floats = sink.target.is_float or not sink.target.known
        curved = sign in ("**", "//", "%") or (sign == "/" and not floats)
        left = self.text.where(base, step.target, "1") if curved and floats else base
        full = build_expression("{left} " + sign + " {value}", left=left, value=value)
        return self._select_into(sink, full, base)

    def _select_into(
        self, sink: StoreSink, full: cst.BaseExpression, base: cst.BaseExpression
    ) -> cst.CSTNode:
        """Return the statement that assigns `full` to `base` where the mask is true."""
        self.text.masks += 1
        place = sink.statement
        where = build_expression(
            "{where}({mask}, {full}, {base})",
            where=self.text.torch("where"),
            mask=sink.target.broadcast_mask(self.text.mask),
            full=full.with_changes(lpar=(), rpar=()),
            base=base,
        )
        document = self.flow.site.document
        if isinstance(base, cst.Name) and has_no_alias(
            self.flow.site, self.flow.definitions, base, document.statement(place)
        ):
            made = build_statement("{base} = {where}", base=base, where=where)
        elif sink.target.plain:
            made = build_statement("{base}.copy_({where})", base=base, where=where)
        else:
            made = build_statement("{base} = {where}", base=base, where=where)
        assert isinstance(made, cst.SimpleStatementLine)
        return made.body[0]

    def _code(self, node: cst.CSTNode) -> str:
        return self.flow.site.document.code(node)
