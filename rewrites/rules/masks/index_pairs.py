"""`torch.combinations(x)` selects the pairs by a mask, whose number of hits depends on data.

The pairs depend on the length of `x` alone, and `torch.triu_indices` lists them in the same order.

Before:

    i, j = torch.combinations(x).T
    pairs = torch.combinations(x, with_replacement=True)

After:

    i, j = x[torch.triu_indices(len(x), len(x), 1, device=x.device).T].T
    pairs = x[torch.triu_indices(len(x), len(x), device=x.device).T]

The elements, their order, the dtype and the gradient stay. Unsafe for an argument: of two
dimensions or none the original is an error, and in half precision the gradient of an element is
added up with larger errors.

Refuses: combinations of another number than two, a `with_replacement=` that is no literal, and
tensors that are no name, because they would be computed twice.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Operation, Site, operation_of, parameter_of
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression, dotted_name, integer_literal


def rewrite(site: Site) -> Rewrite | Refusal | None:
    operation = operation_of(site, site.node)
    if operation is None or operation.name != "combinations" or not operation.operands:
        return None
    tensor = operation.operands[0]
    seen = site.observed(tensor)
    if seen is None or not seen.is_tensor or seen.dims != {1}:
        return Refusal("it is not known to be a tensor of one dimension")
    if not dotted_name(tensor):
        return Refusal("what is combined would be computed twice: give it a name")
    number = _argument(operation, 1, "r")
    if number is not None and integer_literal(number) != 2:
        return Refusal("only pairs have indices of their own, `torch.triu_indices`")
    repeated = _argument(operation, 2, "with_replacement")
    if repeated is not None and dotted_name(repeated) not in ("True", "False"):
        return Refusal("`with_replacement=` is no literal")
    diagonal = "" if repeated is not None and dotted_name(repeated) == "True" else "1, "
    new = build_expression(
        "{x}[torch.triu_indices(len({x}), len({x}), {diagonal}device={x}.device).T]",
        x=tensor,
        diagonal=diagonal,
    )
    why = "The pairs depend on the length alone: `torch.triu_indices` has them, in this order."
    code = site.document.code(tensor)
    assumes = (
        f"`{code}` is a tensor of one dimension in each call",
        f"no gradient of `{code}` is computed in half precision",
    )
    given = parameter_of(site.document, tensor) is not None
    return Rewrite({site.node: new}, why, assumes=assumes if given else (), imports=("torch",))


def _argument(operation: Operation, index: int, name: str) -> cst.BaseExpression | None:
    """Return the argument at position `index` or, if there is none, the keyword argument `name`.

    None if neither is given.
    """
    if len(operation.operands) > index:
        return operation.operands[index]
    return operation.keywords.get(name)


RULE = Rule("FG411", "index-pairs", frozenset({Category.DYNAMIC_SHAPE.value}), rewrite)
