"""A helper that computes on the values of tensors becomes an operator of its own.

Greedy loops, assignments, NumPy and SciPy are no tensor programs. A `torch.library.custom_op` runs
them as they are, in one graph with what is around them; its fake kernel says which shapes come
out, and a size that only the data decide is a `new_dynamic_size()`.

Before:

    def assign(cost):
        rows, columns = linear_sum_assignment(cost.detach().numpy())
        return torch.from_numpy(columns)

After:

    def assign(cost):
        if torch.compiler.is_dynamo_compiling():
            return _assign_op(cost)
        rows, columns = linear_sum_assignment(cost.detach().numpy())
        return torch.from_numpy(columns)

with

    @torch.library.custom_op("matcher::assign", mutates_args=())
    def _assign_op(cost: torch.Tensor) -> torch.Tensor:
        return assign(cost)


    @_assign_op.register_fake
    def _assign_fake(cost):
        size = torch.library.get_ctx().new_dynamic_size()
        return cost.new_empty((size,), dtype=torch.int64)

Eager code and TorchScript run the function as before, with any arguments. So does compiled code for
what the operator cannot do, where its parameters do not tell: `and not cost.requires_grad` follows
if the result is floating, `and isinstance(limit, float)` for a parameter without a type,
`and cost.dim() == 2` if the fake kernel relies on it, and `and self.pads` or `and mode == "rows"`
if a branch on that setting decides the shape of the result or what is changed in place.

The body of a method that reads attributes of `self` moves into a function first, `_assign_impl`,
which takes them as parameters; so does, in `forward` itself, the statement with the cause, with up
to three that follow, so that tensors and numbers alone go in and come out. Eager code calls that
function, compiled code `_assign_op = torch.library.custom_op("…", _assign_impl, mutates_args=())`.

The source of what is returned decides the device and the dtype: `torch.tensor(...)` and
`torch.from_numpy(...)` are on the CPU, whatever the arguments are. Runs on inputs of other sizes
tell apart arguments that were equally large. Where neither can tell, an assumption says what was
chosen. The fake kernel is compared with the operator on all inputs.

Always unsafe: the shapes are those of the inputs that were seen, no gradient flows through the
operator, and it must read nothing but its arguments. `.detach()` is written where the code ends the
gradient as well. Where an argument may be None, compiled code calls the operator only for other
values.

Refuses: helpers that look at the frames around them, that raise what a caller's `try` handles, that
change what they are given, that need more of `self` than tensors and numbers, through which a
gradient flows, that return anything but tensors and ints, that neither take nor return a tensor
(Inductor runs no such operator), that the operator cannot call by their name (it is bound again, or
that of a parameter), that import `torch` for themselves, or that have decorators other than
`staticmethod`, `torch.no_grad` and `torch.inference_mode`; code of a method that reads `super()` or
names with two underscores; statements that change variables, or from which control goes on
elsewhere.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.boundaries import (
    define_operator,
    define_operator_of_statements,
    find_helper,
)

_OF_DATA = frozenset(
    {
        Category.BRANCH,
        Category.COMPARISON,
        Category.GUARD,
        Category.SCALAR,
        Category.MASK,
        Category.MASKED_ASSIGNMENT,
        Category.NONZERO,
        Category.BINCOUNT,
        Category.DYNAMIC_SHAPE,
        Category.SYMBOLIC_SHAPE,
        Category.RANDOM,
        Category.NUMPY_SCALAR,
        Category.NUMPY_LOOP,
        Category.NUMPY,
        Category.C_EXTENSION,
        Category.SKIPPED,
        Category.OPAQUE,
        Category.BUILTIN,
        Category.LOOP,
        Category.ITERATOR,
        Category.COMPREHENSION,
        Category.NON_TENSOR,
        Category.CALL,
        Category.FAKE,
        Category.SPARSE,
        Category.NESTED,
    }
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    helper = find_helper(site)
    if helper is None:
        return None
    try:
        if isinstance(helper, cst.FunctionDef):
            edit = define_operator(site, helper)
        else:
            edit = define_operator_of_statements(site)
    except NotApplicable as escape:
        return helper if isinstance(helper, Refusal) else Refusal(str(escape))
    what = f"`{helper.name.value}`" if isinstance(helper, cst.FunctionDef) else "This code"
    return Rewrite(
        edit.replacements,
        f"{what} becomes an operator in compiled code, which is neither traced nor a break.",
        Applicability.UNSAFE,
        tuple(edit.assumes),
        imports=("torch",),
        as_compiled=edit.as_compiled,
    )


RULE = Rule(
    "FG904",
    "call-as-operator",
    frozenset(category.value for category in _OF_DATA),
    rewrite,
    boundary=2,
)
