"""Parts of advice that are made of the user's expression."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial

from fullgraph.diagnose.taxonomy.known_functions import callee_of
from fullgraph.diagnose.taxonomy.sentences import quote
from fullgraph.diagnose.taxonomy.usage import TRACED, Usage

_METHODS = {"sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "floor", "ceil"}
"""Functions of `math` that tensors have as methods of the same name and meaning."""
_FUNCTIONAL = {
    "jacobian": "torch.func.jacrev",
    "hessian": "torch.func.hessian",
    "vjp": "torch.func.vjp",
    "jvp": "torch.func.jvp",
}


NUMPY_TWINS = {
    "vectorize": "call the function with the whole tensor: torch's operations are vectorized",
    "apply_along_axis": "call the function with the whole tensor and `dim=`, or use `torch.vmap`",
    "apply_over_axes": "call torch's function with `dim=` once for each dimension",
    "frompyfunc": "write the function with torch's operations, on the whole tensor",
    "isscalar": "ask `isinstance(x, (int, float))`, or `x.ndim == 0` of a tensor",
    "interp": "use `torch.searchsorted` and `torch.lerp`, or compute the table in `__init__`",
    "digitize": "use `torch.bucketize(x, bins, right=True)`",
    "isin": "use `torch.isin`",
    "intersect1d": "use `torch.isin` with a mask: how much both have in common depends on the data",
    "setdiff1d": "use `~torch.isin` as a mask: how much is left over depends on the data",
    "union1d": "compute it before the compiled region: its size depends on the data",
    "nanmean": "use `torch.nanmean`",
    "nanmedian": "use `torch.nanquantile(x, 0.5)`",
    "nanquantile": "use `torch.nanquantile`",
    "pad": "use `torch.nn.functional.pad`",
    "piecewise": "use `torch.where`, once for each piece",
    "trapezoid": "use `torch.trapezoid`",
    "unravel_index": "use `torch.unravel_index`",
}
"""What to do in place of a NumPy function that Dynamo does not trace."""


def parse(expression: str) -> ast.AST | None:
    """Return the syntax node of one expression or statement; None if the text is not one."""
    try:
        (node,) = ast.parse(expression.strip()).body
    except (SyntaxError, ValueError):
        return None
    return node.value if isinstance(node, ast.Expr) else node


def call_method(node: ast.AST | None) -> str:
    """Return `x.sum().sqrt()` for `math.sqrt(x.sum())`; "" for other code."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=[tensor], keywords=[]
        ) if name in _METHODS:
            simple = isinstance(tensor, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
            text = ast.unparse(tensor)
            return f"{text if simple else f'({text})'}.{name}()"
    return ""


def clone(node: ast.AST | None) -> str:
    """Return `x.clone()` for `copy.deepcopy(x)`; "" for other code."""
    match node:
        case ast.Call(args=[ast.Name() | ast.Attribute() as tensor], keywords=[]):
            return f"{ast.unparse(tensor)}.clone()"
    return ""


def _code(usage: Usage) -> str:
    return quote(usage.expression).strip("`") if usage.expression else ""


def _condition(usage: Usage) -> str:
    """Return `torch.logical_not(m)` for `not m`, `n != 0` for a number, and a mask as it is.

    Return "" for conditions of Python, such as `a and b`: none of them gives a tensor.
    """
    match parse(usage.expression):
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"torch.logical_not({ast.unparse(operand)})"
        case ast.Call(func=ast.Name(id="bool"), args=[tensor]):
            return ast.unparse(tensor)
        case ast.BoolOp() | ast.Compare(ops=[_, _, *_]) | ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return ""
    code = _code(usage)
    is_bool = not usage.is_tensor or (usage.value or "").startswith("bool")
    return code if is_bool or not code else f"{code} != 0"


def _condition_of_exit(usage: Usage, *, holds: bool = True) -> str:
    """Return the condition with which the branch exits, or that with which it does not.

    Return "" if the expression alone does not say it.
    """
    condition = _condition(usage)
    if not condition or usage.exits_if is None or usage.exits_if is holds:
        return condition if usage.exits_if is not None else ""
    match parse(condition):
        case ast.Call(func=ast.Attribute(attr="logical_not"), args=[operand]):
            return ast.unparse(operand)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ast.unparse(operand)
    return f"~({condition})"


def _membership(usage: Usage) -> str:
    """Return `torch.isin(x, torch.tensor([1, 2]))` for `x in [1, 2]`; "" for other code."""
    match parse(usage.expression):
        case ast.Compare(
            left=left, ops=[ast.In()], comparators=[ast.List() | ast.Tuple() as among]
        ):
            return f"torch.isin({ast.unparse(left)}, torch.tensor({ast.unparse(among)}))"
    return ""


def _reduction(usage: Usage) -> str:
    """Return `(x[0] > 0).any()` for `any(v > 0 for v in x[0])`; "" for other code."""
    match parse(usage.expression):
        case ast.Call(
            func=ast.Name(id="any" | "all" as name),
            args=[
                ast.GeneratorExp(
                    elt=elt,
                    generators=[ast.comprehension(target=ast.Name(id=target), iter=rows, ifs=[])],
                )
            ],
        ):
            whole = re.sub(rf"\b{target}\b", lambda _: ast.unparse(rows), ast.unparse(elt))
            return f"({whole}).{name}()"
    return ""


def _container(usage: Usage) -> str:
    """Return `table` for `table[i]`; "" for other code."""
    match parse(usage.expression):
        case ast.Subscript(value=ast.Name() | ast.Attribute() as container, slice=index):
            return "" if isinstance(index, ast.Slice | ast.Tuple) else ast.unparse(container)
    return ""


def _number(usage: Usage) -> str:
    """Return `self.k` for `torch.topk(x, self.k)`.

    It is the only argument after the first that was a tensor or a number of NumPy, or else the only
    one that is no literal, dtype or device. Return "" for other code, and if several are.
    """
    node = parse(usage.expression)
    node = node.iter if isinstance(node, ast.For) else node
    if not isinstance(node, ast.Call):
        return ""
    counts = usage.is_of_numpy or ast.unparse(node.func) == "range"
    values = node.args[0 if counts else 1 :]
    values += [one.value for one in node.keywords if one.arg not in ("dtype", "device", "out")]
    values += [one for value in values if isinstance(value, ast.Tuple) for one in value.elts]
    texts = [
        ast.unparse(one)
        for one in values
        if not isinstance(one, ast.Constant | ast.Tuple | ast.List)
    ]
    seen = [text for text in texts if _is_traced(usage, text)]
    found = dict.fromkeys(seen or texts)
    plain = [text for text in found if re.fullmatch(r"[\w.]+", text)]
    if len(plain) == 1 and all(re.search(rf"\b{re.escape(plain[0])}\b", one) for one in found):
        return plain[0]
    return next(iter(found)) if len(found) == 1 else ""


def _is_traced(usage: Usage, code: str) -> bool:
    """Return whether a part of the expression was seen to be a tensor or a value of NumPy."""
    return bool(TRACED.match(usage.parts.get(code, "")))


def _step(usage: Usage) -> str:
    """Return `r` for `range(0, n, r)` if `r` was a tensor, or where it starts; "" for its end."""
    number = _number(usage)
    found = re.search(r"\brange\((.*)\)", usage.expression)
    arguments = [one.strip() for one in found[1].split(",")] if found else []
    is_end = arguments[:2][-1:] == [number]
    return number if _is_traced(usage, number) and number in arguments and not is_end else ""


def _python_number(usage: Usage) -> str:
    """Return `max(sizes)` for the number that `np.max(sizes)` gives; "" for other code.

    The number is the expression, or the one that it needs.
    """
    number = _number(usage)
    for text in (usage.expression, usage.origins.get(number, number)):
        if found := _in_python(parse(text), usage):
            return found
    return ""


_BUILTINS = {"max": "max", "min": "min", "sum": "sum", "amax": "max", "amin": "min"}
_BUILTINS |= {name: f"math.{name}" for name in ("prod", "ceil", "floor", "sqrt", "log", "exp")}


def _in_python(node: ast.AST | None, usage: Usage) -> str:
    """Return the code with Python's functions in place of NumPy's on numbers; "" if not known."""
    match node:
        case ast.Call(func=ast.Name(id="int" | "float"), args=[inner], keywords=[]):
            return _in_python(inner, usage)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name),
            args=[argument],
            keywords=[],
        ) if _is_of_numbers(argument, usage):
            text = ast.unparse(argument)
            if name in ("mean", "average"):
                return f"sum({text}) / len({text})" if isinstance(argument, ast.Name) else ""
            return f"{_BUILTINS[name]}({text})" if name in _BUILTINS else ""
    return ""


