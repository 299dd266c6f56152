"""The category of a graph break."""

from __future__ import annotations

import ast
import re

from fullgraph.compiler.categories import Category as C
from fullgraph.compiler.events import Break
from fullgraph.compiler.sources import Owner, owner_of
from fullgraph.diagnose.taxonomy.keywords import category_of_gb_type
from fullgraph.diagnose.taxonomy.known_functions import KnownFunction, named_in_context
from fullgraph.diagnose.taxonomy.usage import Usage

_COMPREHENSION = re.compile(r"<(list|dict|set)comp>")
_NEXT = re.compile(r"tp_iternext|\b__next__\b")
_HOOKS = re.compile(r"torch[/\\]utils[/\\]hooks\.py|setting up backward hooks")
"""torch's own code that runs around a module with a full backward hook."""
_MODULE_CALL = re.compile(r"torch[/\\]nn[/\\]modules[/\\]module\.py")
_CACHED = re.compile(r"functools\.py$")
"""Python up to 3.11 takes a lock in `cached_property.__get__`."""
_HANDLE = "RemovableHandle"
"""Class of what registering a hook returns."""
_REGISTERS = re.compile(r"register_(\w+_)?hook")
_JIT = re.compile(r"torch[/\\]jit\b")
_LOCK = re.compile(r"\((R?Lock|lock|Condition|(Bounded)?Semaphore|(Simple)?Queue)\)")
"""Dynamo's text for an object of Python that threads share."""
_STORAGE = "UntypedStorageVariable"
"""Dynamo's class for the result of `tensor.untyped_storage()`."""
_OPTIMIZER = re.compile(r"torch[/\\]optim[/\\]")
_AUTOGRAD = re.compile(r"module: torch\.autograd, qualname: (grad|backward)\b")
"""Up to torch 2.10 these are functions that Dynamo skips."""
_NUMPY = re.compile(r"\b(np|numpy)\.")
_CHANGES = re.compile(r"\.(append|extend|insert|add|update|pop|remove|clear|setdefault)\(")
"""Methods that change a container."""
RANDOM = re.compile(r"(?<!torch\.)\brandom\.\w+\(")
_BY_CALL = {
    C.SKIPPED,
    C.BUILTIN,
    C.NON_TENSOR,
    C.C_EXTENSION,
    C.CALL,
    C.CLOCK,
    C.OBJECT,
    C.CONTEXT_MANAGER,
    C.NUMPY,
    C.OPAQUE,
}
"""Categories that the called function determines better than the `gb_type` does."""


def classify(brk: Break, usage: Usage, function: KnownFunction | None = None) -> C:
    """Return the category of a break.

    `function` describes the function that Dynamo does not trace, if the break is about one; else
    None.
    """
    expression, statement = usage.expression, usage.statement
    if is_consequence(brk) and _COMPREHENSION.fullmatch(brk.frame.function):
        return C.COMPREHENSION
    if registers_hook(brk):
        return C.REGISTRATION
    if _HOOKS.search(f"{brk.stack[-1].file} {brk.context}"):
        return C.HOOK
    if _CACHED.search(brk.stack[-1].file) and brk.stack[-1].function == "__get__":
        return C.CACHED
    category = category_of_gb_type(brk.gb_type)
    if category is C.GENERATOR and re.match(r"[\[{]", expression):
        return C.COMPREHENSION  # which is a frame of its own up to Python 3.11
    if category is C.GRAD_FN and _MODULE_CALL.search(brk.stack[-1].file):
        return C.HOOK  # of the kind before `register_full_backward_hook`
    if category is C.HIGHER_ORDER and usage.is_in_hook:
        return C.HOOK
    if category is C.CALL and (delayed := re.search(r"\bReason: (.*)", brk.explanation)):
        category = category_of_gb_type(delayed[1])
    if refine := _REFINE.get(category):
        category = refine(brk, expression, statement)
    if category in _BY_CALL:
        return _classify_call(brk, expression, category, function)
    return category


def registers_hook(brk: Break) -> bool:
    """Return whether compiled code registers or removes a hook, or receives a hook's handle."""
    return bool(
        _HANDLE in f"{brk.gb_type} {brk.context}" or _REGISTERS.match(_calling_function(brk))
    )


def _calling_function(brk: Break) -> str:
    """Return the name of the function that called the one with the break; "" if unknown."""
    return brk.stack[-2].function if len(brk.stack) > 1 else ""


