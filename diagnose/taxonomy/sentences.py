"""A break as one plain sentence, in the words of the user's own expression."""

from __future__ import annotations

import ast
import re

from fullgraph.compiler.events import Break
from fullgraph.diagnose.taxonomy import calls
from fullgraph.diagnose.taxonomy.categories import Category as C
from fullgraph.diagnose.taxonomy.classify import classify, is_consequence
from fullgraph.diagnose.taxonomy.limits import describe_limit

WIDTH = 60
"""How many characters of an expression a sentence quotes."""

_TENSOR = re.compile(r"[a-z]+\d*\[")
"""How the text of a tensor's value begins: "f32[3, 4]"."""
_SENTENCES: dict[C, str] = {
    C.BRANCH: "{it} is a tensor{here}: the branch depends on data.",
    C.ASSERT: "{it} tests a tensor{here}: the assert depends on data.",
    C.COMPARISON: "{it} compares the values of tensors and gives a Python bool{here}.",
    C.GUARD: "{it} asks for the value of a number that the graph knows only at run time{here}.",
    C.SCALAR: "{it} takes a Python number out of a tensor{here}.",
    C.MASK: "{it} has a shape that depends on data{here}.",
    C.MASKED_ASSIGNMENT: "{it} has a shape that depends on data{here}, though it is read only "
    "to be written back.",
    C.NONZERO: "{it} has a shape that depends on data{here}.",
    C.BINCOUNT: "{it} has a length that depends on data{here}.",
    C.DYNAMIC_SHAPE: "{it} has a shape that depends on data{here}.",
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
    C.PACKED: "{it} cannot be traced: the sizes of a packed sequence depend on the lengths.",
    C.IMPORT: "{it} cannot be traced: it imports a module.",
    C.NUMPY_SCALAR: "{it} turns a NumPy value into a Python number{here}: traced NumPy is made "
    "of tensors.",
    C.NUMPY_LOOP: "{it} iterates over a NumPy array{here}: traced NumPy arrays are tensors.",
    C.NUMPY: "{it} cannot be traced: Dynamo has no torch equivalent of this NumPy function.",
    C.VARIABLE: "{it} cannot be traced: `Variable` is an empty wrapper since torch 0.4.",
    C.LEGACY_ARGUMENT: "{it} cannot be traced: `size_average` and `reduce` are deprecated.",
    C.RNN: "{it} runs an RNN, LSTM or GRU, which Dynamo leaves to eager by default.",
    C.C_EXTENSION: "{it} cannot be traced: {callee} is implemented in C.",
    C.SKIPPED: "{it} cannot be traced: Dynamo does not enter {callee}.",
    C.DISABLED: "{it} is excluded from compilation by `torch.compiler.disable`.",
    C.EXPLICIT: "{it} asks for a graph break.",
    C.TRITON: "{it} uses a feature of Triton kernels that Dynamo does not support.",
    C.TORCHSCRIPT: "{it} is TorchScript, which Dynamo does not enter.",
    C.REQUIRES_GRAD: "{it} sets `requires_grad` inside the compiled region.",
    C.GRAD_FN: "{it} reads the autograd graph, which does not exist while tracing.",
    C.HOOK: "{it} uses a backward hook, which needs compiled autograd.",
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
    C.COPY: "{it} copies an object, and Dynamo does not enter `copy`.",
    C.CLASS: "{it} defines a class inside the compiled region.",
    C.DATACLASS: "{it} uses a dataclass in a way that Dynamo does not support.",
    C.INTROSPECTION: "{it} cannot be traced: it looks at the running program or at an object's id.",
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


def sentence(brk: Break, expression: str, value: str | None) -> str:
    """What broke, in one sentence with the user's expression.

    `value` is what the expression was in eager, as `values.describe` writes it: "bool[] True",
    "f32[3, 4]", "7.25"; None where it was not seen.
    """
    category = C(classify(brk, expression))
    known = calls.reason(brk, expression)
    if limit := describe_limit(brk):
        return limit
    if is_consequence(brk):
        return _consequence(brk, expression, category)
    if category is C.EXCEPTION:
        return _raised(brk, expression)
    if known and known[0] is category and (calls.callee(expression) or not expression):
        template = f"{{it}} cannot be traced: {known[1]}."
    elif category is C.REQUIRES_GRAD and expression.startswith("return"):
        template = "{it} returns a tensor whose `requires_grad` was set inside the compiled region."
    else:
        template = _SENTENCES.get(category, "{it} cannot be traced: {explanation}")
    it = quote(expression or (calls.named_in_context(brk.context) if known else ""))
    text = template.format(
        it=it,
        here=_here(value, category),
        callee=_callee(brk, expression),
        explanation=_explanation(brk),
        object=_object(brk),
    )
    return f"This{text[4:]}" if text.startswith("this ") else text


def quote(expression: str) -> str:
    """The expression in backquotes, on one line and shortened in the middle; "this code" if ""."""
    text = " ".join(_head(expression).split())
    if not text:
        return "this code"
    if len(text) > WIDTH:
        text = f"{text[: WIDTH - 21]} … {text[-18:]}"
    return f"`{text}`"


def _head(expression: str) -> str:
    """The test of an `if` or `while`, the first line of any other compound statement."""
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


def _here(value: str | None, category: C) -> str:
    """ " (bool[], here True)" for a scalar tensor, " (here f32[3])" for anything else."""
    if not value or (category is C.SCALAR and _TENSOR.match(value)):
        return ""  # the tensor made with the number, not the number
    kind, _, number = value.partition("[] ")
    if number:
        return f" ({kind}[], here {number})"
    if re.fullmatch(r"-?\d+\.\d{5,}", value):
        value = f"{float(value):.6g}"
    return f" (here {value})"


def _raised(brk: Break, expression: str) -> str:
    found = re.search(r"raised exception (.*)", brk.context)
    what = f"`{found[1]}`" if found else "an exception"
    if expression.startswith("raise"):
        return f"{quote(expression)} leaves the compiled region with an exception."
    start = quote(expression)
    return f"{start if expression else 'This code'} raises {what} while it is traced."


def _consequence(brk: Break, expression: str, category: C) -> str:
    if category in (C.GENERATOR, C.COMPREHENSION):
        what = quote(expression) if expression else f"`{brk.frame.function}`"
        return f"{what} runs as a frame of its own, because the code that calls it runs eager."
    method = calls.named_in_context(brk.context)
    return f"`{method}` was looked up before the break among its arguments."


def _callee(brk: Break, expression: str) -> str:
    name = calls.callee(expression) or calls.named_in_context(brk.context)
    return f"`{name}`" if name else "this function"


def _object(brk: Break) -> str:
    """ " (a lock)" for the class that Dynamo names in the break's context."""
    found = re.search(r"UserDefinedObjectVariable\((\w+)\)|device\(type", brk.context)
    return f" (of type {found[1] or 'torch.device'})" if found else ""


def _explanation(brk: Break) -> str:
    """The first sentence of the compiler's own words, or the error it met."""
    if error := re.match(r"\w*Error <.*?>: (.*)", brk.context):
        return error[1].rstrip(".") + "."
    text = (brk.explanation or brk.message or brk.gb_type).partition("\n")[0]
    return text.partition(". ")[0].strip().rstrip(".") + "."
