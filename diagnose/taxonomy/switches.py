"""Settings of the compiler that help against a category, and what they cost."""

from __future__ import annotations

from fullgraph.compiler.categories import Category as C
from fullgraph.diagnose.taxonomy.fix import Fix, config

_SCALARS = config(
    "torch._dynamo.config.capture_scalar_outputs = True",
    "A branch on the number, `range` over it or a float `.tolist()` breaks all the same or is a "
    "data-dependent error; sizes made of it need `torch._check`.",
    before="y = x * x.sum().item()",
)
_SHAPES = config(
    "torch._dynamo.config.capture_dynamic_output_shape_ops = True",
    "Shapes stay unknown until run time: later code that branches on them or needs them static "
    "is a data-dependent error, and kernels are less specialised.",
    before="y = x[mask]",
)
_AUTOGRAD = config(
    "torch._dynamo.config.trace_autograd_ops = True",
    "Needs torch 2.12. Only for leaves, and for tensors made inside the graph.",
    before="w = x.detach().requires_grad_()\n(w * w).sum().backward()\ny = w.grad",
)
_COMPILED_AUTOGRAD = config(
    "torch._dynamo.config.compiled_autograd = True",
    "The backward is compiled at its first call, once for each autograd graph.",
    before="y = hooked(x)",
)
_LIMIT = config(
    "torch._dynamo.config.recompile_limit = 32",
    "It only moves the limit: each version costs a compile, and a guard check at every call.",
)

SWITCHES: dict[C, tuple[Fix, ...]] = {
    C.SCALAR: (_SCALARS,),
    C.NUMPY_SCALAR: (
        config(
            "torch._dynamo.config.capture_scalar_outputs = True",
            "It does not help where NumPy itself makes the Python number (`np.prod(shape)`).",
            before="y = x * float(np.mean([1, 2]))",
        ),
    ),
    C.MASK: (_SHAPES,),
    C.MASKED_ASSIGNMENT: (_SHAPES,),
    C.NONZERO: (_SHAPES,),
    C.BINCOUNT: (_SHAPES,),
    C.DYNAMIC_SHAPE: (_SHAPES,),
    C.PRINT: (
        config(
            "torch._dynamo.config.reorderable_logging_functions = {print}",
            "The call moves behind the graph: it shows what a tensor is then, not what it was at "
            "the call. Only functions on tensors and constants; not `x.shape`, no Logger methods.",
            before='print("sum", x.sum())\ny = x + 1',
        ),
        config(
            "torch._dynamo.config.ignore_logging_functions = {print}",
            "The output is dropped. Needs torch 2.12; for a logger, name the method: "
            "`{logging.Logger.info}`.",
            before="print(x.shape)\ny = x + 1",
        ),
    ),
    C.RNN: (
        config(
            "torch._dynamo.config.allow_rnn = True",
            "The RNN is decomposed step by step: compile time grows with the sequence length, and "
            "the AOT backends may fail on it.",
            before="y = rnn(x)[0]",
        ),
    ),
    C.AUTOGRAD: (_AUTOGRAD,),
    C.HOOK: (_COMPILED_AUTOGRAD,),
    C.RECOMPILE_LIMIT: (_LIMIT,),
}