def is_consequence(brk: Break) -> bool:
    """Return whether a break exists only because of an earlier break.

    - A skipped frame calls its comprehensions and generator expressions as frames of their own,
      which Dynamo cannot compile (Python 3.11: it cannot step their iterator).
    - The same is true of generator functions of libraries that a skipped frame calls.
    - A method that was loaded before a break in its arguments is, in the resume function, a bound
      method of the C type, which Dynamo does not enter.
    """
    frame = brk.frame
    if category_of_gb_type(brk.gb_type) is C.GENERATOR:
        return frame.function == "<genexpr>" or owner_of(frame.file) is not Owner.USER
    if _COMPREHENSION.fullmatch(frame.function) and _NEXT.search(f"{brk.gb_type} {brk.context}"):
        return True
    return is_looked_up_early(brk)


def is_hook_handle(brk: Break) -> bool:
    """Return whether compiled code receives the handle of a hook that eager code registered."""
    return _HANDLE in brk.gb_type


def is_looked_up_early(brk: Break) -> bool:
    """Return whether a method broke because Dynamo loaded it before a break in its arguments.

    In `x.add(f(y))`, for example, Dynamo loads `x.add` first; then `f(y)` breaks the graph.
    """
    return bool(re.search(r"module: <unknown module>, qualname: Tensor\.", brk.context))


def _classify_call(brk: Break, expression: str, category: C, function: KnownFunction | None) -> C:
    """Return the category of a call that Dynamo does not trace."""
    if function is not None:
        return function.category
    if _LOCK.search(brk.context):
        return C.THREAD
    if _JIT.search(brk.context):
        return C.TORCHSCRIPT
    if _STORAGE in brk.context:
        return C.INTROSPECTION
    if "__build_class__" in brk.context:
        return C.CLASS
    if _AUTOGRAD.search(brk.context):
        return C.AUTOGRAD
    if "(Generator)" in brk.context and "generator=" in expression.replace(" ", ""):
        return C.RNG_STATE
    if "site-packages/numpy/" in brk.context or _NUMPY.search(expression):
        return C.NUMPY
    if category is C.SKIPPED and "C/C++" in brk.explanation + brk.gb_type:
        return C.C_EXTENSION
    if "disable" in brk.context and category is C.SKIPPED:
        return C.DISABLED
    if category is C.OPAQUE and "Generator(" in expression:
        return C.RNG_STATE
    if category is C.CALL and _CHANGES.search(expression):
        return C.SIDE_EFFECT
    return category


def _classify_branch(brk: Break, expression: str, statement: str) -> C:
    """Return the category of a data-dependent branch."""
    if re.match(r"assert\b", expression.strip()) or re.match(r"assert\b", statement.strip()):
        return C.ASSERT
    if "NumpyNdarrayVariable" in brk.context and _is_fixed(brk.explanation):
        return C.NUMPY_SCALAR
    return C.RANDOM if RANDOM.search(expression) else C.BRANCH


def _is_fixed(explanation: str) -> bool:
    """Return whether a condition depends on literals and attributes of the model, not on inputs.

    `explanation` is Dynamo's, which lists the steps of the condition as `name = operation(name,
    1.5)` and `name: graph input (L_self_x)`.
    """
    steps = dict(re.findall(r"^ *(\w+) = (\w+\(.*\))$", explanation, re.MULTILINE))
    kept = set(re.findall(r"^ *(\w+): graph input \(L_self_", explanation, re.MULTILINE))
    used = {name for step in steps.values() for name in _arguments_of(step)}
    return bool(steps) and used <= steps.keys() | kept


def _arguments_of(call: str) -> set[str]:
    """Return the names in the arguments of a call: {"x", "y"} for "f(x, y + 1)"."""
    try:
        node = ast.parse(call, mode="eval").body
    except (SyntaxError, ValueError):
        return {call}
    arguments = [*node.args, *node.keywords] if isinstance(node, ast.Call) else [node]
    return {n.id for one in arguments for n in ast.walk(one) if isinstance(n, ast.Name)}


def _classify_scalar(brk: Break, expression: str, statement: str) -> C:
    """Return the category of a read of a tensor's value as a Python number."""
    if re.search(r"aten\.(equal|allclose|is_nonzero)", brk.context):
        return C.COMPARISON if "nonzero" not in brk.context else C.BRANCH
    if RANDOM.search(expression):
        return C.RANDOM
    return C.NUMPY_SCALAR if _NUMPY.search(expression) else C.SCALAR


def _classify_non_tensor(brk: Break, expression: str, statement: str) -> C:
    """Return the category of an operator that returned something other than tensors."""
    if "original item" in brk.context or "original tolist" in brk.context:
        return C.NUMPY_SCALAR
    if "example_value type: str" in brk.context and "function mod" in brk.context:
        return C.TEXT
    return C.NON_TENSOR


