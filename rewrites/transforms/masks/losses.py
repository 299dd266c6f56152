"""Calls of torch's losses, as functions or as modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import Site, walk
from fullgraph.rewrites.source import dotted_name
from fullgraph.rewrites.transforms.masks.operators import LOSS_MODULES, LOSSES

_MODULE = "torch.nn.modules.loss."


@dataclass(frozen=True, eq=False)
class Loss:
    """Call of a loss function or a loss module with two tensors: `F.mse_loss(a, b)`."""

    call: cst.Call
    name: str
    """The function's name: "mse_loss"."""
    input: cst.BaseExpression
    target: cst.BaseExpression
    options: dict[str, cst.BaseExpression]
    """Other arguments by name, including those of the module's constructor."""
    module: bool = False
    """Whether a module computes the loss, not a function."""
    known: bool = True
    """Whether the module's constructor was found."""

    @property
    def reduction(self) -> str:
        """Return "mean", "sum", "none" or "batchmean"; "" if unknown."""
        given = self.options.get("reduction")
        if given is None:
            return "mean"
        return str(given.evaluated_value) if isinstance(given, cst.SimpleString) else ""


def find_loss(site: Site, call: cst.Call) -> Loss | None:
    """Return the loss that a call computes; None for other calls."""
    module, _, name = site.callee_name(call).rpartition(".")
    options = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    plain = [arg.value for arg in call.args if arg.keyword is None]
    if any(arg.star for arg in call.args):
        return None
    if module == "torch.nn.functional" and name in LOSSES:
        return _parse_loss(call, name, plain, options)
    seen = site.observed(call.func)
    kinds = [t.removeprefix(_MODULE) for t in seen.types] if seen is not None else []
    made = _constructor_of(site, call.func)
    kind = kinds[0] if len(kinds) == 1 else ""
    if made is not None and not kinds:
        kind = site.document.qualified_name(made.func).rpartition(".")[2]
    if kind not in LOSS_MODULES:
        return None
    if made is not None:
        if any(arg.keyword is None or arg.star for arg in made.args):
            return None
        options = {a.keyword.value: a.value for a in made.args if a.keyword is not None} | options
    return _parse_loss(
        call, LOSS_MODULES[kind], plain, options, module=True, known=made is not None
    )


def _parse_loss(
    call: cst.Call,
    name: str,
    plain: Sequence[cst.BaseExpression],
    options: dict[str, cst.BaseExpression],
    *,
    module: bool = False,
    known: bool = True,
) -> Loss | None:
    """Return a loss with its operands and options; None if the call does not show both operands.

    `plain` are the positional arguments, and `options` the keyword arguments, from which the
    operands are removed. `module`: whether a module computes the loss. `known`: whether its
    constructor was found.
    """
    pair = [*plain, *(options.pop(key) for key in ("input", "target") if key in options)]
    if len(pair) != 2 or "size_average" in options or "reduce" in options:
        return None
    return Loss(call, name, pair[0], pair[1], options, module, known)


def _constructor_of(site: Site, func: cst.BaseExpression) -> cst.Call | None:
    """Return the call that made the loss module `func`: `nn.MSELoss()` for `self.loss`.

    None unless the file, or the class for `self.loss`, assigns a call to the name exactly once.
    """
    name = dotted_name(func)
    if isinstance(func, cst.Call):  # nn.MSELoss()(a, b)
        return func
    if not name:
        return None
    found: list[cst.BaseExpression] = []
    scope = next((n for n in site.document.ancestors(func) if isinstance(n, cst.ClassDef)), None)
    within = scope if name.startswith("self.") and scope is not None else site.document.module
    for one in walk(within):
        if isinstance(one, cst.Assign) and any(
            dotted_name(target.target) == name for target in one.targets
        ):
            found.append(one.value)
    return found[0] if len(found) == 1 and isinstance(found[0], cst.Call) else None
