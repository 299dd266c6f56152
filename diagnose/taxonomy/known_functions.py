"""Functions that Dynamo does not trace, by name, and why it does not.

Dynamo has one `gb_type` for every function it does not enter ("Attempted to call function marked as
skipped") and one for every builtin ("Failed to trace builtin operator"). The name of the function
that the user called determines the category of such a break.
"""

from __future__ import annotations

import ast
import re
from fnmatch import translate
from pathlib import PurePath
from typing import NamedTuple

from fullgraph.compiler.categories import Category as C
from fullgraph.compiler.events import Break
from fullgraph.compiler.sources import Owner, owner_of


class KnownFunction(NamedTuple):
    """The category of a function that Dynamo does not trace, and why it does not."""

    category: C
    reason: str
    """A clause: "it reads the clock"."""


_CALLED: tuple[tuple[str, C, str], ...] = (
    ("time.sleep", C.CLOCK, "it waits"),
    ("time.*", C.CLOCK, "it reads the clock"),
    ("*datetime.now", C.CLOCK, "it reads the clock"),
    ("*datetime.utcnow", C.CLOCK, "it reads the clock"),
    ("*datetime.today", C.CLOCK, "it reads the clock"),
    ("*date.today", C.CLOCK, "it reads the clock"),
    ("uuid.*", C.UNIQUE_ID, "it asks the operating system for random bytes"),
    ("secrets.*", C.UNIQUE_ID, "it asks the operating system for random bytes"),
    ("*urandom", C.UNIQUE_ID, "it asks the operating system for random bytes"),
    ("torch*.initial_seed", C.RNG_STATE, "it reads the seed of torch's random generator"),
    ("torch.random.*", C.RNG_STATE, "it reads or sets the state of torch's random generator"),
    ("torch*.*rng_state*", C.RNG_STATE, "it reads or sets the state of a random generator"),
    ("torch.*seed*", C.RNG_STATE, "it sets the state of torch's random generator"),
    ("torch.Generator", C.RNG_STATE, "it makes a random generator outside the graph"),
    ("Generator.*seed*", C.RNG_STATE, "it reads or sets the state of a random generator"),
    ("Generator.*state*", C.RNG_STATE, "it reads or sets the state of a random generator"),
    ("*random.*seed", C.RNG_STATE, "it sets the state of a random generator"),
    ("numpy.random.*", C.RANDOM, "it draws from NumPy's random generator"),
    ("np.random.*", C.RANDOM, "it draws from NumPy's random generator"),
    ("Generator.*", C.RANDOM, "it draws from NumPy's random generator"),
    ("RandomState.*", C.RANDOM, "it draws from NumPy's random generator"),
    ("random.*", C.RANDOM, "it draws from Python's random generator"),
    ("Random.*", C.RANDOM, "it draws from Python's random generator"),
    ("warnings.*", C.WARNING, "a warning is a side effect"),
    ("_warnings.*", C.WARNING, "a warning is a side effect"),
    ("print", C.PRINT, "printing is a side effect"),
    ("builtins.print", C.PRINT, "printing is a side effect"),
    ("pprint.*", C.PRINT, "printing is a side effect"),
    ("logging.*", C.PRINT, "logging is a side effect"),
    ("tqdm.*", C.PRINT, "a progress bar is a side effect"),
    ("sys.std*", C.PRINT, "printing is a side effect"),
    ("subprocess.*", C.SYSTEM, "it starts a process"),
    ("multiprocessing.*", C.SYSTEM, "it starts a process"),
    ("threading.*", C.THREAD, "threads and locks live outside the graph"),
    ("_thread.*", C.THREAD, "threads and locks live outside the graph"),
    ("queue.*", C.THREAD, "threads and locks live outside the graph"),
    ("concurrent.*", C.THREAD, "threads and locks live outside the graph"),
    ("asyncio.*", C.THREAD, "an event loop lives outside the graph"),
    ("_asyncio.*", C.THREAD, "an event loop lives outside the graph"),
    ("open", C.SYSTEM, "it opens a file"),
    ("builtins.open", C.SYSTEM, "it opens a file"),
    ("input", C.SYSTEM, "it waits for input"),
    ("torch.save", C.SYSTEM, "it writes a file"),
    ("torch.load", C.SYSTEM, "it reads a file"),
    ("torch.serialization.*", C.SYSTEM, "it reads or writes a file"),
    ("sys.exit", C.SYSTEM, "it ends the process"),
    ("os._exit", C.SYSTEM, "it ends the process"),
    ("os.abort", C.SYSTEM, "it ends the process"),
    ("os.__setitem__", C.SYSTEM, "it sets an environment variable"),
    ("posix.putenv", C.SYSTEM, "it sets an environment variable"),
    ("os.putenv", C.SYSTEM, "it sets an environment variable"),
    ("os.*", C.SYSTEM, "it asks the operating system"),
    ("posix.*", C.SYSTEM, "it asks the operating system"),
    ("nt.*", C.SYSTEM, "it asks the operating system"),
    ("pathlib.*", C.SYSTEM, "it asks the operating system"),
    ("shutil.*", C.SYSTEM, "it asks the operating system"),
    ("socket.*", C.SYSTEM, "it asks the operating system"),
    ("io.StringIO", C.SYSTEM, "it makes a buffer outside the graph"),
    ("io.BytesIO", C.SYSTEM, "it makes a buffer outside the graph"),
    ("io.*", C.SYSTEM, "it reads or writes a file"),
    ("_io.*", C.SYSTEM, "it reads or writes a file"),
    ("*IO.*", C.SYSTEM, "it reads or writes a file"),
    ("TextIOWrapper.*", C.SYSTEM, "it reads or writes a file"),
    ("Buffered*.*", C.SYSTEM, "it reads or writes a file"),
    ("tempfile.*", C.SYSTEM, "it makes a file"),
    ("glob.*", C.SYSTEM, "it asks the operating system"),
    ("resource.*", C.SYSTEM, "it asks the operating system"),
    ("signal.*", C.SYSTEM, "it asks the operating system"),
    ("atexit.*", C.SYSTEM, "it changes how the process ends"),
    ("tracemalloc.*", C.SYSTEM, "it steers Python's memory"),
    ("gc.*", C.SYSTEM, "it steers Python's garbage collector"),
    ("*Variable", C.VARIABLE, "it is an empty wrapper since torch 0.4"),
    ("_LegacyVariableBase.*", C.VARIABLE, "it is an empty wrapper since torch 0.4"),
    ("*legacy_get_string", C.LEGACY_ARGUMENT, "`size_average` and `reduce` are deprecated"),
    ("*pack_padded_sequence", C.PACKED, "the sizes of a packed sequence depend on the lengths"),
    ("*pad_packed_sequence", C.PACKED, "the sizes of a packed sequence depend on the lengths"),
    ("*pack_sequence", C.PACKED, "the sizes of a packed sequence depend on the lengths"),
    ("torch.distributed.*", C.COLLECTIVE, "it talks to other processes"),
    ("dist.*", C.COLLECTIVE, "it talks to other processes"),
    ("torch.optim.*", C.OPTIMIZER, "Dynamo does not trace an optimizer inside a model"),
    ("Optimizer.*", C.OPTIMIZER, "Dynamo does not trace an optimizer inside a model"),
    ("*share_memory_", C.TENSOR_MUTATION, "it moves the tensor's storage"),
    ("*load_state_dict", C.MODULE, "it writes into the parameters of a module"),
    ("torch.set_*", C.SIDE_EFFECT, "it changes a setting of torch"),
    ("*nested_tensor*", C.NESTED, "torch.compile does not support nested tensors of this form"),
    ("*sparse_*_tensor", C.SPARSE, "torch.compile does not support sparse tensors"),
    ("*.to_sparse*", C.SPARSE, "torch.compile does not support sparse tensors"),
    ("torch.sparse*", C.SPARSE, "torch.compile does not support sparse tensors"),
    ("copy.*", C.COPY, "copying what it is given is beyond Dynamo"),
    ("dict.copy", C.COPY, "copying what it is given is beyond Dynamo"),
    ("inspect.*", C.INTROSPECTION, "it looks at the running program"),
    ("sys._getframe*", C.INTROSPECTION, "it looks at the running program"),
    ("traceback.*", C.INTROSPECTION, "it looks at the running program"),
    ("globals", C.INTROSPECTION, "it looks at the running program"),
    ("dir", C.INTROSPECTION, "it looks at the running program"),
    ("vars", C.INTROSPECTION, "it looks at the running program"),
    ("importlib.*", C.IMPORT, "it imports a module"),
    ("*__import__", C.IMPORT, "it imports a module"),
    ("*_dynamo*disable", C.DISABLED, "it is excluded from compilation"),
    ("str", C.TEXT, "the text of a tensor needs its values"),
    ("repr", C.TEXT, "the text of a tensor needs its values"),
    ("format", C.TEXT, "the text of a tensor needs its values"),
    ("*.storage", C.INTROSPECTION, "a traced tensor has no storage"),
    ("*.untyped_storage", C.INTROSPECTION, "a traced tensor has no storage"),
    ("torch.utils.data.*", C.SKIPPED, "it loads data"),
    ("torch.backends.*flags", C.CONTEXT_MANAGER, "it changes a setting of torch for a while"),
    ("torch.cuda.*", C.DEVICE, "it talks to the device"),
    ("torch.autograd.grad_mode.*", C.CONTEXT_MANAGER, "it is entered by hand, not by `with`"),
    ("contextlib.ExitStack*", C.CONTEXT_MANAGER, "it enters a context manager by hand"),
    ("numpy.*", C.NUMPY, "Dynamo has no torch equivalent of it"),
    ("np.*", C.NUMPY, "Dynamo has no torch equivalent of it"),
    ("array.*", C.C_EXTENSION, "it is implemented in C"),
    ("datetime.*", C.C_EXTENSION, "it is implemented in C"),
    ("ctypes.*", C.C_EXTENSION, "it is implemented in C"),
    ("_ctypes.*", C.C_EXTENSION, "it is implemented in C"),
    ("decimal.*", C.C_EXTENSION, "it is implemented in C"),
    ("hashlib.*", C.C_EXTENSION, "it is implemented in C"),
    ("json.*", C.C_EXTENSION, "it is implemented in C"),
    ("pickle.*", C.C_EXTENSION, "it is implemented in C"),
)

