"""A check that raises becomes an operator: same exception, same text, and no break.

Whether an `assert` fails or an `if …: raise` raises depends on a tensor's values, so the graph
breaks there. As an operator the check runs when its turn comes, in the compiled program too. A call
of `sys.exit`, `exit` or `quit` counts as a `raise`.

Before:

    def forward(self, x):
        h = self.encoder(x)
        if torch.isnan(h).any():
            raise ValueError(f"NaN after the encoder: {h}")
        return h

After:

    @torch.library.custom_op("model::check_h", mutates_args=())
    def _check_h(h: torch.Tensor) -> None:
        if torch.isnan(h).any():
            raise ValueError(f"NaN after the encoder: {h}")

    _check_h.register_fake(lambda *args: None)
    torch.fx.has_side_effect(torch.ops.model.check_h.default)

    def forward(self, x):
        h = self.encoder(x)
        _check_h(h)
        return h

Without the last line, Inductor drops an operator that returns nothing as dead code. Two checks of
one graph may run in another order if that saves memory.

What Dynamo decides first stays outside: `if labels is not None and labels.max() > n: raise …` is
`if labels is not None:` with the call of an operator that is given a tensor in any case. An `elif`
becomes an `else` with the call, if the branches before it do more than check, or Dynamo knows which
one is taken: `if x.dim() != 3: raise …`.

A number that breaks the graph and that only the check reads is computed in the operator too:
`n = int(mask.sum())` before `if n > 3: raise …`.

As before, the caller gets the exception itself, with its type and its message, compiled or not.
`torch._assert_async`, and so every `assert` that torch.compile traces, raises RuntimeError instead.
Floating-point tensors are detached where nothing tells it, so that the check runs under
`torch.func.grad` as well, where a custom operator takes no tensor that asks for a gradient. Those
that the message shows as tensors, and those that other functions get, stay as they are.

Unsafe where the check calls a function of which it is not known that it changes nothing; on a GPU,
where it must not be captured in a CUDA graph (`mode="reduce-overhead"`); where the message shows a
tensor that asks for a gradient, which a compiled program shows without `grad_fn=`; and where the
function changes an object before the check: compiled, that change is lost when the check fails.

Refuses: checks inside a `try` that handles the exception, checks that change something or draw
random numbers, and values that an operator cannot take (`self`, other objects, what was not seen).
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category as C
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.outline import (
    KEPT_ONCE,
    OperatorKind,
    find_outlined_statement,
    find_statement_after,
    is_check_statement,
    outline_statement,
)

CHECK = OperatorKind("check", is_check_statement, KEPT_ONCE)
WHY = "As an operator the check runs when its turn comes and raises what it raised."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    statement = find_outlined_statement(site, is_check_statement)
    if statement is None:
        statement = find_statement_after(site, is_check_statement)
    if statement is None:
        return None
    return outline_statement(site, statement, CHECK, WHY)


CHECKED = frozenset(
    one.value
    for one in (
        C.ASSERT, C.BRANCH, C.COMPARISON, C.GUARD, C.SCALAR, C.MASK, C.NONZERO, C.DYNAMIC_SHAPE,
        C.NUMPY_SCALAR, C.NUMPY, C.TEXT, C.EXCEPTION, C.PRINT, C.WARNING, C.CALL, C.BUILTIN,
    )
)  # fmt: skip
"""Categories of the causes that may be inside a check."""

RULE = Rule("FG101", "outline-check", CHECKED, rewrite)
