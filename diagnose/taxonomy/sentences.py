"""A graph break as one sentence with the user's expression."""

from __future__ import annotations

import ast
import builtins
import re
from importlib.util import find_spec

from fullgraph.compiler.categories import Category as C
from fullgraph.compiler.events import Break
from fullgraph.diagnose.taxonomy.classify import RANDOM, is_consequence
from fullgraph.diagnose.taxonomy.keywords import category_of_gb_type
from fullgraph.diagnose.taxonomy.known_functions import (
    KnownFunction,
    callee_of,
    named_in_context,
)
from fullgraph.diagnose.taxonomy.usage import NUMPY_VALUE, TENSOR, Usage

WIDTH = 60
"""Maximum number of characters of an expression that a sentence quotes."""

_SENTENCES: dict[C, str] = {
    C.BRANCH: "{it} is a tensor{here}: the branch depends on data.",
    C.ASSERT: "{it} tests a tensor{here}: the assert depends on data.",
    C.COMPARISON: "{it} compares the values of tensors and gives a Python bool{here}.",
    C.GUARD: "{it} asks for the value of a number that the graph knows only at run time{here}.",
    C.SCALAR: "{it} extracts a Python scalar from a tensor{here}.",
    C.MASK: "{it} has a shape that depends on the values of its mask{here}.",
    C.MASKED_ASSIGNMENT: "{it} has a shape that depends on data{here}, and what is made of it is "
    "written back.",
    C.NONZERO: "{it} has a shape that depends on data{here}.",
    C.BINCOUNT: "{it} has a length that depends on data{here}.",
    C.DYNAMIC_SHAPE: "{it} makes a tensor whose shape depends on data{here}.",
    C.SYMBOLIC_SHAPE: "{it} does with a symbolic size what Dynamo cannot trace{here}.",
    C.PRINT: "{it} cannot be traced: printing and logging are side effects.",
    C.WARNING: "{it} cannot be traced: a warning is a side effect.",
    C.TEXT: "{it} cannot be traced: the text of a tensor needs its values.",
    C.CLOCK: "{it} cannot be traced: it reads the clock.",
    C.RANDOM: "{it} cannot be traced: it draws from a random generator outside torch{here}.",
    C.RNG_STATE: "{it} cannot be traced: it reads or sets the state of a random generator.",
    C.COLLECTIVE: "{it} cannot be traced: Dynamo does not support this form of a collective.",
    C.DEVICE: "{it} cannot be traced: it talks to the device or to a stream.",
    C.UNIQUE_ID: "{it} cannot be traced: it asks the operating system for random bytes.",
    C.SYSTEM: "{it} cannot be traced: it asks the operating system.",
    C.THREAD: "{it} cannot be traced: threads and locks live outside the graph.",
    C.CACHED: "{it} is a `functools.cached_property` that is not computed yet, and Python before "
    "3.12 takes a lock to compute it.",
    C.PACKED: "{it} cannot be traced: the sizes of a packed sequence depend on the lengths.",
    C.IMPORT: "{it} cannot be traced: it imports a module.",
    C.NUMPY_SCALAR: "{it} turns a NumPy value into a Python number{here}: traced NumPy is made "
    "of tensors.",
    C.NUMPY_LOOP: "{it} iterates over a NumPy array{here}: traced NumPy arrays are tensors.",
    C.NUMPY: "{it} cannot be traced: Dynamo has no torch equivalent of this NumPy function.",
    C.VARIABLE: "{it} cannot be traced: `Variable` is an empty wrapper since torch 0.4.",
    C.LEGACY_ARGUMENT: "{it} cannot be traced: `size_average` and `reduce` are deprecated.",
    C.RNN: "{it} uses {module}, and Dynamo leaves RNN, LSTM and GRU modules to eager by default.",
    C.C_EXTENSION: "{it} cannot be traced: {callee} is implemented in C.",
    C.SKIPPED: "{it} cannot be traced: Dynamo does not enter {callee}.",
    C.DISABLED: "{it} is excluded from compilation by `torch.compiler.disable`.",
    C.EXPLICIT: "{it} asks for a graph break.",
    C.TRITON: "{it} uses a feature of Triton kernels that Dynamo does not support.",
    C.TORCHSCRIPT: "{it} is TorchScript, which Dynamo does not enter.",
    C.REQUIRES_GRAD: "{it} sets `requires_grad` inside the compiled region.",
    C.GRAD_FN: "{it} reads the autograd graph, which does not exist while tracing.",
    C.HOOK: "{it} runs a module with a backward hook, which Dynamo does not trace without "
    "compiled autograd.",
    C.REGISTRATION: "{it} registers or removes a hook inside the compiled region.",
    C.AUTOGRAD: "{it} runs autograd inside the graph, which Dynamo does not trace by default.",
    C.AUTOGRAD_FUNCTION: "{it} is an autograd.Function of a form that Dynamo does not support.",
    C.SAVED_VARIABLES: "{it} uses `ctx.saved_variables`, which Dynamo does not support.",
    C.SPARSE: "{it} makes or uses a sparse tensor, which torch.compile does not support.",
    C.NESTED: "{it} uses a nested tensor of a form that torch.compile does not support.",
    C.SUBCLASS: "{it} uses a tensor subclass in a way that Dynamo does not support.",
    C.OPAQUE: "{it} makes or reads an object that is opaque to Dynamo{here}.",
    C.TENSOR_MUTATION: "{it} changes a tensor in a way that a graph cannot hold.",
    C.PARAMETER: "{it} makes an nn.Parameter inside the compiled region.",
    C.MODULE: "{it} uses an nn.Module in a way that Dynamo does not support.",
    C.OPTIMIZER: "{it} runs an optimizer, which Dynamo does not trace inside a model.",
    C.GENERATOR: "{it} is a generator, which cannot be compiled as a frame of its own.",
    C.ITERATOR: "{it} iterates over something that Dynamo cannot step through{here}.",
    C.COMPREHENSION: "{it} holds a graph break inside a comprehension.",
    C.LOOP: "{it} lies in a loop, and Dynamo cannot resume in the middle of a loop.",
    C.CONTEXT_MANAGER: "{it} uses a context manager that Dynamo cannot enter{object}.",
    C.COPY: "{it} copies an object, which is beyond Dynamo.",
    C.CLASS: "{it} defines a class inside the compiled region.",
    C.DATACLASS: "{it} uses a dataclass in a way that Dynamo does not support.",
    C.INTROSPECTION: "{it} cannot be traced: {looks}.",
    C.SIDE_EFFECT: "{it} has a side effect that Dynamo cannot replay after the graph.",
    C.BUILTIN: "{it} cannot be traced: Dynamo cannot apply {callee} to these arguments{here}.",
    C.OBJECT: "{it} does with a Python object what Dynamo cannot trace{here}.",
    C.NON_TENSOR: "{it} is a torch function that returns a plain Python value{here}.",
    C.CALL: "{it} calls {callee} in a way that Dynamo cannot trace.",
    C.BYTECODE: "{it} compiles to bytecode that Dynamo does not support.",
    C.HIGHER_ORDER: "{it} breaks a rule of higher-order ops: {explanation}",
    C.FAKE: "{it} has no kernel that tells the shape of its result without running.",
    C.OPERATOR_ERROR: "{it} fails while it is traced: {explanation}",
    C.BACKEND: "The backend failed on the graph that ends at {it}.",
    C.INTERNAL: "{it} reaches a limit of Dynamo: {explanation}",
}