_OF_NUMBERS = re.compile(r"[\[(]?-?\d|(list|tuple|torch\.Size)\b.*\b(int|float)\b|torch\.Size")


def _is_of_numbers(node: ast.AST, usage: Usage) -> bool:
    """Return whether code is a Python number, or a list of some, as seen or as it is written."""
    if seen := usage.parts.get(ast.unparse(node)):
        return bool(_OF_NUMBERS.match(seen))
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return all(_is_of_numbers(item, usage) for item in items)
        case ast.ListComp(elt=item) | ast.GeneratorExp(elt=item) | ast.Subscript(value=item):
            return _is_of_numbers(item, usage)
        case ast.BinOp(left=left, right=right):
            return _is_of_numbers(left, usage) and _is_of_numbers(right, usage)
        case ast.Constant(value=int() | float()) | ast.Call(func=ast.Name(id="len")):
            return True
        case (
            ast.Attribute(attr="shape")
            | ast.Call(func=ast.Attribute(attr="size" | "numel" | "item" | "tolist"))
        ):
            return True
        case ast.Name(id=name) if origin := parse(usage.origins.get(name, "")):
            return _is_of_numbers(origin, usage)
    return False


def _window(usage: Usage) -> str:
    """Return `a + torch.arange(n)` for the slice `a:a + n`; "" for other code."""
    match parse(f"_[{usage.expression}]"):
        case ast.Subscript(
            slice=ast.Slice(
                lower=ast.AST() as low,
                upper=ast.BinOp(left=start, op=ast.Add(), right=length),
                step=None,
            )
        ) if ast.unparse(low) == ast.unparse(start):
            return f"{ast.unparse(low)} + torch.arange({ast.unparse(length)})"
    return ""


