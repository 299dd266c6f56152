"""Write reductions and losses of selected elements at full shape."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, parameter_of, walk
from fullgraph.rewrites.source import build_expression, with_keyword
from fullgraph.rewrites.transforms.masks import dimensions as extent
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.full_shape import FullShapeWriter
from fullgraph.rewrites.transforms.masks.losses import Loss
from fullgraph.rewrites.transforms.masks.operators import parse_operation
from fullgraph.rewrites.transforms.masks.reads import is_name
from fullgraph.rewrites.transforms.masks.sinks import ReduceSink


@dataclass(frozen=True, eq=False)
class ReductionWriter:
    """Writer of a flow's reductions and losses at full shape: `torch.where(m, x, 0).sum()`.

    `assumes` collects assumptions.
    """

    flow: Flow
    text: FullShapeWriter
    assumes: dict[str, None]

    # Reductions.

    def rewrite_reduction(self, sink: ReduceSink) -> cst.BaseExpression:
        """Return a reduction over selected elements as one at full shape with neutral padding.

        Raises NotApplicable.
        """
        made, first = sink.operation, self.flow.first
        name, root = made.name, made.tensor
        if name in ("std", "var"):
            return self._rewrite_variance(sink)
        if name in ("max", "min") and made.options:
            self._require_values_only(made.call)
        if name in ("max", "min", "amax", "amin", "median", "quantile", "nanquantile"):
            self.assumes["the mask selects an element: with none, the original raises"] = None
        if name in ("median", "nanmedian") and made.options:
            raise NotApplicable(
                f"`{name}` of a dimension gives indices among the selected elements"
            )
        if name in ("median", "quantile"):
            self.assumes["nothing that is selected is NaN"] = None
            name = f"nan{name}"
        filled = self.text.with_neutral_padding(root, ops.NEUTRAL[made.name])
        dims = extent.reduced_dimensions(made)
        inner = self._is_over_mask_alone(root, dims)
        if name == "mean" and inner:
            total = self._reduction_call(sink, filled, "sum")
            self._assume_float16_sum()
            return build_expression("{total} / {count}", total=total, count=self.text.count())
        if name == "mean" and dims is None and (width := self._row_size(root)) is not None:
            self._assume_float16_sum()
            return self._mean_of_rows(self._reduction_call(sink, filled, "sum"), width)
        call = self._reduction_call(sink, filled, name)
        if name == "mean":
            return self._mean_of_selected(call)
        if name == "sum" and first.dtype == "float16":
            self._assume_float16_sum()
        return call

    def _row_size(self, root: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return code for the number of elements in each selected row of `root`.

        That is `x.shape[-1]` for `x[m] * 2`. None if rows have several dimensions, or no tensor in
        `root` surely has the same.
        """
        flow = self.flow
        inner = [one for one in walk(root) if isinstance(one, cst.BaseExpression)]
        parts = [one for one in inner if one in flow.reads or one in flow.names]
        dims = {flow.other_dims(one) for one in (root, *parts)}
        calls = (parse_operation(flow.site, one) for one in walk(root) if isinstance(one, cst.Call))
        plain = all(made is not None and made.name in ops.ELEMENTWISE for made in calls)
        if dims != {1} or not plain or flow.first.axis or flow.gathers:
            return None
        for one in parts:
            base = flow.reads[one].base if one in flow.reads else one
            if is_name(base) and self._last_sizes(one) == self._last_sizes(root):
                return build_expression("{x}.shape[-1]", x=base)
        return None

    def _last_sizes(self, node: cst.BaseExpression) -> set[int]:
        """Return the observed sizes of the last dimension of a tensor."""
        seen = self.flow.site.observed(node)
        return {shape[-1] for shape in seen.shapes if shape} if seen is not None else set()

    def _mean_of_rows(
        self, total: cst.BaseExpression, width: cst.BaseExpression
    ) -> cst.BaseExpression:
        """Return a sum over the selected rows of `width` elements as their mean."""
        count = self.text.count()
        return build_expression("{t} / ({n} * {width})", t=total, n=count, width=width)

    def _mean_of_selected(self, mean: cst.BaseExpression) -> cst.BaseExpression:
        """Return a mean over all elements as a mean over the selected ones."""
        self.text.masks += 1
        return build_expression(
            "{mean} * {mask}.numel() / {count}",
            mean=mean,
            mask=self.text.mask,
            count=self.text.count(),
        )

    def _assume_float16_sum(self) -> None:
        """Assume that a float16 sum does not overflow."""
        if "float16" in self.flow.first.dtype and "bfloat16" not in self.flow.first.dtype:
            self.assumes["the sum fits in float16"] = None

    def _is_over_mask_alone(
        self, root: cst.BaseExpression, dims: tuple[int, ...] | None = None
    ) -> bool:
        """Return whether a reduction covers exactly the mask's dimensions."""
        return self.flow.other_dims(root) == 0 if dims is None else len(dims) == 1

    def _reduction_call(
        self, sink: ReduceSink, filled: cst.BaseExpression, name: str
    ) -> cst.BaseExpression:
        """Return the reduction `name` of `filled` with the options of the original."""
        made = sink.operation
        args = list(made.call.args)
        self._shift_dimensions(sink, args)
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

    def _shift_dimensions(self, sink: ReduceSink, args: list[cst.Arg]) -> None:
        """Change `args`: replace dimensions of the selected elements by those at full shape.

        Raises NotApplicable if they are not literals.
        """
        first, made = self.flow.first, sink.operation
        if first.dims == 1 or not made.options:
            return
        given = extent.dimension_option(made)
        if given is None and made.name in ("quantile", "nanquantile"):
            return  # of all elements
        dims = ops.integer_literals(given)
        if dims is None or len(made.options) > 1:
            raise NotApplicable("its dimensions are not spelled out")
        count = self.flow.other_dims(made.tensor) + 1
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

    def _require_values_only(self, call: cst.Call) -> None:
        """Raise NotApplicable unless only the values of `max(dim)` are used."""
        parent = self.flow.site.document.parent(call)
        if isinstance(parent, cst.Attribute) and parent.attr.value == "values":
            return
        if isinstance(parent, cst.Subscript) and len(parent.slice) == 1:
            index = parent.slice[0].slice
            if isinstance(index, cst.Index) and ops.integer_literal(index.value) == 0:
                return
        raise NotApplicable("its indices are those among the selected elements")

    def _rewrite_variance(self, sink: ReduceSink) -> cst.BaseExpression:
        """Return a variance or standard deviation, written with sums over selected elements.

        Raises NotApplicable if the call has options.
        """
        made = sink.operation
        if made.options or not self._is_over_mask_alone(made.tensor):
            raise NotApplicable(f"`{made.name}` with options is not written as sums")
        full = self.text.full(made.tensor)
        mean = build_expression(
            "{total}.sum() / {count}",
            total=self.text.with_neutral_padding(made.tensor, "0"),
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

    def rewrite_loss(self, sink: Loss) -> cst.BaseExpression:
        """Return a loss over selected elements as one at full shape, where padding adds nothing.

        Raises NotApplicable.
        """
        if not sink.known:
            self.assumes[f"`{self._code(sink.call.func)}` has the default options"] = None
        if not sink.reduction:
            raise NotApplicable(
                f"the reduction of `{self._code(sink.call.func)}` is not spelled out"
            )
        if sink.reduction == "none":
            raise NotApplicable(f"`{self._code(sink.call)}` gives a loss for each selected element")
        if sink.name in ops.TARGET_LOSSES:
            return self._rewrite_target_loss(sink)
        if any(self.text.contains_selected(one) for one in sink.options.values()):
            raise NotApplicable("the weights are selected too")
        if sink.name == ops.LOGITS_LOSS:
            return self._logits_loss(sink)
        if sink.name == "kl_div" and "log_target" in sink.options:
            raise NotApplicable("with `log_target` the loss of zeros is not zero")
        call = self._with_operands(
            sink,
            self.text.with_neutral_padding(sink.input, "0"),
            self.text.with_neutral_padding(sink.target, "0"),
        )
        return self._mean_call(sink, call)

    def _mean_call(self, sink: Loss, call: cst.Call) -> cst.BaseExpression:
        """Return `call`, the loss at full shape, as the sum or mean over the selected elements."""
        if sink.reduction == "sum":
            return call
        self._assume_float16_sum()
        if sink.reduction == "batchmean":
            if sink.module:
                raise NotApplicable("`batchmean` of a module is not written as a sum")
        elif not sink.module and (width := self._row_size(sink.input)) is not None:
            return self._mean_of_rows(with_keyword(call, "reduction", '"sum"'), width)
        elif sink.module or self.flow.first.trailing_dims or self.flow.first.axis:
            return self._mean_of_selected(call)
        call = with_keyword(call, "reduction", '"sum"')
        return build_expression("{total} / {count}", total=call, count=self.text.count())

    def _logits_loss(self, sink: Loss) -> cst.BaseExpression:
        """Return a loss on logits in which unselected elements have weight 0."""
        if "weight" in sink.options or sink.module:
            raise NotApplicable("the loss of zeros is not zero, and the weights are taken")
        operands = (sink.input, sink.target)
        if not all(self.text.padded_value(one).finite for one in operands):
            raise NotApplicable("there is no number that could stand where nothing is selected")
        call = self._with_operands(sink, *map(self.text.full, operands))
        weight = self.text.broadcast_mask(sink.input)
        return self._mean_call(sink, with_keyword(call, "weight", weight))

    def _rewrite_target_loss(self, sink: Loss) -> cst.BaseExpression:
        """Return a loss on class indices with `ignore_index` where nothing is selected."""
        first = self.flow.first
        ignored = sink.options.get("ignore_index")
        index = "-100" if ignored is None else self._code(ignored)
        seen = self.flow.site.observed(sink.target)
        if seen is None:
            self.flow.unsure = True
        elif any(name.startswith("float") for name in seen.dtypes):
            raise NotApplicable("the targets are probabilities")
        for read in self.flow.reads.values() if sink.name == "cross_entropy" else ():
            if "int" in read.dtype and parameter_of(self.flow.site.document, read.base):
                self.assumes[f"`{self._code(read.base)}` holds class indices in each call"] = None
        if self.flow.other_dims(sink.input) != 1 or first.axis != 0:
            raise NotApplicable("the classes are not in the last dimension")
        root = sink.target
        target: cst.BaseExpression
        if list(self.text.padding_points(root)) == [root]:
            target = self.text.where(self.text.with_whole_tensors(root), root, index)
        else:
            target = self.text.where(self.text.full(root), root, index)
        logits = self.text.full(sink.input)
        if first.dims > 1:
            logits = self.text.flatten(sink.input, logits)
            target = self.text.flatten(sink.target, target)
        return self._with_operands(sink, logits, target)

    def _with_operands(
        self, sink: Loss, first: cst.BaseExpression, second: cst.BaseExpression
    ) -> cst.Call:
        """Return the call of a loss with other operands."""
        new = {id(sink.input): first, id(sink.target): second}
        args = [
            arg.with_changes(value=new[id(arg.value)].with_changes(lpar=(), rpar=()))
            if id(arg.value) in new
            else arg
            for arg in sink.call.args
        ]
        return sink.call.with_changes(args=args)

    def _code(self, node: cst.CSTNode) -> str:
        return self.flow.site.document.code(node)
