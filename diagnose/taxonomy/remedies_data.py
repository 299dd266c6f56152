"""Remedies where the data decides, and for NumPy."""

from __future__ import annotations

import re
from dataclasses import replace

from fullgraph.compiler.categories import Category as C
from fullgraph.diagnose.taxonomy.flow import COMPUTED, INPUTS
from fullgraph.diagnose.taxonomy.remedy import (
    HELD,
    OUTSIDE,
    Remedy,
    calls_above,
    ends_endless_loop,
    exits,
    is_iterated,
    is_numpy,
    is_slice,
    is_used,
)
from fullgraph.diagnose.taxonomy.usage import NUMPY_VALUE, Usage

_OUTSIDE = replace(OUTSIDE, if_=lambda usage: usage.below)
"""For code of torch or Python that broke below the user's: what changes the user's code is none."""

_SIZE = r"\.(shape|size|numel|nelement)\b|\blen\("
"""Finds the size of something in an expression."""
_NUMBER = r"\.item\(\)|(?<!\.)\b(int|float|bool)\("
"""Finds the conversion of a tensor to a Python number."""
_WRITES = re.compile(r"\]\s*[-+*/]?=[^=]")
"""Finds an assignment to elements of a tensor."""


def _reads_number(usage: Usage) -> bool:
    """Return whether the expression reads a number that was taken out of a tensor before."""
    return any(re.search(_NUMBER, origin) for origin in usage.origins.values())


_RESULT = "Compute both results and choose with `torch.where({condition}, …, …)`."