def _classify_builtin(brk: Break, expression: str, statement: str) -> C:
    """Return the category of a Python builtin that Dynamo does not trace."""
    name = named_in_context(brk.context)
    if "NumpyNdarrayVariable" in brk.context:
        return C.NUMPY_SCALAR if name in ("int", "float", "bool") else C.NUMPY_LOOP
    if "DataPtrVariable" in brk.context:
        return C.INTROSPECTION
    if name in ("range", "int", "float", "bool", "sorted", "slice", "round") and re.search(
        r"Tensor|SymNode", brk.context
    ):
        return C.SCALAR
    if "UnspecializedPythonVariable" in brk.context and RANDOM.search(expression):
        return C.RANDOM
    return C.BUILTIN


def _classify_dynamic_shape(brk: Break, expression: str, statement: str) -> C:
    """Return the category of an operator with a data-dependent output shape."""
    if "bincount" in brk.context:
        return C.BINCOUNT
    if not re.search(r"nonzero|masked_select", brk.context):
        return C.DYNAMIC_SHAPE
    if _is_subscript(expression):
        return C.MASKED_ASSIGNMENT if _assigns_masked(expression, statement) else C.MASK
    if re.search(r"\b(nonzero|argwhere|where)\s*\(", expression):
        return C.NONZERO
    return C.MASK if not expression or "masked_select" in expression else C.DYNAMIC_SHAPE


def _classify_explicit_break(brk: Break, expression: str, statement: str) -> C:
    return C.OPTIMIZER if _OPTIMIZER.search(brk.stack[-1].file) else C.EXPLICIT


def _classify_fake_tensor(brk: Break, expression: str, statement: str) -> C:
    if re.search(
        r"extract specialized \w+ from data-dependent", f"{brk.context} {brk.explanation}"
    ):
        return C.GUARD
    if "failed to convert" in brk.explanation and _NUMPY.search(expression):
        return C.NUMPY_SCALAR
    return C.NESTED if re.search("nested_?tensor", brk.context, re.IGNORECASE) else C.FAKE


def _classify_iterator(brk: Break, expression: str, statement: str) -> C:
    """Return the category of an iterator or of values that cannot be unpacked."""
    return C.SAVED_VARIABLES if "saved_variables" in statement else C.ITERATOR


def _classify_exception(brk: Break, expression: str, statement: str) -> C:
    """Return the category of an exception raised while tracing."""
    if "saved_variables" in brk.context + expression + statement:
        return C.SAVED_VARIABLES
    if re.search(r"\b(id|hash|data_ptr)\(", expression) and "TypeError" in brk.context:
        return C.INTROSPECTION  # Dynamo's stand-in for such a number takes part in no arithmetic
    if "object of type 'str' has no len()" in brk.context:
        return C.TEXT  # nor does that for a text with a tensor in it have a length
    return C.EXCEPTION


_REFINE = {
    C.BRANCH: _classify_branch,
    C.SCALAR: _classify_scalar,
    C.NON_TENSOR: _classify_non_tensor,
    C.BUILTIN: _classify_builtin,
    C.DYNAMIC_SHAPE: _classify_dynamic_shape,
    C.EXCEPTION: _classify_exception,
    C.EXPLICIT: _classify_explicit_break,
    C.FAKE: _classify_fake_tensor,
    C.ITERATOR: _classify_iterator,
}


def _is_subscript(expression: str) -> bool:
    """Return whether an expression is a subscript."""
    try:
        return isinstance(ast.parse(expression.strip(), mode="eval").body, ast.Subscript)
    except (SyntaxError, ValueError):
        return False


def _assigns_masked(expression: str, statement: str) -> bool:
    """Return whether `statement` assigns through the mask that `expression` reads through.

    `y[m] = f(y[m])` and `y[m] += 1` read through the mask only in order to write through it.
    """
    try:
        tree = ast.parse(statement.strip())
        read = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    if not tree.body or not isinstance(read, ast.Subscript):
        return False
    assignment = tree.body[0]
    if isinstance(assignment, ast.AugAssign):
        targets: list[ast.expr] = [assignment.target]
    elif isinstance(assignment, ast.Assign):
        targets = assignment.targets
    else:
        return False
    mask = ast.unparse(read.slice)
    written = [one for target in targets for one in getattr(target, "elts", [target])]
    return any(isinstance(t, ast.Subscript) and ast.unparse(t.slice) == mask for t in written)
