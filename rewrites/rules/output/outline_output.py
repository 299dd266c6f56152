"""What prints, logs or warns becomes an operator: the same text, in the same order, and no break.

torch.compile does not trace `print` with tensors, loggers (not even one whose level is too low)
and `warnings.warn`. As an operator the statement runs when its turn comes, with the values of
that moment, also when something later raises.

Before:

    def forward(self, x):
        h = self.encoder(x)
        if h.abs().max() > 1e4:
            logger.warning("large activations: %s", h.abs().max().item())
        return h.mul_(self.scale)

After:

    @torch.library.custom_op("model::report_h", mutates_args=())
    def _report_h(h: torch.Tensor) -> None:
        if h.abs().max() > 1e4:
            logger.warning("large activations: %s", h.abs().max().item())

    _report_h.register_fake(lambda *args: None)
    if hasattr(_report_h, "register_effect"):  # torch 2.10
        _report_h.register_effect(torch.library.EffectType.ORDERED)

    def forward(self, x):
        h = self.encoder(x)
        if torch.compiler.is_compiling():
            _report_h(h)
        elif h.abs().max() > 1e4:
            logger.warning("large activations: %s", h.abs().max().item())
        return h.mul_(self.scale)

What logs or warns stays in eager code: a record names the function and the line it comes from, and
a log that is switched off costs less than the call of an operator. Lines of a function that differ
in their first text alone share one operator, which takes it. What writes to a stream, such as
`print`, calls the operator in eager code as well.

Without its effect, Inductor drops an operator that returns nothing as dead code. Even with it,
Inductor of torch 2.13 may run two of them in another order if that saves memory.

Other ways, and why they are not taken: `torch._dynamo.config.reorderable_logging_functions` prints
at the end of the graph, with the values of the end; `ignore_logging_functions` and a guard with
`torch.compiler.is_compiling()` (FG113) drop the text; `leaf_function` does not run under Inductor.

In compiled code a record names the operator as the function and the line it comes from.

Unsafe where the statement calls a function of which it is not known that it changes nothing; on a
GPU, where it must not be captured in a CUDA graph (`mode="reduce-overhead"`); and where it shows a
tensor that asks for a gradient: a compiled program shows it without `grad_fn=`.

Refuses: `stacklevel=2` (the callers of a compiled operator are not the program's), statements that
change something or draw random numbers, and values that an operator cannot take (`self.logger`,
other objects, what was not seen).
"""

from __future__ import annotations

from fullgraph.compiler.categories import Category as C
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.branches.output import find_branch_refusal
from fullgraph.rewrites.transforms.outline import (
    KEPT_IN_ORDER,
    OperatorKind,
    find_outlined_statement,
    is_output_statement,
    names_its_place,
    outline_statement,
)

REPORT = OperatorKind("report", is_output_statement, KEPT_IN_ORDER, names_its_place)
WHY = "As an operator it runs when its turn comes and writes what it wrote."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    statement = find_outlined_statement(site, is_output_statement)
    if statement is None:
        return None
    if (refusal := find_branch_refusal(site, statement)) is not None:
        return refusal
    return outline_statement(site, statement, REPORT, WHY)


WRITTEN = frozenset(
    one.value
    for one in (
        C.PRINT, C.WARNING, C.TEXT, C.BRANCH, C.COMPARISON, C.GUARD, C.SCALAR, C.MASK, C.NONZERO,
        C.DYNAMIC_SHAPE, C.NUMPY_SCALAR, C.NUMPY, C.CLOCK, C.SYSTEM, C.GRAD_FN, C.REQUIRES_GRAD,
        C.CALL, C.BUILTIN, C.SKIPPED, C.C_EXTENSION, C.INTROSPECTION,
    )
)  # fmt: skip
"""Categories of the causes that may be inside an output statement."""

RULE = Rule("FG112", "outline-output", WRITTEN, rewrite)
