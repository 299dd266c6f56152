"""Write each sink of a flow at full shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import build_expression, build_statement, with_keyword
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.aliases import has_no_alias
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.full_shape import FullShapeWriter
from fullgraph.rewrites.transforms.masks.index_add import IndexAdd
from fullgraph.rewrites.transforms.masks.losses import Loss
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
    """Rewrite of a flow's sinks; assumptions are collected in `assumes`."""

    flow: Flow
    text: FullShapeWriter
    assumes: dict[str, None] = field(default_factory=dict)

    def edits(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """Return the replacement of each node. Raises NotApplicable."""
        found: dict[cst.CSTNode, cst.CSTNode] = {}
        for root, ends in self._in_order():
            for end in ends:
                match end:
                    case BindSink():
                        found |= self._rewrite_bound(root, end)
                    case ReduceSink():
                        found[end.operation.call] = self._rewrite_reduction(end)
                    case Loss():
                        found[end.call] = self._rewrite_loss(end)
                    case UnpackSink():
                        found |= self._rewrite_unpacked(root, end)
                    case CountSink():
                        found[end.node] = self._rewrite_count(end)
                    case IndexAdd():
                        found[end.call] = self._rewrite_accumulation(end)
                    case StoreSink():
                        found[end.statement] = self._rewrite_store(root, end)
        return found

    def _in_order(self) -> Iterator[tuple[cst.BaseExpression, list[object]]]:
        """Return bound names first, in source order: their uses need their values."""
        position = self.flow.site.document.position
        trees = sorted(self.flow.trees.items(), key=lambda tree: position(tree[0]).line)
        for root, ends in sorted(
            trees, key=lambda t: not isinstance(t[1][0], BindSink | UnpackSink)
        ):
            yield root, list(ends)

    # Names.

    def _rewrite_bound(
        self, root: cst.BaseExpression, end: BindSink
    ) -> dict[cst.CSTNode, cst.CSTNode]:
        """Bind the full-shape value, and remember the number where nothing is selected."""
        if self._only_stored(end) and self.text.is_linear(root):
            return {root: self.text.bare(root)}
        known = self.text.value(root)
        self.text.values[end.name] = None if end.augmented else known.number
        if not known.finite:
            raise NotApplicable("there is no number that could stand where nothing is selected")
        return {} if root is end.name else {root: self.text.full(root)}

    def _rewrite_unpacked(
        self, root: cst.BaseExpression, end: UnpackSink
    ) -> dict[cst.CSTNode, cst.CSTNode]:
        known = self.text.value(root)
        if not known.finite:
            raise NotApplicable("there is no number that could stand where nothing is selected")
        self.text.values |= {one.name: known.number for one in end.names}
        return {} if isinstance(root, cst.Name) else {root: self.text.full(root)}

    def _rewrite_count(self, end: CountSink) -> cst.BaseExpression:
        count = self.text.count()
        if end.least is None:
            return count
        return build_expression("{count}.clamp(min={least})", count=count, least=end.least)

    def _rewrite_accumulation(self, end: IndexAdd) -> cst.BaseExpression:
        """Return an accumulation in which unselected elements add zero to the first place."""
        index = self._flatten_mask_dims(end.index, self.text.neutral(end.index, "0"))
        if end.source is not None:
            source = self._flatten_mask_dims(end.source, self.text.neutral(end.source, "0"))
            new = {id(end.index): index, id(end.source): source}
            args = [
                one.with_changes(value=new.get(id(one.value), one.value)) for one in end.call.args
            ]
            return end.call.with_changes(args=args)
        length, code = end.base, self._code(end.index)
        self.assumes[f"no element of `{code}` is {self._code(length)} or more"] = None
        self.text.masks += 1
        return build_expression(
            "{zeros}({n}, dtype={long}, device={mask}.device).scatter_add_(0, {index}, {ones})",
            zeros=self.text.torch("zeros"),
            n=length,
            long=self.text.torch("long"),
            mask=self.text.mask,
            index=index,
            ones=self._flatten_mask_dims(
                end.index, build_expression("{mask}.long()", mask=self.text.mask)
            ),
        )

    def _flatten_mask_dims(
        self, node: cst.BaseExpression, full: cst.BaseExpression
    ) -> cst.BaseExpression:
        """Return `full` with the mask's dimensions merged into one."""
        dims = self.flow.first.dims
        return build_expression(f"{{x}}.flatten(0, {dims - 1})", x=full) if dims > 1 else full

    def _only_stored(self, end: BindSink) -> bool:
        """Return whether the name is only assigned through the same mask."""
        definitions = self.flow.definitions
        assert definitions is not None
        uses = definitions.uses(end.name)
        ends = [one for use in uses for one in self.flow.trees.get(use, [])]
        return len(uses) > 0 and all(isinstance(one, StoreSink) for one in ends) and bool(ends)

    # Reductions.

    def _rewrite_reduction(self, end: ReduceSink) -> cst.BaseExpression:
        """Write a reduction over selected values as one over all, with neutral numbers."""
        made, first = end.operation, self.flow.first
        name, root = made.name, made.tensor
        if name in ("std", "var"):
            return self._spread_out(end)
        if name in ("max", "min") and made.options:
            self._only_values(made.call)
        if name in ("max", "min", "amax", "amin", "median"):
            self.assumes["the mask selects something: of nothing there is an error"] = None
        if name in ("median", "nanmedian") and made.options:
            raise NotApplicable(
                f"`{name}` of a dimension gives indices among the selected elements"
            )
        if name == "median":
            self.assumes["nothing that is selected is NaN"] = None
            name = "nanmedian"
        filled = self.text.neutral(root, ops.NEUTRAL[made.name])
        dims = ops.integer_literals(made.argument("dim", 0) or made.argument("axis", 99))
        inner = self._is_over_mask_alone(root, dims)
        if name == "mean" and inner:
            total = self._reduction_call(end, filled, "sum")
            self._assume_float16_sum()
            return build_expression("{total} / {count}", total=total, count=self.text.count())
        call = self._reduction_call(end, filled, name)
        if name == "mean":
            return self._per_selected(call)
        if name == "sum" and first.dtype == "float16":
            self._assume_float16_sum()
        return call

    def _per_selected(self, mean: cst.BaseExpression) -> cst.BaseExpression:
        """Return a mean over everything as a mean over the selected elements."""
        self.text.masks += 1
        return build_expression(
            "{mean} * {mask}.numel() / {count}",
            mean=mean,
            mask=self.text.mask,
            count=self.text.count(),
        )

    def _assume_float16_sum(self) -> None:
        if "float16" in self.flow.first.dtype and "bfloat16" not in self.flow.first.dtype:
            self.assumes["the sum fits in float16"] = None

    def _is_over_mask_alone(
        self, root: cst.BaseExpression, dims: tuple[int, ...] | None = None
    ) -> bool:
        """Return whether a reduction covers exactly the mask's dimensions."""
        return self.flow.dims(root) == 0 if dims is None else len(dims) == 1

    def _reduction_call(
        self, end: ReduceSink, filled: cst.BaseExpression, name: str
    ) -> cst.BaseExpression:
        """Return the reduction `name` of `filled` with the options of the original."""
        made = end.operation
        args = list(made.call.args)
        self._shift_dimensions(end, args)
        if made.method:
            func = build_expression("{filled}." + name, filled=filled)
            return made.call.with_changes(func=func, args=args)
        args[0] = args[0].with_changes(value=filled.with_changes(lpar=(), rpar=()))
        func = made.call.func
        if isinstance(func, cst.Attribute):
            func = func.with_changes(attr=cst.Name(name))
        elif name != made.name:
            func = build_expression(self.text.torch(name))
        return made.call.with_changes(func=func, args=args)

    def _shift_dimensions(self, end: ReduceSink, args: list[cst.Arg]) -> None:
        """Translate dimensions of the selection to those at full shape."""
        first, made = self.flow.first, end.operation
        if first.dims == 1 or not made.options:
            return
        given = made.argument("dim", 0) or made.argument("axis", 99)
        dims = ops.integer_literals(given)
        if dims is None or len(made.options) > 1:
            raise NotApplicable("its dimensions are not spelled out")
        count = self.flow.dims(made.tensor) + 1
        full: list[int] = []
        for dim in (dim % count for dim in dims):
            if dim == first.axis:
                full += range(first.axis, first.axis + first.dims)
            else:
                full.append(dim + (first.dims - 1 if dim > first.axis else 0))
        if len(full) > 1 and made.name in ("max", "min", "prod"):
            raise NotApplicable(f"`{made.name}` takes one dimension only")
        place = next(i for i, arg in enumerate(args) if arg.value is given)
        args[place] = args[place].with_changes(value=build_expression(str(tuple(full))))

    def _only_values(self, call: cst.Call) -> None:
        """Raise NotApplicable unless only the values of `max(dim)` are used."""
        parent = self.flow.site.document.parent(call)
        if isinstance(parent, cst.Attribute) and parent.attr.value == "values":
            return
        if isinstance(parent, cst.Subscript) and len(parent.slice) == 1:
            index = parent.slice[0].slice
            if isinstance(index, cst.Index) and ops.integer_literal(index.value) == 0:
                return
        raise NotApplicable("its indices are those among the selected elements")

    def _spread_out(self, end: ReduceSink) -> cst.BaseExpression:
        """Return the variance or standard deviation, in two steps."""
        made = end.operation
        if made.options or not self._is_over_mask_alone(made.tensor):
            raise NotApplicable(f"`{made.name}` with options is not written as sums")
        full = self.text.full(made.tensor)
        mean = build_expression(
            "{total}.sum() / {count}",
            total=self.text.neutral(made.tensor, "0"),
            count=self.text.count(),
        )
        difference = build_expression("{full} - {mean}", full=full, mean=mean)
        variance = build_expression(
            "{squares}.square().sum() / ({count} - 1).clamp(min=0)",
            squares=self.text.where(difference, made.tensor, "0"),
            count=self.text.count(),
        )
        self._assume_float16_sum()
        if made.name == "std":
            return build_expression("({variance}).sqrt()", variance=variance)
        return variance

    # Losses.

    def _rewrite_loss(self, end: Loss) -> cst.BaseExpression:
        """Write a mean or summed loss over selected elements as a weighted one."""
        if not end.known:
            self.assumes[f"`{self._code(end.call.func)}` has the default options"] = None
        if not end.reduction:
            raise NotApplicable(
                f"the reduction of `{self._code(end.call.func)}` is not spelled out"
            )
        if end.reduction == "none":
            raise NotApplicable(f"`{self._code(end.call)}` gives a loss for each selected element")
        if end.name in ops.TARGET_LOSSES:
            return self._rewrite_target_loss(end)
        if any(self.text.holds(one) for one in end.options.values()):
            raise NotApplicable("the weights are selected too")
        if end.name == ops.LOGITS_LOSS:
            return self._logits_loss(end)
        if end.name == "kl_div" and "log_target" in end.options:
            raise NotApplicable("with `log_target` the loss of zeros is not zero")
        call = self._with_operands(
            end, self.text.neutral(end.input, "0"), self.text.neutral(end.target, "0")
        )
        return self._mean_call(end, call)

    def _mean_call(self, end: Loss, call: cst.Call) -> cst.BaseExpression:
        """Return a call that sums or averages everything as a mean of the selected elements."""
        if end.reduction == "sum":
            return call
        self._assume_float16_sum()
        if end.reduction == "batchmean":
            if end.module:
                raise NotApplicable("`batchmean` of a module is not written as a sum")
        elif end.module or self.flow.first.trailing_dims or self.flow.first.axis:
            return self._per_selected(call)
        call = with_keyword(call, "reduction", '"sum"')
        return build_expression("{total} / {count}", total=call, count=self.text.count())

    def _logits_loss(self, end: Loss) -> cst.BaseExpression:
        if "weight" in end.options or end.module:
            raise NotApplicable("the loss of zeros is not zero, and the weights are taken")
        call = self._with_operands(
            end, self.text.neutral(end.input, "0"), self.text.neutral(end.target, "0")
        )
        weight = self.text.spread(end.input)
        return self._mean_call(end, with_keyword(call, "weight", weight))

    def _rewrite_target_loss(self, end: Loss) -> cst.BaseExpression:
        """Write a loss on class indices with `ignore_index` where nothing is selected."""
        first = self.flow.first
        ignored = end.options.get("ignore_index")
        index = "-100" if ignored is None else self._code(ignored)
        seen = self.flow.site.seen(end.target)
        if seen is None:
            self.flow.unsure = True
        elif any(name.startswith("float") for name in seen.dtypes):
            raise NotApplicable("the targets are probabilities")
        if self.flow.dims(end.input) != 1 or first.axis != 0:
            raise NotApplicable("the classes are not in the last dimension")
        root = end.target
        target: cst.BaseExpression
        if list(self.text.cuts(root)) == [root]:
            target = self.text.where(self.text.bare(root), root, index)
        else:
            target = self.text.where(self.text.full(root), root, index)
        logits = self.text.full(end.input)
        if first.dims > 1:
            logits = build_expression(f"{{x}}.flatten(0, {first.dims - 1})", x=logits)
            target = build_expression("{x}.flatten()", x=target)
        return self._with_operands(end, logits, target)

    def _with_operands(
        self, end: Loss, first: cst.BaseExpression, second: cst.BaseExpression
    ) -> cst.Call:
        new = {id(end.input): first, id(end.target): second}
        args = [
            arg.with_changes(value=new[id(arg.value)].with_changes(lpar=(), rpar=()))
            if id(arg.value) in new
            else arg
            for arg in end.call.args
        ]
        return end.call.with_changes(args=args)

    # Assignments.

    def _rewrite_store(self, root: cst.BaseExpression, end: StoreSink) -> cst.CSTNode:
        """Write an assignment to `x[mask]` as a selection over all of `x`."""
        target = end.target
        if isinstance(end.statement, cst.AugAssign):
            return self._rewrite_augmented(end.statement, end)
        value = end.statement.value
        linear = self.text.is_linear(value)
        full = self.text.bare(value) if linear else self.text.full(value)
        if not linear and not self.text.value(value).finite:
            raise NotApplicable("there is no number that could stand where nothing is selected")
        return self._select_into(end, full, target.base)

    def _rewrite_augmented(self, step: cst.AugAssign, end: StoreSink) -> cst.CSTNode:
        """Return the edit for `x[m] += …`."""
        base, value = end.target.base, step.value
        kind = type(step.operator)
        if kind in _STEPS and self.flow.site.is_tensor(value) and end.target.plain:
            _, neutral = _STEPS[kind]
            if self.text.holds(value):
                steps = self.text.neutral(value, neutral)
            else:
                steps = self.text.where(value, step.target, neutral)
            return step.with_changes(target=base, value=steps.with_changes(lpar=(), rpar=()))
        sign = _STEPS[kind][0] if kind in _STEPS else _OPERATORS.get(kind, "")
        if not sign or not self.flow.is_number(value):
            raise NotApplicable(f"`{self._code(step)}` is not written as a choice")
        floats = end.target.is_float or not end.target.known
        curved = sign in ("**", "//", "%") or (sign == "/" and not floats)
        left = self.text.where(base, step.target, "1") if curved and floats else base
        full = build_expression("{left} " + sign + " {value}", left=left, value=value)
        return self._select_into(end, full, base)

    def _select_into(
        self, end: StoreSink, full: cst.BaseExpression, base: cst.BaseExpression
    ) -> cst.CSTNode:
        """Return the statement that changes `base` where the mask selects."""
        self.text.masks += 1
        place = end.statement
        where = build_expression(
            "{where}({mask}, {full}, {base})",
            where=self.text.torch("where"),
            mask=end.target.spread(self.text.mask),
            full=full.with_changes(lpar=(), rpar=()),
            base=base,
        )
        document = self.flow.site.document
        if isinstance(base, cst.Name) and has_no_alias(
            self.flow.site, self.flow.definitions, base, document.statement(place)
        ):
            made = build_statement("{base} = {where}", base=base, where=where)
        elif end.target.plain:
            made = build_statement("{base}.copy_({where})", base=base, where=where)
        else:
            made = build_statement("{base} = {where}", base=base, where=where)
        assert isinstance(made, cst.SimpleStatementLine)
        return made.body[0]

    def _code(self, node: cst.CSTNode) -> str:
        return self.flow.site.document.code(node)
