"""Closed list of the operators that lowering calls, as extern operators, each with its reason."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

import torch

from fullgraph.compiler.lowering.prims.canonical import by_name
from fullgraph.compiler.private import functionalized_operator

ExternReason = Literal[
    "matrix product",
    "convolution",
    "attention",
    "recurrent network",
    "sort",
    "fft",
    "linear algebra",
    "pooling with indices",
    "data-dependent size",
    "scatter with conflicts",
    "random numbers",
    "resampling",
    "control flow",
    "custom operator",
]
"""Why a generated kernel does not compute an operator.

- "matrix product", "convolution", "attention", "recurrent network", "fft", "linear algebra": a
  library (BLAS, oneDNN, cuDNN, pocketfft, LAPACK) is faster than a generated loop
- "sort": sorting, selection, and search in sorted values are no loop over independent elements
- "pooling with indices": the result of the backward depends on which of equal elements was chosen
- "data-dependent size": the number of elements is only known when the operator has run
- "scatter with conflicts": several elements are added to one, in an order that eager chooses
- "resampling": each element reads a window whose place and weights are computed
- "control flow": a branch or a loop of subgraphs, which are programs of their own
- "random numbers": the result must come from eager's random stream
- "custom operator": one of `torch.library`, whose code the compiler does not see; it gets copies of
  the arguments that it changes
"""

CONTROL_FLOW = ("cond", "while_loop", "while_loop_stack_output", "invoke_subgraph")
"""Higher-order operators that only call their subgraphs, which are compiled as well.

Others map theirs over a dim, and get them as graphs that run in eager.
"""
_NAMESPACES = frozenset({"c10d", "debugprims", "inductor", "mkldnn", "prim", "prims", "rngprims"})
"""Namespaces of torch, beside "aten" and those that begin with an underscore."""
_EXTERN: Mapping[ExternReason, str] = {
    "matrix product": """
        mm addmm bmm baddbmm addmv mv dot vdot addbmm _int_mm _scaled_mm _grouped_mm
        _scaled_grouped_mm _weight_int4pack_mm _weight_int8pack_mm _weight_int4pack_mm_for_cpu
        _cdist_forward _cdist_backward _pdist_forward _pdist_backward _trilinear mkldnn_linear
    """,
    "convolution": """
        convolution convolution_backward _convolution mkldnn_convolution
        cudnn_convolution cudnn_convolution_transpose miopen_convolution conv_depthwise3d
    """,
    "attention": """
        _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
        _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_flash_attention_for_cpu_backward
        _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
        _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
        _scaled_dot_product_fused_attention_overrideable
        _scaled_dot_product_fused_attention_overrideable_backward
        _flash_attention_forward _flash_attention_backward _efficient_attention_forward
        _efficient_attention_backward _cudnn_attention_forward _cudnn_attention_backward
    """,
    "recurrent network": """
        mkldnn_rnn_layer mkldnn_rnn_layer_backward _cudnn_rnn _cudnn_rnn_backward
        _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell
        _thnn_fused_gru_cell_backward
    """,
    "sort": """
        sort sort.stable topk kthvalue median median.dim nanmedian nanmedian.dim mode
        searchsorted.Tensor searchsorted.Scalar bucketize.Tensor bucketize.Scalar histc
        _histogramdd_bin_edges _histogramdd_from_bin_cts
    """,
    "fft": "_fft_r2c _fft_c2r _fft_c2c",
    "linear algebra": """
        cholesky cholesky_inverse cholesky_solve _cholesky_solve_helper geqrf ormqr lu_unpack
        triangular_solve _linalg_check_errors _linalg_det _linalg_eigh _linalg_eigvals
        _linalg_slogdet _linalg_solve_ex _linalg_svd linalg_cholesky_ex linalg_eig
        linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve
        linalg_lstsq linalg_lu linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_qr
        linalg_solve_triangular linalg_pinv
        linalg_pinv.atol_rtol_tensor
    """,
    "pooling with indices": """
        max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices
        max_pool3d_with_indices_backward adaptive_max_pool2d adaptive_max_pool2d_backward
        adaptive_max_pool3d adaptive_max_pool3d_backward fractional_max_pool2d
        fractional_max_pool2d_backward fractional_max_pool3d fractional_max_pool3d_backward
        max_unpool2d max_unpool3d
    """,
    "data-dependent size": """
        nonzero nonzero_static masked_select unique_dim unique_consecutive unique_dim_consecutive
        _unique _unique2 bincount repeat_interleave.Tensor _local_scalar_dense item equal
        masked_scatter masked_scatter_backward _embedding_bag _embedding_bag_forward_only
        _embedding_bag_backward _embedding_bag_dense_backward
        _embedding_bag_per_sample_weights_backward segment_reduce _segment_reduce_backward
        _ctc_loss _ctc_loss_backward
    """,
    "scatter with conflicts": """
        scatter_add scatter_reduce.two scatter.reduce scatter.value_reduce index_add index_reduce
        put embedding_dense_backward grid_sampler_2d_backward grid_sampler_3d_backward col2im
    """,
    "random numbers": """
        rand rand_like randn randn_like randint randint.low randint_like randint_like.low_dtype
        randint_like.Tensor randperm
        bernoulli bernoulli.p bernoulli.Tensor multinomial poisson binomial native_dropout
        _fused_dropout normal_functional normal.Tensor_Tensor normal.Tensor_float
        normal.float_Tensor normal.float_float uniform exponential cauchy log_normal geometric
        random random.from random.to rrelu_with_noise_functional _standard_gamma
        _sample_dirichlet _dirichlet_grad _standard_gamma_grad
    """,
    "resampling": """
        grid_sampler_3d _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward
        _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward
    """,
}


_HIGHER_ORDER: Mapping[str, ExternReason] = {
    **dict.fromkeys(CONTROL_FLOW, "control flow"),
    **dict.fromkeys(("map_impl", "scan", "associative_scan"), "control flow"),
    **dict.fromkeys(("flex_attention", "flex_attention_backward"), "attention"),
}


@functools.cache
def extern_operators() -> Mapping[str, ExternReason]:
    """Return the reason for each extern ATen operator, by name: "mm.default".

    `extern_reason` also knows two that are extern only for some arguments.
    """
    return by_name(_EXTERN)


def extern_reason(node: torch.fx.Node) -> ExternReason | None:
    """Return why a node calls an extern operator; None if it does not.

    `index_put` is extern only if it accumulates or takes a mask, and `index` if it takes a mask. A
    custom operator is extern if the graph says which results hold the arguments that it changes.
    """
    if functionalized_operator(node) is not None:
        return "custom operator"
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return _HIGHER_ORDER.get(node.target.name())
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    if node.target.namespace != "aten":
        is_torch = node.target.namespace.startswith("_") or node.target.namespace in _NAMESPACES
        return None if is_torch or node.target._schema.is_mutable else "custom operator"
    name = str(node.target).removeprefix("aten.")
    if name == "index_put.default":
        accumulates = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate")
        if accumulates:
            return "scatter with conflicts"
    if name in ("index_put.default", "index.Tensor") and _has_mask(node):
        return "data-dependent size"
    return extern_operators().get(name)


def _has_mask(node: torch.fx.Node) -> bool:
    """Return whether an `index` or `index_put` has a mask among its indices."""
    indices = node.args[1]
    assert isinstance(indices, list | tuple)
    examples = [one.meta["val"] for one in indices if isinstance(one, torch.fx.Node)]
    return any(example.dtype in (torch.bool, torch.uint8) for example in examples)