_ASSIGNED = {C.OBJECT, C.SIDE_EFFECT, C.MODULE, C.CALL, C.SKIPPED, C.BUILTIN}
"""Categories in which an attribute breaks because it is assigned to."""
_BELOW: dict[C, str] = {
    C.BRANCH: "{it} branches on a tensor: {below}.",
    C.ASSERT: "{it} asserts what a tensor holds: {below}.",
    C.COMPARISON: "{it} compares the values of tensors: {below}.",
    C.SCALAR: "{it} needs a Python number where it has a tensor: {below}.",
    C.MASK: "{it} selects with a mask: {below} has a shape that depends on data.",
    C.NONZERO: "{it} needs indices: {below} has a shape that depends on data.",
    C.DYNAMIC_SHAPE: "{it} makes a tensor whose shape depends on data: {below}.",
}
"""Sentences for code of torch or Python that the user's expression calls, and that broke."""


_FROM_TENSOR = re.compile(r"_local_scalar_dense|\bitem\b")
"""Finds in Dynamo's context that a number is taken out of a tensor."""


def describe_break(
    brk: Break, usage: Usage, category: C, function: KnownFunction | None = None
) -> str:
    """Return what broke as one sentence about the user's expression.

    `function` says why Dynamo does not trace the function that broke; None if that is unknown.
    """
    expression = usage.expression
    if limit := describe_limit(brk):
        return limit
    if is_consequence(brk):
        return _describe_consequence(brk, expression, category)
    if category is C.EXCEPTION:
        return _describe_exception(brk, expression)
    if brk.gb_type.startswith("Reconstruction failure"):
        return (
            f"{quote(expression)} needs a value outside of the graph that Dynamo made while "
            "tracing and cannot rebuild."
        )
    named = callee_of(expression) or re.fullmatch(r"[\w.]*(\[.*\])?", expression)
    template = _special_case_sentence(usage, category)
    if not template and function is not None and function.category is category and named:
        template = f"{{it}} cannot be traced: {function.reason}."
    template = template or _SENTENCES.get(category, "{it} cannot be traced: {explanation}")
    it = quote(expression or (named_in_context(brk.context) if function else ""))
    text = template.format(
        it=f"the assignment to {it}" if usage.is_target and category in _ASSIGNED else it,
        here=_value_clause(usage.value, category),
        callee=_describe_callee(brk, expression),
        explanation=_first_sentence(brk),
        object=_class_clause(brk),
        module=_rnn_of(brk),
        looks=_describe_look(expression),
        outer=usage.outer_function,
        below=usage.below,
    )
    return text[:1].upper() + text[1:]


