"""Remedies for autograd, tensors and modules of a special kind, and Python."""

from __future__ import annotations

import ast
import re

from fullgraph.compiler.categories import Category as C
from fullgraph.diagnose.taxonomy.remedy import HELD, OUTSIDE, Remedy
from fullgraph.diagnose.taxonomy.usage import Usage, parse


def _code_and_value(usage: Usage) -> str:
    return f"{usage.expression} {usage.value}"


def _has_output_gradients(usage: Usage) -> bool:
    """Return whether a call of `torch.autograd.grad` is given gradients of its outputs."""
    node = parse(usage.expression)
    if not isinstance(node, ast.Call):
        return False
    return len(node.args) > 2 or any(one.arg == "grad_outputs" for one in node.keywords)


REMEDIES: dict[C, tuple[Remedy, ...]] = {
    C.REQUIRES_GRAD: (
        Remedy(
            "Detach instead: `.detach()` gives a tensor that asks for no gradient.",
            fix="Detach instead",
            if_=lambda usage: re.search(
                r"requires_grad\b.*False|requires_grad_\(False", usage.statement
            ),
        ),
        Remedy(
            "Make the tensor that requires grad outside the compiled function and pass it in, "
            "instead of {it}.",
            r"requires_grad_\((True)?\)|requires_grad\s*=\s*True",
        ),
        Remedy(
            "Make the tensor that requires grad outside the compiled function and pass it in.",
            r"\Areturn",
        ),
    ),
    C.GRAD_FN: (
        Remedy(
            "Return the tensor, and call `.retain_grad()` on it outside the compiled function.",
            r"retain_grad",
        ),
        Remedy("Ask for `requires_grad` instead of {it}.", r"grad_fn\b(?!\.)", fix="Ask for"),
    ),
    C.HOOK: (
        Remedy(
            "Register the hook on a parameter, or on the output of the compiled function, instead "
            "of doing {it} inside.",
            if_=lambda usage: usage.is_in_hook,
        ),
        Remedy(
            "Hook the tensor instead: `y = {code}; y.register_hook(hook)`, with a `hook` that has "
            "no side effect.",
            r"\A[\w.]+\(",
            trap="It gets the gradient of the output only.",
        ),
    ),
    C.REGISTRATION: (
        Remedy(
            "Register the hook once, in `__init__`: {it} runs at every call.",
            fix="Register the hook once",
        ),
    ),
    C.AUTOGRAD: (
        Remedy(
            "Differentiate the function itself: `{func}` in place of {it}.",
            r"autograd\.functional\.",
        ),
        Remedy(
            "Leave the function around {it} to eager, with `torch.compiler.disable`: compiled code "
            "cannot be differentiated twice.",
            r"create_graph\s*=\s*True",
        ),
        Remedy(
            "Write {it} as a call of `torch.func.vjp`: it is a product with what it is given as "
            "gradients of the outputs.",
            r"autograd\.grad\(",
            _has_output_gradients,
        ),
        Remedy(
            "Return the loss, and call `{code}` outside the compiled function.",
            r"\.backward\(",
            fix="Call `.backward()`",
        ),
    ),
    C.SPARSE: (
        Remedy(
            "Make it dense outside the compiled function, instead of {it}.", r"\A(?!.*(mm\(|@))"
        ),
    ),
    C.TENSOR_MUTATION: (
        Remedy("Assign a new tensor to the name, instead of to {it}.", r"\.data\Z"),
        Remedy("Reshape instead of resizing.", r"resize_", fix="Reshape instead"),
        Remedy("Make a new tensor instead of changing one with {it}."),
    ),
    C.PARAMETER: (
        Remedy(
            "Make {it} once, in `__init__` or outside the compiled function: it holds parameters.",
            if_=lambda usage: re.search(r"\bParameter\(|\(nn\.Module\)", _code_and_value(usage)),
            fix="Make parameters",
        ),
        Remedy(
            "Make the parameter of {it} once, in `__init__` or outside the compiled function.",
            fix="Make parameters",
        ),
    ),
    C.MODULE: (
        Remedy(
            "Do {it} in `__init__` or outside the compiled function.",
            if_=lambda usage: not usage.is_computed,
        ),
    ),
    C.OPTIMIZER: (Remedy("Call {it} outside the compiled function.", fix="Make the step outside"),),
    C.EXCEPTION: (
        Remedy(
            "Check before the compiled function is called, and raise there; if the condition is "
            "computed inside, use `torch._assert_async`.",
            r"\Araise\b",
        ),
        Remedy(
            "Ask before the value is used whether {it} can work, instead of handling its error.",
            if_=lambda usage: usage.is_handled,
        ),
        OUTSIDE,
    ),
    C.GENERATOR: (
        Remedy(
            "Write {it} as a list, or reduce the whole tensor at once.",
            r"\A\(.* for .* in .*\)\Z",
        ),
        Remedy(
            "Compile the function that calls the generator; if that is compiled, remove the break "
            "that leaves it to eager.",
            fix="Compile the function that calls",
        ),
    ),
    C.ITERATOR: (Remedy("Loop over a list or a tuple, made outside of {it}."),),
    C.CONTEXT_MANAGER: (
        Remedy(
            "Nest `with` statements instead of {it}.",
            r"ExitStack|enter_context",
            fix="Nest `with`",
        ),
        Remedy(
            "Give `device=` to the functions that make tensors, instead of {it}.",
            r"torch\.device|set_default_device",
            fix="Give `device=`",
        ),
        Remedy(
            "Make the manager in the `with` that enters it, instead of keeping {it}.",
            r"\A[\w.]+\Z",
            fix="Make the manager",
        ),
        Remedy("Enter {it} around the compiled call."),
    ),
    C.COPY: (
        Remedy("Clone the tensor: `{clone}`.", fix="Clone the tensor"),
        Remedy(
            "Read the fields by name instead of by {it}, which copies the tensors.",
            r"as(dict|tuple)\(",
            fix="Write the fields",
        ),
        Remedy(
            "Copy the container alone, with `dict(…)` or `list(…)`, and `.clone()` what is "
            "changed, instead of {it}.",
            r"copy\(",
            lambda usage: re.match(r"(dict|list|tuple)\b", usage.value or ""),
            fix="Copy a dict",
        ),
        Remedy("Make the copy outside the compiled function, or once in `__init__`: {it}."),
    ),
    C.CLASS: (Remedy("Define {it} at the top of the file.", fix="Define the class"),),
    C.INTROSPECTION: (
        Remedy(
            "Evaluate {it} before the compiled call and pass the answer in: a traced tensor has "
            "no address.",
            r"data_ptr\(",
        ),
        Remedy(
            "Use `x.numel() * x.element_size()` in place of {it}: a traced tensor has no storage.",
            r"storage\(\)\.(nbytes|size)",
        ),
        Remedy("Work on the tensor instead of {it}: a traced tensor has no storage.", r"storage\("),
        Remedy("Write the name instead of looking it up by {it}.", r"globals\(\)", fix="Write its"),
        Remedy("Look {it} up {outside}."),
    ),
    C.NON_TENSOR: (
        Remedy(
            "Ask once, in `__init__` or at the top of the file, and keep what {it} gives.",
            r"\bget_\w+\(\)",
            fix="Do it once",
        ),
        Remedy("Call {it} {outside}."),
    ),
    C.CALL: (
        Remedy(
            "Differentiate the function itself: `{func}` in place of {it}.",
            r"autograd\.functional\.",
        ),
        Remedy("Call `{callee}` {outside}."),
    ),
    C.BUILTIN: (
        HELD,
        Remedy("Sort with torch in place of {it}.", r"sorted\(|\.sort\(", fix="Sort with torch"),
        Remedy("Call `{callee}` {outside}."),
    ),
    C.SIDE_EFFECT: (
        Remedy(
            "Set it once, at the top of the file, instead of with {it}.",
            r"torch\.set_",
            fix="Set it once",
        ),
        Remedy(
            "Remove the graph breaks inside {it}, or make the object that it uses outside the "
            "compiled function.",
            if_=lambda usage: usage.context.startswith("Reconstruction failure"),
        ),
        Remedy("Return the value, and do {it} outside the compiled function."),
    ),
    C.OPAQUE: (Remedy("Make the object outside the compiled function and pass it in: {it}."),),
}
