"""Kinds of ATen operators: pointwise, reduction, scatter or extern."""

from __future__ import annotations

import torch

from fullgraph.compiler.lowering.prims import extern_operators, words
from fullgraph.compiler.operations import Kind

Operator = torch._ops.OpOverload
_REDUCTIONS = words(
    """
    sum mean amax amin max min argmax argmin prod any all var std var_mean std_mean norm
    linalg_vector_norm count_nonzero nansum aminmax xor_sum
    """
)
_POINTWISE = words(
    """
    copy copy_ clone _to_copy full full_like zeros zeros_like ones ones_like new_full new_zeros
    new_ones arange linspace scalar_tensor eye cat index _unsafe_index index_select embedding
    gather constant_pad_nd where triu tril select_scatter slice_scatter as_strided_scatter
    diagonal_scatter flip roll repeat fill_ fill zero_ avg_pool2d max_pool2d_with_indices
    _low_memory_max_pool_with_offsets avg_pool2d_backward max_pool2d_with_indices_backward
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward upsample_nearest1d upsample_nearest2d
    upsample_nearest3d upsample_bilinear2d upsample_bicubic2d upsample_linear1d
    upsample_trilinear3d reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d native_dropout rand randn rand_like randn_like randint
    randint_like bernoulli bernoulli_ uniform_ normal_ glu bucketize im2col pixel_shuffle
    pixel_unshuffle complex polar convert_element_type
    """
)
_SCATTERS = words(
    """
    index_put index_put_ _unsafe_index_put scatter scatter_ scatter_add scatter_add_
    scatter_reduce scatter_reduce_ index_add index_add_ index_copy index_copy_ masked_scatter
    embedding_dense_backward put put_ col2im
    """
)
_EXTERNS = words(
    """
    cumsum cumprod cummax cummin logcumsumexp grid_sampler_3d lstm gru avg_pool3d
    _adaptive_avg_pool3d multinomial randperm
    """
).union(name.partition(".")[0] for name, why in extern_operators().items() if "random" not in why)
_EXTERN_PREFIXES = (
    *("_scaled_dot_product_", "_flash_attention", "_efficient_attention", "linalg_", "_linalg_"),
    *("_fft_", "mkldnn_", "cudnn_", "miopen_"),
)
_FREE = words(
    """
    empty empty_like empty_strided new_empty new_empty_strided _local_scalar_dense item
    is_nonzero sym_size sym_stride sym_numel sym_storage_offset _assert_async _assert_scalar
    _assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size device equal
    """
)
_HEAVY = words(
    """
    exp expm1 log log2 log10 log1p sin cos tan tanh sigmoid silu gelu mish softplus elu erf
    erfc erfinv pow atan atan2 asin acos sinh cosh lgamma digamma logit log_sigmoid_forward
    gelu_backward sigmoid_backward tanh_backward silu_backward
    """
)
HEAVY_FLOPS = 8
"""Flops counted for each element of a transcendental function; other functions count 1."""


def is_free(operator: Operator) -> bool:
    """Return whether an operator moves no data: it only allocates, asserts or resizes a view."""
    return name_of(operator) in _FREE or torch.Tag.inplace_view in operator.tags


def kind_of(operator: Operator) -> Kind | None:
    """Return the kind of an operator; None if the cost model has no rule for it.

    The kinds are "pointwise", "reduction", "scatter" and "extern".
    """
    name = name_of(operator)
    if name in _SCATTERS:
        return "scatter"
    if torch.Tag.pointwise in operator.tags or name in _POINTWISE:
        return "pointwise"
    if name in _REDUCTIONS:
        return "reduction"
    if name in _EXTERNS or name.startswith(_EXTERN_PREFIXES):
        return "extern"
    # Prims that are neither views nor reductions compute each element on its own.
    return "pointwise" if operator.namespace == "prims" else None


def flops_of_element(operator: Operator) -> int:
    """Return the flops that a pointwise operator or a reduction spends on each element.

    The elements are those of the pointwise operator's result, or of the reduction's operand.
    """
    return HEAVY_FLOPS if name_of(operator).rstrip("_") in _HEAVY else 1


def is_heavy(name: str) -> bool:
    """Return whether `name`, such as "aten.exp.default", is a transcendental function."""
    return name.split(".")[1].rstrip("_") in _HEAVY if name.count(".") == 2 else False


def name_of(operator: Operator) -> str:
    """Return the name of an operator without namespace and overload: "add"."""
    return operator._schema.name.partition("::")[2]
