"""ATen operators that are called, not generated: a closed list, with the reason for each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_REASONS = {
    "matrix multiplication: a library's blocking is better": """
        mm addmm bmm baddbmm mv addmv dot vdot addbmm _int_mm
    """,
    "convolution: a library's blocking is better": "convolution convolution_backward",
    "attention: a library's tiles are better": """
        _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_flash_attention_for_cpu_backward
    """,
    "sort": "sort topk median nanmedian mode kthvalue msort searchsorted bucketize",
    "Fourier transform": "_fft_r2c _fft_c2r _fft_c2c",
    "LAPACK": """
        linalg_cholesky_ex cholesky_inverse linalg_inv_ex linalg_lu_factor_ex linalg_lu_solve
        linalg_eigh _linalg_eigh _linalg_svd _linalg_det _linalg_slogdet _linalg_solve_ex
        linalg_qr linalg_householder_product triangular_solve linalg_solve_triangular
        linalg_ldl_solve
    """,
    "pooling that returns indices, and its backward": """
        max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices
        max_pool3d_with_indices_backward adaptive_max_pool2d adaptive_max_pool2d_backward
        fractional_max_pool2d
    """,
    "several elements are added to one: conflicts between threads": """
        index_put _unsafe_index_put scatter scatter_add scatter_reduce index_add index_copy
        embedding_dense_backward put masked_scatter
    """,
    "random numbers, equal to eager's": """
        native_dropout bernoulli rand randn rand_like randn_like randint randint_like randperm
        multinomial uniform normal normal_functional exponential
    """,
}

EXTERN_REASONS: Mapping[str, str] = MappingProxyType(
    {name: reason for reason, names in _REASONS.items() for name in names.split()}
)
"""Why each operator is extern, by its name without namespace and overload."""