def _filled(usage: Usage) -> str:
    """Return `torch.where(mask, x, 0)` for `x[mask]`; "" for other code."""
    match parse(usage.expression):
        case ast.Subscript(value=tensor, slice=mask) if not isinstance(mask, ast.Tuple | ast.Slice):
            return f"torch.where({ast.unparse(mask)}, {ast.unparse(tensor)}, 0)"
    return ""


def _first(usage: Usage) -> str:
    """Return `m.int().argmax()` for `m.nonzero()[0]`, in the statement of `m.nonzero()`.

    Return "" for other code, and unless `m` was seen to have one dimension.
    """
    if not re.search(r", 1\]\Z|\Atuple of (ndarray )?\w+\[\d+\]\Z", usage.value or ""):
        return ""
    taken = re.escape(ast.unparse(node)) if (node := parse(usage.expression)) else ""
    match node:
        case ast.Call(func=ast.Attribute(value=mask, attr="nonzero"), args=[], keywords=[]):
            first = r"\[0\]"
        case ast.Call(func=ast.Attribute(attr="where" | "nonzero" as name), args=[mask]):
            pairs = name == "where" or ast.unparse(node).startswith("np.")
            first = r"\[0\]\[0\]" if pairs else r"\[0\]"
        case _:
            return ""
    statement = parse(usage.statement)
    text = "" if statement is None else ast.unparse(statement)
    if not re.search(taken + first, text):
        return ""
    code = ast.unparse(mask)
    is_mask = isinstance(mask, ast.Compare) or usage.parts.get(code, "").startswith("bool")
    code = code if is_mask else f"{code} != 0"
    if usage.is_of_numpy:
        return f"np.argmax({code})"
    is_name = re.fullmatch(r"[\w.]+", code)
    return f"{code if is_name else f'({code})'}.int().argmax()"


