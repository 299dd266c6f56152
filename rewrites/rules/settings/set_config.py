"""Where no edit of the source is right, a setting of the compiler may be.

- `torch._dynamo.config.capture_scalar_outputs = True`: numbers taken out of tensors stay symbols.
  Sizes made of them need `torch._check`, and branches on them still break.
- `torch._dynamo.config.capture_dynamic_output_shape_ops = True`: masks and `nonzero` give tensors
  of a symbolic size. What asks for that size still breaks.
- `torch._dynamo.config.allow_rnn = True`: LSTM, GRU and RNN are traced; it fails for some backends.
- `@torch.compiler.disable` on the smallest function around a call that nothing else helps.

These are ideas: a setting holds for the whole process.

Refuses: nothing; it never edits.
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule
from fullgraph.rewrites.site import Site

_SCALARS = "set `torch._dynamo.config.capture_scalar_outputs = True`, process-wide"
_SHAPES = "set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`, process-wide"
_IDEAS = {
    Category.SCALAR.value: _SCALARS,
    Category.MASK.value: _SHAPES,
    Category.NONZERO.value: _SHAPES,
    Category.DYNAMIC_SHAPE.value: _SHAPES,
    Category.RNN.value: "set `torch._dynamo.config.allow_rnn = True`; it fails for some backends",
    Category.C_EXTENSION.value: "wrap the call in a `torch.library.custom_op` with a fake kernel",
    Category.FAKE.value: "register a fake kernel for the operator with `register_fake`",
    Category.SPARSE.value: "densify before the compiled region, or disable compilation around it",
}


def rewrite(site: Site) -> Rewrite | None:
    return Rewrite({}, _IDEAS[site.category], Applicability.DISPLAY)


RULE = Rule("FG901", "set-config", frozenset(_IDEAS), rewrite)
