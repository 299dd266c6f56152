"""Fake quantization by numbers, rewritten for tensors."""

from __future__ import annotations

import libcst as cst
import torch

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.branches.predicate import tensor_of
from fullgraph.rewrites.transforms.scalars.scalar import NEEDS, Number
from fullgraph.rewrites.transforms.scalars.use_edits import PRECISE, UseEdits

QUANTIZES = "fake_quantize_per_tensor_affine"
_PARAMETERS = ("input", "scale", "zero_point", "quant_min", "quant_max")
_DTYPES = {"scale": torch.float32, "zero_point": torch.int32}
_IN_RANGE = "`zero_point` lies between `quant_min` and `quant_max`, for otherwise torch raises"


def quantize_by_tensors(uses: UseEdits, call: cst.Call, arg: cst.Arg, number: Number) -> None:
    """Write a fake quantization whose argument `arg` is a number that becomes a 0-d tensor.

    The operator takes the scale and the zero point both as numbers or both as tensors, so that the
    other one becomes a tensor too. Raises NotApplicable for the other arguments.
    """
    plain = [one.value for one in call.args if one.keyword is None]
    given = dict(zip(_PARAMETERS, plain, strict=False))
    given |= {one.keyword.value: one.value for one in call.args if one.keyword is not None}
    if arg.value not in [given.get(name) for name in _DTYPES] or "input" not in given:
        raise NotApplicable(NEEDS.format(uses.document.code(call.func)))
    if number.may_be_plain:
        raise NotApplicable("a plain number may stand there too")
    for name, dtype in _DTYPES.items():
        value = given.get(name)
        if value is None:
            raise NotApplicable(f"`{name}=` is not spelled out")
        if value is arg.value:
            if number.is_computed and dtype is torch.float32:
                uses.assume(PRECISE)
            if number.dtype is not dtype:
                uses.cast(value, number, dtype)
        elif not uses.is_tensor(value):
            uses.write(value, _tensor_for(uses, value, given["input"], dtype))
            uses.imports.append("torch")
    uses.assume(_IN_RANGE)


def _tensor_for(
    uses: UseEdits, value: cst.BaseExpression, tensor: cst.BaseExpression, dtype: torch.dtype
) -> cst.BaseExpression:
    """Return a number as a tensor: `t.to(torch.int32)` for `int(t)`, else a new tensor."""
    bare = tensor_of(uses.site, value)
    seen = uses.observed(bare)
    if bare is not value and seen is not None and seen.shapes == {()}:
        return build_expression(f"{{t}}.to({dtype})", t=bare)
    return build_expression(
        f"torch.tensor({{n}}, dtype={dtype}, device={{x}}.device)", n=value, x=tensor
    )