def _special_case_sentence(usage: Usage, category: C) -> str:
    """Return the sentence for a special case of a category; "" for the general case."""
    expression = usage.expression
    if category is C.RANDOM and usage.is_of_numpy and _FROM_TENSOR.search(usage.context):
        return (
            "{it} needs a number that is known only when the graph runs: Dynamo draws NumPy's "
            "random numbers with torch."
        )
    if (
        category in (C.BRANCH, C.BUILTIN, C.RANDOM)
        and usage.is_held
        and not RANDOM.search(expression)
    ):
        return (
            "{it} uses a number that Dynamo holds as a tensor{here}, as it does with one drawn at "
            "random."
        )
    if category is C.IMPORT and (missing := _missing_module(expression)):
        return f"{{it}} cannot be traced: `{missing}` is not installed, and the import fails."
    if category is C.NUMPY_SCALAR and "failed to convert" in usage.context:
        return "{it} makes an array of numbers that are known only when the graph runs{here}."
    if category is C.NUMPY_SCALAR and usage.is_of_numpy and "dense" in usage.context:
        return "{it} needs Python numbers, and gets NumPy's, which Dynamo traces as tensors."
    if category in (C.BRANCH, C.NUMPY_SCALAR) and usage.is_numpy and "jump" in usage.context:
        return (
            "{it} is a NumPy value{here}, which Dynamo traces as a tensor: a branch on it breaks."
        )
    if category is C.BRANCH and usage.value in ("True", "False"):
        return "{it} asks for the values of a tensor{here}: the branch depends on data."
    if category is C.REQUIRES_GRAD and expression.startswith("return"):
        return "{it} returns a tensor whose `requires_grad` was set inside the compiled region."
    if category is C.HOOK and usage.is_in_hook:
        return "{it} changes Python state in a gradient hook, which a graph's backward cannot do."
    if category is C.HIGHER_ORDER and "side effect" in usage.context and usage.outer_function:
        return "{it} changes what lies outside the function that `{outer}` traces."
    if category is C.SCALAR and NUMPY_VALUE.match(usage.value or ""):
        return (
            "{it} takes a Python number from a NumPy array{here}, which Dynamo traces as a tensor."
        )
    if category is C.SCALAR and re.match(r"(torch|F|nn\.functional)\.\w+\((?!.*\)\.)", expression):
        return "{it} needs a Python number where it gets a tensor."
    if usage.below and category in _BELOW:
        return _BELOW[category]
    if category is C.SCALAR and re.fullmatch(r"[A-Za-z_][\w.]*", expression):
        return "{it} must be a Python number here, and Dynamo traces it as a tensor."
    if category is C.DYNAMIC_SHAPE and usage.value and not usage.has_shape:
        return "{it} computes with a tensor whose shape depends on data."
    if category is C.PARAMETER and "Parameter(" not in expression:
        return "{it} makes an nn.Parameter: it runs inside the compiled region."
    if category is C.GUARD and usage.has_shape and callee_of(expression):
        return "{it} needs, inside, a number that the graph knows only at run time{here}."
    if category is C.GUARD and re.fullmatch(r"[A-Za-z_][\w.]*\[[A-Za-z_][\w.]*\]", expression):
        return "{it} is chosen by a number that the graph knows only at run time."
    if category is C.GUARD and expression.startswith("for "):
        return "{it} iterates as often as the data decide, which the graph knows only at run time."
    if category is C.TENSOR_MUTATION and expression.endswith(".data"):
        return "{it} is assigned to, and a graph cannot give a tensor other storage."
    return ""


def _missing_module(expression: str) -> str:
    """Return the module that an import statement does not find; "" if it finds one."""
    found = re.match(r"(?:from|import)\s+([A-Za-z_]\w*)", expression)
    return found[1] if found and find_spec(found[1]) is None else ""


_LOOKS = {
    r"data_ptr\(": "a traced tensor has no address",
    r"storage\(": "a traced tensor has no storage",
    r"\b(id|hash)\(": "a traced object has no id",
}


def _describe_look(expression: str) -> str:
    """Return what untraceable code inspects, as a clause: "it looks at … an object's id"."""
    found = (why for pattern, why in _LOOKS.items() if re.search(pattern, expression))
    return next(found, "it looks at the running program or at an object's id")