_KNOWN = tuple((re.compile(translate(name)), category, why) for name, category, why in _CALLED)

_CONTEXTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"module: (?P<module>[\w.]+|<unknown module>), qualname: (?P<name>[\w.<>]+)",
        r"qualname: (?P<name>[\w.<>]+), name: ",
        r"builtin (?P<name>\w+) \[",
        r"Called `(?P<name>[\w.]+)\(",
        r"method: <Logger .*?>\.(?P<logger>\w+)",
        r"numpy function: <(?:class|function|built-in function|ufunc) '?(?P<numpy>[\w.]+)",
        r"call_method UserDefinedClassVariable\(<class '(?P<module>[\w.]+)'>\) (?P<name>\w+)",
        r"call_function UserDefinedClassVariable\(<class '(?P<name>[\w.]+)'>\)",
        r"call_method \w+Variable\((?P<module>[\w.]*)\) (?P<name>\w+)",
        r"target: <(?:function|built-in (?:function|method)) (?P<name>\w+)",
        r"<function (?P<name>[\w.<>]+) at ",
    )
)


def callee_of(expression: str) -> str:
    """Return the dotted name that `expression` calls, such as "time.time"; "" if it calls none."""
    try:
        node = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    if not isinstance(node, ast.Call):
        return ""
    try:
        name = ast.unparse(node.func)
    except RecursionError:
        return ""
    return name if re.fullmatch(r"[\w.]+", name) else ""