REMEDIES: dict[C, tuple[Remedy, ...]] = {
    C.BRANCH: (
        HELD,
        _OUTSIDE,
        Remedy(
            "Write `{member}` instead, and choose with `torch.where`.",
            r" in ",
        ),
        Remedy(
            "Reduce the whole tensor at once with `{reduction}`, and choose with `torch.where`.",
            r"\A(any|all)\(",
        ),
        Remedy(
            "Choose with `torch.where({condition}, …, …)` between what the `except` gives and the "
            "usual result, without a `raise`.",
            if_=exits("handled raise"),
        ),
        Remedy(
            "Raise from inside the graph with `torch._assert_async({stay}, …)`.",
            if_=exits("raise"),
            fix="Raise from inside the graph",
        ),
        Remedy(
            "Raise from inside the graph with `torch._assert_async`, of the whole condition as one "
            "tensor: `and`, `or` and `not` become `&`, `|` and `~`.",
            if_=exits("raise"),
            fix="Raise from inside the graph",
        ),
        Remedy(
            "Write the loop as `while_loop` of `torch._higher_order_ops`, with `{exit}` as the "
            "condition that ends it.",
            if_=ends_endless_loop,
            fix="Turn the loop into",
        ),
        Remedy(
            "Run every iteration, and keep what was computed before the exit with `torch.where` "
            "and a mask `done = done | ({exit})`.",
            if_=exits("break"),
        ),
        Remedy(
            "Run every iteration, and keep what was computed before the exit with `torch.where` "
            "and a mask of the whole condition.",
            if_=exits("break"),
        ),
        Remedy(
            "Compute every iteration, and drop its result with `torch.where` where `{exit}` holds.",
            if_=exits("continue"),
        ),
        Remedy(
            "Compute the condition with torch instead of NumPy, and choose with `torch.where`.",
            if_=is_numpy,
        ),
        Remedy(
            "Do what the branch does at all times, where that is harmless, and write "
            "`torch.where({condition}, new, old)`.",
            if_=lambda usage: usage.branch_writes and not usage.exit,
            fix="Choose with `torch.where`",
        ),
        Remedy(
            "Decide {it} before the compiled function is called: one side returns None, and no "
            "tensor stands for that.",
            if_=exits("return None"),
        ),
        Remedy(_RESULT, if_=exits("return"), fix="Choose with `torch.where`"),
        Remedy(
            "Turn the loop into `while_loop` of `torch._higher_order_ops`, with `{condition}` as "
            "its condition.",
            if_=lambda usage: usage.loop == "while" and usage.statement.startswith("while"),
            fix="Turn the loop into",
        ),
        Remedy("Choose with `torch.where({condition}, …, …)`.", fix="Choose with `torch.where`"),
        Remedy(
            "Choose with `torch.where`: `and`, `or` and chains in {it} become `&` and `|`.",
            fix="Choose with `torch.where`",
        ),
    ),
    C.GUARD: (
        Remedy("Make `{step}` a Python int: `range` takes it out of a tensor here."),
        Remedy(
            "Give what `{callee}` takes a size that does not depend on data (mask elements instead "
            "of selecting them), or say what holds for it with `torch._check`.",
            if_=lambda usage: usage.has_shape,
        ),
        Remedy(
            "Loop over a number of rows that is known, and mask those that do not count: data "
            "decide how often {it} iterates.",
            if_=is_iterated,
        ),
        Remedy(
            "Check before the elements are selected, with `torch._assert_async(~mask.any(), …)`: "
            "their number is known only at run time.",
            _SIZE,
            lambda usage: usage.exit == "raise" and not _reads_number(usage),
        ),
        Remedy(
            "Raise from inside the graph with `torch._assert_async`: compare the tensor that the "
            "number in {it} comes from.",
            if_=exits("raise"),
        ),
        Remedy(
            "Make a tensor of what `{container}` holds and read it with `.take(index)`: a Python "
            "container cannot be indexed by data.",
        ),
        Remedy(
            "Mask with `torch.arange(…) < n` instead of slicing up to a number that data decide.",
            r"\A[^\n]*\[[^\]]*:[^\]]*\]\s*\Z|\A:|:\Z",
        ),
        Remedy(
            "Run every iteration, and keep what was computed before the exit with `torch.where` "
            "and a mask: compare the tensor that the number in {it} comes from.",
            if_=exits("break"),
        ),
        Remedy(
            "Keep the size in {it} from depending on data: mask elements instead of selecting "
            "them, and pass sizes in as numbers.",
            _SIZE,
            lambda usage: not _reads_number(usage),
        ),
        Remedy(
            "Where both sides compute tensors of one shape, choose with `torch.where`, on the "
            "tensor that the number in {it} comes from; else decide before the compiled function "
            "is called, or let the branch break. What holds for a size `torch._check` can say.",
            r"[<>]|==|!=",
            fix="Choose with `torch.where`",
        ),
        Remedy(
            "Work with the tensor that the number in {it} comes from, or say what holds for the "
            "number with `torch._check`.",
        ),
    ),
    C.SCALAR: (
        Remedy(
            "Call the tensor's own method instead of `math`: `{method}`.",
            r"\bmath\.",
            fix="Use the tensor's own method",
        ),
        Remedy(
            "Loop to the end of what is sliced, and mask the rounds that do not count: data decide "
            "where {it} ends.",
            if_=lambda usage: is_slice(usage) and usage.is_iterated,
        ),
        Remedy(
            "Write with `index_copy_` at the positions `{window}`.",
            if_=lambda usage: is_slice(usage) and _WRITES.search(usage.statement),
            fix="Write with `index_copy_`",
        ),
        Remedy(
            "Write through a mask, `torch.where(torch.arange(…) < n, …, …)`: {it} depends on data.",
            if_=lambda usage: is_slice(usage) and _WRITES.search(usage.statement),
        ),
        Remedy(
            "Index with `{window}` instead of slicing with {it}: the length stays the same.",
            if_=is_slice,
        ),
        Remedy("Mask with `torch.arange(…) < n` instead of slicing with {it}.", if_=is_slice),
        Remedy(
            "Pass `{number}` as {kind}: `{callee}` needs the number itself, and takes it out of "
            "a tensor here.",
            r"\A(torch|F|nn\.functional)\.\w+\(",
        ),
        Remedy("Make `{step}` a Python int: `range` takes it out of a tensor here."),
        _OUTSIDE,
        Remedy(
            "Replace the loop by one operation on the whole tensor: {it} needs a Python number "
            "for each iteration.",
            if_=lambda usage: usage.is_indexed_by_loop,
        ),
        Remedy(
            "Guard the statement with `if not torch.compiler.is_compiling():`, where {it} is only "
            "shown.",
            if_=lambda usage: usage.uses == {"shown"},
        ),
        Remedy(
            "Assert inside the graph with `torch._assert_async`, of the tensor in place of {it}.",
            _NUMBER,
            is_used("asserted"),
        ),
        Remedy(
            "Keep {tensor} in place of {it}, and choose with `torch.where` where it decides "
            "between tensors of one shape; else take the number outside the compiled function.",
            _NUMBER,
            is_used("branch"),
        ),
        Remedy(
            "Pass the number in as a Python int in place of {it}, or keep the whole size and mask, "
            "with `torch.arange(…) < n`: a size taken from a tensor is known only at run time.",
            _NUMBER,
            is_used("size"),
        ),
        Remedy(
            "Index with a tensor of torch: the numbers in {it} are NumPy's.",
            r"\A[A-Za-z_][\w.]*\[.+\]\Z",
            lambda usage: any(map(NUMPY_VALUE.match, usage.parts.values())),
        ),
        Remedy(
            "Index with the tensor in place of its number, {it}.",
            _NUMBER,
            lambda usage: usage.uses == {"index"},
        ),
        Remedy(
            "Return the tensor in place of {it}, and take its number outside the compiled "
            "function.",
            _NUMBER,
            lambda usage: usage.uses == {"returned"},
            fix="Return the tensor",
        ),
        Remedy(
            "Keep {tensor} in place of {it} where it is only computed with; a size, an index "
            "or a key is best passed in.",
            _NUMBER,
            lambda usage: not re.search(r"\b(min|max|range)\(|clamp|clip|size\(", usage.statement),
            fix="In arithmetic",
        ),
        Remedy(
            "Pass the sizes in as a list of ints in place of {it}: they must be Python numbers.",
            r"\.tolist\(\)\Z",
            is_used("size"),
        ),
        Remedy(
            "Pass the numbers in as a list, made outside the compiled function, in place of {it}.",
            r"\.tolist\(\)\Z",
            lambda usage: re.search(r"\w\([^=]*\.tolist\(\)\s*[,)]", usage.statement),
        ),
        Remedy(
            "Keep the tensor in place of {it}: index it, or index with it.",
            r"\.tolist\(\)\Z",
            lambda usage: not re.search(r"size\(|shape", usage.expression),
        ),
    ),
    C.NUMPY_SCALAR: (
        Remedy("Compute the number with Python, `{python}`: Dynamo traces NumPy's as a tensor."),
        Remedy(
            "Compute {it} once, in `__init__` or at the top of the file, or from Python numbers: "
            "no tensor decides it.",
            if_=lambda usage: usage.is_numpy and "jump" in usage.context,
        ),
        Remedy(
            "Give {it} a Python number in place of `{traced}`, which comes from NumPy: traced "
            "NumPy is made of tensors.",
        ),
    ),
    C.MASK: (
        _OUTSIDE,
        Remedy(
            "Keep the full shape: `{filled}` in place of {it}, and divide by the number of "
            "elements that count.",
            if_=lambda usage: usage.uses == {"averaged"},
            fix="For a mean",
        ),
        Remedy(
            "Keep the full shape: `{filled}` in place of {it}, with a value that does not count.",
            if_=lambda usage: usage.uses <= {"averaged", "reduced"},
            fix="Reduce with zeros",
        ),
        Remedy(
            "Where what follows treats each element alone, compute with the whole tensor, and "
            "choose at the end with `torch.where`; else keep the selection, whose length depends "
            "on data, and set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`.",
            trap="The masked-out elements can still put a NaN into the gradient.",
        ),
    ),
    C.NONZERO: (
        _OUTSIDE,
        Remedy(
            "Replace the loop over {it} by one operation with the mask, such as `torch.where`.",
            if_=is_iterated,
            fix="Work on whole rows",
        ),
        Remedy("Take the first index with `{first}`, which is 0 where there is none."),
        Remedy(
            "Use the mask itself, as in `torch.where(mask, x, 0)`, in place of the indices that "
            "{it} gives.",
            if_=lambda usage: not usage.uses or "index" in usage.uses,
            fix="Work on whole rows",
        ),
        Remedy(
            "Reduce positions under the mask in place of {it}: "
            "`torch.where(mask, torch.arange(n), n).min()` is the first index.",
            if_=lambda usage: usage.uses == {"reduced"},
        ),
        Remedy(
            "Return the mask, and take the indices that {it} gives outside the compiled function; "
            "or set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`.",
            if_=lambda usage: usage.uses == {"returned"},
        ),
        Remedy(
            "Use the mask itself where the indices of {it} select or write: "
            "`torch.where(mask, …, …)`. If their number is known, "
            "`torch.nonzero_static(…, size=k)` gives them.",
        ),
    ),
    C.DYNAMIC_SHAPE: (
        Remedy(
            "Give the number of classes: `{classes}`, if {count} is all there are.",
            r"one_hot\(",
            fix="Give `one_hot`",
        ),
        Remedy(
            "Give `{callee}` the sum of the repeats as `output_size=`.",
            r"repeat_interleave\(",
            fix="Give `repeat_interleave`",
        ),
        Remedy("Call {it} {outside}."),
    ),
    C.NUMPY: (
        Remedy(
            "Draw with torch: `torch.randperm(n)` in place of {it}.",
            r"random\.(permutation|shuffle)\(",
        ),
        Remedy(
            "Make the grid with `torch.meshgrid` in place of {it}.",
            r"mgrid|ogrid",
            fix="Make the grid",
        ),
        Remedy("In place of {it}, {numpy}."),
        Remedy(
            "Compute {it} with torch's operations: what it reads is known only in the call.",
            if_=lambda usage: usage.reads in (INPUTS, COMPUTED),
        ),
        Remedy(
            "Compute {it} once in `__init__` if no input is needed, else with torch's operations.",
        ),
    ),
    C.HIGHER_ORDER: (
        Remedy(
            "Move {it} out of the checkpointed function: what it does would be done again in the "
            "backward.",
            if_=calls_above(r"\bcheckpoint\("),
        ),
        Remedy(
            "Return the value from the function that `{outer}` traces, and do {it} outside.",
            r"\.(append|extend|add|update|insert|pop|setdefault)\(|\]\s*=|=",
        ),
        Remedy(
            "Return a clone where a branch of {it} returns its input.",
            r"cond\(",
            fix="Return a clone",
        ),
    ),
    C.OPERATOR_ERROR: (Remedy("Check the arguments of {it}: the operator refuses them."),),
}