def _rnn_of(brk: Break) -> str:
    """Return "the RNN module `LSTM`" for the class that Dynamo names."""
    found = re.match(r"(\w+)\(", brk.context)
    return f"the RNN module `{found[1]}`" if found else "an RNN module"


def describe_limit(brk: Break) -> str | None:
    """Return the sentence for a frame that hit a recompile limit; None for any other break."""
    if category_of_gb_type(brk.gb_type) is not C.RECOMPILE_LIMIT:
        return None
    name = f"`{brk.frame.function}`" if brk.frame.function else "This frame"
    found = re.search(r"currently set to (\d+)", brk.explanation)
    times = f"{found[1]} times" if found else "too often"
    if "accumulated" in brk.context:
        times += " in all its copies"
    return f"{name} was compiled {times}; from now on it runs eager."


def quote(expression: str) -> str:
    """Return the expression in backquotes, shortened to one line; "this code" if it is ""."""
    text = " ".join(_shown_part(expression).split())
    if not text:
        return "this code"
    if len(text) > WIDTH:
        text = f"{text[: WIDTH - 21]} … {text[-18:]}"
    return f"`{text}`"


def _shown_part(expression: str) -> str:
    """Return the part of a statement to quote.

    It is the condition of an `if` or `while`, the header of another compound statement, or the
    whole of other code.
    """
    try:
        node = ast.parse(expression.strip()).body[0]
    except (SyntaxError, ValueError, IndexError):
        return expression
    if isinstance(node, ast.If | ast.While):
        return ast.get_source_segment(expression.strip(), node.test) or expression
    body = getattr(node, "body", None)
    if not body or isinstance(node, ast.expr):
        return expression
    lines = expression.strip().encode().split(b"\n")[: body[0].lineno]
    if body[0].lineno > 1:
        return b"\n".join(lines[:-1]).decode().rstrip().rstrip(":")
    return lines[0][: body[0].col_offset].decode().rstrip().rstrip(":")


_MADE_WITH_NUMBER = {C.SCALAR: TENSOR, C.NUMPY_SCALAR: re.compile("ndarray ")}
"""How the text of a value begins that is made with the number that breaks, and not that number."""


def _value_clause(value: str | None, category: C) -> str:
    """Return " (bool[], here True)" for a scalar tensor, " (here f32[3])" else; "" if unknown."""
    made = _MADE_WITH_NUMBER.get(category)
    if not value or (made and made.match(value)):
        return ""
    kind, _, number = value.partition("[] ")
    if number:
        return f" ({kind}[], here {number})"
    if not value.isascii() or re.search(r"\.\.\.|…|<|=|\A\[.{30}", value):
        return ""  # the shortened text of an object says nothing
    value = value.removeprefix("bool ")
    if re.fullmatch(r"-?\d+\.\d{5,}", value):
        value = f"{float(value):.6g}"
    return f" (here {value})"


def _describe_exception(brk: Break, expression: str) -> str:
    """Return the sentence for an exception that was raised while tracing."""
    found = re.search(r"raised exception (.*)", brk.context)
    what = f"`{found[1]}`" if found else "an exception"
    if expression.startswith("raise"):
        return f"{quote(expression)} leaves the compiled region with an exception."
    start = quote(expression)
    return f"{start if expression else 'This code'} raises {what} while it is traced."


def _describe_consequence(brk: Break, expression: str, category: C) -> str:
    """Return the sentence for a break that an earlier break caused."""
    if category in (C.GENERATOR, C.COMPREHENSION):
        what = quote(expression) if expression else f"`{brk.frame.function}`"
        return f"{what} runs as a frame of its own, because the code that calls it runs eager."
    method = named_in_context(brk.context)
    return f"`{method}` was looked up before the break among its arguments."


def _describe_callee(brk: Break, expression: str) -> str:
    """Return the name of the function that was called; "this function" if unknown."""
    name, inner = callee_of(expression), named_in_context(brk.context)
    if not name or (inner and hasattr(builtins, name)):  # `len(graph)` runs `Graph.__len__`
        name = inner or name
    return f"`{name}`" if name else "this function"


def _class_clause(brk: Break) -> str:
    """Return " (of type Lock)" for the class that Dynamo names in the break's context, or ""."""
    found = re.search(r"UserDefinedObjectVariable\((\w+)\)|device\(type", brk.context)
    return f" (of type {found[1] or 'torch.device'})" if found else ""


def _first_sentence(brk: Break) -> str:
    """Return the first sentence of the compiler's explanation, or the error it raised."""
    if error := re.match(r"\w*Error <.*?>: (.*)", brk.context):
        return error[1].partition(", but expected one of")[0].rstrip(".:") + "."
    text = (brk.explanation or brk.message or brk.gb_type).partition("\n")[0]
    return text.partition(". ")[0].strip().rstrip(".:") + "."