def _indices(usage: Usage) -> str:
    """Return `torch.randint(n, (k,))` for `np.random.choice(n, k)`; "" for other code."""
    node = parse(usage.expression)
    if not isinstance(node, ast.Call):
        return ""
    name = callee_of(usage.expression).rpartition(".")[2]
    given = {one.arg: one.value for one in node.keywords}
    size = given.get("k", given.get("size", node.args[1] if len(node.args) > 1 else None))
    replace = given.get("replace", node.args[2] if len(node.args) > 2 else None)
    unique = isinstance(replace, ast.Constant) and replace.value is False
    if "p" in given or "weights" in given:
        weights = ast.unparse(given.get("p", given.get("weights")))  # type: ignore[arg-type]
        again = "" if unique else ", replacement=True"
        return f"torch.multinomial({weights}, {ast.unparse(size) if size else 1}{again})"
    if size is None:
        return "torch.randint(n, ())" if name.endswith("choice") else ""
    if unique:
        return f"torch.randperm(n)[:{ast.unparse(size)}]"
    text = ast.unparse(size)
    is_shape = isinstance(size, ast.Tuple) or text.endswith(".shape")
    return f"torch.randint(n, {text if is_shape else f'({text},)'})"


def _count(usage: Usage) -> str:
    """Return "3", the last size, for a value described as "i64[2, 3]"; "" if it has no size."""
    found = re.search(r"(\d+)\]\Z", usage.value or "")
    return found[1] if found else ""


def _classes(usage: Usage) -> str:
    """Return `one_hot(x, 5)` for `one_hot(x)` if the result had 5 classes; "" for other code."""
    node = parse(usage.expression)
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return ""
    return f"{ast.unparse(node.func)}({ast.unparse(node.args[0])}, {_count(usage)})"


def _tensor(usage: Usage) -> str:
    """Return what the number in `int(x.sum())` is taken from: "the 0-d tensor"."""
    match parse(usage.expression):
        case ast.Call(func=ast.Attribute(value=inner, attr="item")) | ast.Call(args=[inner]):
            seen = usage.parts.get(ast.unparse(inner), "")
            if re.match(r"(ndarray|u?int\d+|float\d+) ", seen):
                return "the NumPy value"
            return "the tensor" if re.search(r"\[\d", seen) else "the 0-d tensor"
    return "the 0-d tensor"


def _drawing(usage: Usage) -> str:
    """Return the code that `drawn` takes the place of, in backquotes."""
    is_sum = isinstance(parse(usage.expression), ast.BinOp | ast.Compare)
    return f"`{_draw(usage)}`" if is_sum else quote(usage.expression)


def _draw(usage: Usage) -> str:
    """Return the first call in the expression that draws a random number: `random.random()`.

    Return "" if the expression has no such call that torch has, too.
    """
    return ast.unparse(call) if (call := _find_draw(usage)) else ""


_DRAWS = {
    "rand": "torch.rand({shape})",
    "random": "torch.rand({size})",
    "random_sample": "torch.rand({size})",
    "randn": "torch.randn({shape})",
    "standard_normal": "torch.randn({size})",
    "uniform": "torch.empty({size}).uniform_({both})",
    "normal": "torch.empty({size}).normal_({both})",
    "gauss": "torch.empty({size}).normal_({both})",
    "normalvariate": "torch.empty({size}).normal_({both})",
    "exponential": "torch.empty({size}).exponential_()",
}
"""What torch has for what random and NumPy draw."""
_WHOLE = {"randint", "randrange", "integers"}
"""Functions that draw a whole number."""