def named_in_context(context: str) -> str:
    """Return the dotted name in Dynamo's context of a break, "time.time"; "" if it has none."""
    for pattern in _CONTEXTS:
        if found := pattern.search(context):
            parts = found.groupdict()
            if parts.get("logger"):
                return f"logging.{parts['logger']}"
            if parts.get("numpy"):
                return f"numpy.{parts['numpy'].removeprefix('numpy.')}"
            module = parts.get("module") or ""
            known = bool(module) and not module.startswith("<")
            return f"{module}.{parts['name']}" if known else parts["name"]
    return ""


def find_known_function(brk: Break, expression: str) -> KnownFunction | None:
    """Return why Dynamo does not trace the function that broke the graph; None if unknown.

    The function is looked for in this order: the call in the user's expression, the library
    functions on the stack from the outside in (`uuid.uuid4` before the `posix.urandom` that it
    calls), and the function that Dynamo names.
    """
    on_stack = [_library_name(p.file, p.function) for p in brk.stack[1:]]
    for name in (callee_of(expression), *on_stack, named_in_context(brk.context)):
        for pattern, category, why in _KNOWN:
            if name and pattern.match(name):
                return KnownFunction(category, why)
    return None


def _library_name(file: str, function: str) -> str:
    """Return "copy.deepcopy" for the function deepcopy in copy.py.

    "" for files of users and of installed libraries other than torch.
    """
    path = PurePath(file)
    if owner_of(file) is Owner.TORCH and "torch" in path.parts:
        start = len(path.parts) - 1 - path.parts[::-1].index("torch")
        return ".".join((*path.with_suffix("").parts[start:], function))
    if owner_of(file) is not Owner.PYTHON:
        return ""
    module = path.parent.name if path.stem == "__init__" else path.stem.strip("<>")
    return f"{module.removeprefix('frozen ').removesuffix('path')}.{function}"
