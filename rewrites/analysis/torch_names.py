"""Properties of torch functions, methods and layers, by the last part of the name."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the whitespace-separated words of a text."""
    return frozenset(text.split())


RANDOM = word_set(
    """
    alpha_dropout bernoulli binomial dropout dropout1d dropout2d dropout3d
    feature_alpha_dropout feature_dropout fractional_max_pool2d fractional_max_pool3d
    gumbel_softmax multinomial normal poisson rand rand_like randint randint_like randn
    randn_like randperm rrelu
    """
)
EFFECTS = word_set(
    """
    __delitem__ __setitem__ _assert _assert_async _check backward compile load manual_seed
    register_hook register_post_accumulate_grad_hook retain_grad save seed
    set_default_device set_default_dtype set_grad_enabled set_num_threads set_rng_state
    synchronize
    """
)
PURE_CALLS = word_set(
    """
    abs all any bool callable dict enumerate float getattr hasattr id int isinstance len
    list max min range repr reversed round set slice sorted str sum tuple type zip
    """
)
OWNERS = word_set(
    """
    math operator torch torch.Tensor torch._C._nn torch.fft torch.functional torch.linalg
    torch.nn.functional torch.nn.parameter.Parameter torch.special
    """
)
STATEFUL_LAYERS = ("BatchNorm", "InstanceNorm", "Dropout", "RReLU", "LSTM", "GRU", "RNN")
ELEMENTWISE = word_set(
    """
    abs absolute acos acosh add addcdiv addcmul arccos arcsin arctan asin asinh atan atan2
    atanh bfloat16 bitwise_and bitwise_not bitwise_or bitwise_xor bool byte ceil celu clamp
    clamp_max clamp_min clip clone contiguous copysign cos cosh deg2rad detach div divide
    double elu eq erf erfc erfinv exp exp2 expm1 float floor floor_divide fmax fmin fmod
    frac full_like ge gelu gt half hardsigmoid hardswish hardtanh heaviside hypot int
    isclose isfinite isinf isnan le leaky_relu lerp log log10 log1p log2 logaddexp
    logical_and logical_not logical_or logical_xor logit logsigmoid long lt masked_fill
    maximum minimum mish mul multiply nan_to_num ne neg negative ones_like positive pow
    rad2deg reciprocal relu relu6 remainder round rsqrt selu sgn short sigmoid sign silu sin
    sinc sinh softplus softsign sqrt square sub subtract tan tanh tanhshrink threshold to
    true_divide trunc type type_as where xlogy zeros_like
    """
)
VIEWS = word_set(
    """
    Dropout Flatten H Identity T Unflatten atleast_1d atleast_2d atleast_3d bfloat16 bool
    broadcast_to byte chunk conj contiguous cpu cuda data dequantize detach diagonal double
    expand expand_as flatten float half identity imag index_select_ int long mH mT movedim
    narrow permute positive ravel real reshape reshape_as select short split squeeze
    swapaxes swapdims t tensor_split to transpose type type_as unbind unflatten unfold
    unsqueeze view view_as view_as_complex view_as_real
    """
)
ACTIVATIONS = word_set(
    """
    AvgPool1d AvgPool2d AvgPool3d CELU Dropout ELU Flatten GELU GLU Hardsigmoid Hardswish
    Hardtanh Identity LeakyReLU LogSigmoid LogSoftmax MaxPool1d MaxPool2d MaxPool3d Mish
    ReLU ReLU6 SELU SiLU Sigmoid Softmax Softplus Softsign Tanh Unflatten Upsample
    """
)
"""Layers without parameters."""