def _find_draw(usage: Usage) -> ast.Call | None:
    calls = [
        one
        for one in ast.walk(parse(usage.expression) or ast.Module([], []))
        if isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr in {*_DRAWS, *_WHOLE}
    ]
    return next(iter(calls), None)


def _drawn(usage: Usage) -> str:
    """Return `torch.rand(())` for `random.random()`; "" for other code, and unknown arguments."""
    call = _find_draw(usage)
    if call is None:
        return ""
    name = ast.unparse(call.func).rpartition(".")[2]
    given = {one.arg: ast.unparse(one.value) for one in call.keywords}
    values = [ast.unparse(one) for one in call.args]
    if name in _WHOLE:
        first, last = [*(["0"] if len(values) == 1 else []), *values][:2] if values else ("", "")
        size = given.pop("size", values[2] if len(values) > 2 else "()")
        inclusive = " + 1" if ast.unparse(call.func) == "random.randint" else ""
        shape = size if re.search(r"\A\(|\.shape\Z", size) else f"({size},)"
        return "" if given or not last else f"torch.randint({first}, {last}{inclusive}, {shape})"
    shape = ", ".join(values) or "()"
    takes = 2 if "{both}" in _DRAWS[name] else 0
    size = given.pop("size", values[takes] if len(values) > takes else "()")
    both = ", ".join(
        [*values[:takes], *(given.pop(key, "") for key in ("low", "high", "loc", "scale"))]
    )
    both = both.strip(", ")
    if given or (takes and both.count(",") != (1 if both else 0)):
        return ""
    if name == "uniform" and not both:
        return f"torch.rand({size})"
    return _DRAWS[name].format(shape=shape, size=size, both=both)


def _func(usage: Usage) -> str:
    return _FUNCTIONAL.get(callee_of(usage.expression).rpartition(".")[2], "")


def _outside(usage: Usage) -> str:
    """Return where to do what the compiled function need not do; "" if it needs what is inside."""
    if usage.is_computed or usage.is_manager or usage.is_target:
        return ""
    return "outside the compiled function and pass the result in"


def _numpy(usage: Usage) -> str:
    """Return what to do in place of the NumPy function in the expression; "" if unknown."""
    names = re.findall(r"\b(?:np|numpy)\.(\w+)", usage.expression)
    return next((NUMPY_TWINS[name] for name in names if name in NUMPY_TWINS), "")


PARTS: dict[str, Callable[[Usage], str]] = {
    "code": _code,
    "condition": _condition,
    "exit": _condition_of_exit,
    "stay": partial(_condition_of_exit, holds=False),
    "callee": lambda usage: callee_of(usage.expression),
    "member": _membership,
    "reduction": _reduction,
    "container": _container,
    "method": lambda usage: call_method(parse(usage.expression)),
    "number": _number,
    "filled": _filled,
    "count": _count,
    "classes": _classes,
    "kind": lambda usage: (
        "a list of ints"
        if re.search(r"\[\d", usage.parts.get(_number(usage), ""))
        else "a Python int"
    ),
    "draw": _draw,
    "drawing": _drawing,
    "tensor": _tensor,
    "drawn": _drawn,
    "window": _window,
    "func": _func,
    "clone": lambda usage: clone(parse(usage.expression)) if usage.is_tensor else "",
    "outer": lambda usage: usage.outer_function,
    "numpy": _numpy,
    "step": _step,
    "traced": lambda usage: number if _is_traced(usage, number := _number(usage)) else "",
    "python": _python_number,
    "first": _first,
    "indices": _indices,
    "outside": _outside,
}
"""By name in the braces of a remedy, what to fill in; "" if the code has no such part."""
