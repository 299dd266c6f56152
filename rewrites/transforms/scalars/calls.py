"""Calls that take a number as argument, rewritten for a tensor."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst
import torch

from fullgraph.rewrites.analysis import (
    NotApplicable,
    called_function,
    names_mutated,
    torch_name,
    word_set,
)
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.containers import KEPT, STORES, propagate_to_container
from fullgraph.rewrites.transforms.scalars.quantization import QUANTIZES, quantize_by_tensors
from fullgraph.rewrites.transforms.scalars.scalar import HALF, LOOPS, NEEDS, Number
from fullgraph.rewrites.transforms.scalars.signs import Sign, sign_of
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits, argument_for

FINITE = "the number is finite, for otherwise Python raises"
_ACCEPTS_SCALAR_TENSOR = word_set(
    """
    add add_ copysign div div_ divide divide_ eq fill_ floor_divide floor_divide_ fmod ge
    greater greater_equal gt le less less_equal lt masked_fill masked_fill_ mul mul_ multiply
    multiply_ ne not_equal pow pow_ remainder remainder_ sub sub_ subtract subtract_ true_divide
    where xlogy
    """
)
"""Operations that give the same result for a 0-d tensor as for a number."""
_CLAMPS = word_set("clamp clamp_ clip clip_")
_BOUNDS = {"clamp_min": "min", "clamp_max": "max", "clamp_min_": "min", "clamp_max_": "max"}
_WITH_ALPHA = word_set("add add_ sub sub_ subtract subtract_")
"""Operations with `alpha=`, which must be a number."""
_FILLED = {"full_like": "empty_like", "new_full": "new_empty"}
_DIVISORS = {"gumbel_softmax": "tau"}
"""Functions of torch that divide by an argument, with its name."""
_MASK_FIRST = word_set("masked_fill masked_fill_ where")
"""Operations whose first tensor argument is a mask."""
_MATH = re.compile(
    r"(math|numpy)\.(sqrt|exp|expm1|log|log2|log10|log1p|sin|cos|tan|tanh|atan|arctan|ceil|floor|"
    r"trunc|fabs|abs|absolute|isnan|isinf|isfinite)"
)
_NUMPY_NAMES = {"arctan": "atan", "absolute": "abs"}
"""Functions of NumPy that `math` or Python has under another name."""
_WHOLE = ("ceil", "floor", "trunc")
_TESTS = ("isnan", "isinf", "isfinite")
_FROM_ZERO = ("sqrt",)
_ABOVE_ZERO = ("log", "log2", "log10", "log1p")


def propagate_to_argument(uses: UseEdits, arg: cst.Arg, number: Number) -> None:
    """Edit a call for its argument `arg`, a number that becomes a 0-d tensor.

    `x.roll(n, 0)` becomes an `index_select`; `x.add(n)` may need a cast of `n`. Also edits the uses
    of the result if it becomes a tensor. Raises NotApplicable if the call needs a number.
    """
    call = uses.document.parent(arg)
    if not isinstance(call, cst.Call):
        raise NotApplicable("a tensor cannot stand where the number is used")
    called = uses.site.callee_name(call)
    is_math = _MATH.fullmatch(called) is not None
    operation = "" if is_math else torch_name(uses.site, call)
    function = called_function(uses.site, call)
    plain = arg.keyword is None and len(call.args) == 1
    if called in ("torch.tensor", "torch.as_tensor"):
        _rewrite_tensor_constructor(uses, call, arg, number)
    elif operation:
        _rewrite_operation(uses, call, arg, number, operation)
    elif called in ("max", "min"):
        _rewrite_max_or_min(uses, call, arg, number, called)
    elif called in ("int", "float", "abs", "round") or is_math:
        if not plain and called != "round":
            raise NotApplicable(f"`{called}` takes more than the number")
        if called.startswith("numpy.") and called.endswith((".ceil", ".floor", ".trunc")):
            raise NotApplicable(
                f"`{called}` gives a float, and a tensor would be rounded to an int"
            )
        _rewrite_conversion(uses, call, number, called)
    elif function is not None:
        _propagate_to_parameter(uses, function, call, arg, number)
    elif isinstance(call.func, cst.Attribute) and call.func.attr.value in STORES:
        uses.clone_if_shared(arg.value, number)
        if isinstance(call.func.value, cst.Name):
            propagate_to_container(uses, call.func.value, number)
        else:
            uses.assume_reader_accepts_tensor(KEPT)
    elif called == "range":
        raise NotApplicable(LOOPS)
    else:
        raise NotApplicable(NEEDS.format(uses.document.code(call.func)))


def _rewrite_operation(
    uses: UseEdits, call: cst.Call, arg: cst.Arg, number: Number, operation: str
) -> None:
    """Edit a call of a torch operation for its argument `arg`, a number that becomes a tensor.

    `operation` is its name: "add", "roll". Raises NotApplicable if it needs a number.
    """
    keyword = arg.keyword.value if arg.keyword is not None else ""
    others = [one.value for one in call.args if one is not arg and one.keyword is None]
    if isinstance(call.func, cst.Attribute) and uses.is_tensor(call.func.value):
        owner: cst.BaseExpression | None = call.func.value
    else:
        owner = None
    tensors = [one for one in (owner, *others) if one is not None and uses.is_tensor(one)]
    if operation in _MASK_FIRST and tensors:
        mask = next((one for one in tensors if uses.dtypes(one) == {"bool"}), None)
        tensors = [one for one in tensors if one is not mask]
    if keyword == "alpha" and operation in _WITH_ALPHA and others:
        _rewrite_alpha(uses, call, arg, others[-1], number)
    elif operation in _CLAMPS or operation in _BOUNDS:
        _rewrite_clamp(uses, call, arg, number, owner)
    elif operation in _FILLED and (keyword == "fill_value" or arg in call.args[1:2]):
        rest = [one for one in call.args if one is not arg]
        rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        name = cst.Name(_FILLED[operation])
        func = call.func.with_changes(attr=name) if isinstance(call.func, cst.Attribute) else name
        empty = call.with_changes(func=func, args=rest)
        uses.write(call, build_expression("{empty}.fill_({n})", empty=empty, n=arg.value))
    elif operation == "full" and arg in call.args[1:2] and not keyword:
        dtype = torch.tensor(number.kind(1)).dtype
        if not any(one.keyword and one.keyword.value == "dtype" for one in call.args):
            uses.cast(arg.value, number, dtype)
    elif operation == QUANTIZES:
        quantize_by_tensors(uses, call, arg, number)
    elif operation == "roll":
        _rewrite_roll(uses, call, arg, number, owner)
    elif operation in ("lerp", "lerp_") and others and tensors:
        (needed,) = uses.dtypes(tensors[0]) or {""}
        uses.cast(arg.value, number, getattr(torch, needed))
    elif operation in _ACCEPTS_SCALAR_TENSOR and keyword in ("", "other", "value", "exponent"):
        if not tensors:
            _cast_beside_number(uses, call, arg, number, others)
        for one in tensors if operation != "fill_" else ():
            seen = uses.observed(one)
            if seen is not None:
                uses.promote_with(arg.value, number, seen, divided="div" in operation)
    elif operation in _DIVISORS and keyword == _DIVISORS[operation] and uses.is_tensor(others[0]):
        seen = uses.observed(others[0])
        if seen is not None:
            uses.promote_with(arg.value, number, seen, divided=True)
    elif operation == "randint":
        raise NotApplicable(
            "`torch.randint` draws between numbers: scale `torch.rand` by the tensor, which draws "
            "other numbers"
        )
    else:
        raise NotApplicable(NEEDS.format(uses.document.code(call.func)))


def _rewrite_roll(
    uses: UseEdits, call: cst.Call, arg: cst.Arg, number: Number, owner: cst.BaseExpression | None
) -> None:
    """Rewrite `x.roll(n, 0)` to `x.index_select(0, (torch.arange(len(x)) - n) % len(x))`.

    `owner` is `x`; None for the function `torch.roll`. Raises NotApplicable if `x` was not observed
    or several dimensions are rolled.
    """
    plain = [one.value for one in call.args if one.keyword is None]
    named = {one.keyword.value: one.value for one in call.args if one.keyword is not None}
    given = dict(
        zip(("input", "shifts", "dims"), [owner, *plain] if owner else plain, strict=False)
    )
    given |= named
    tensor, dim = given.get("input"), given.get("dims")
    seen = uses.observed(tensor) if tensor is not None else None
    if tensor is None or seen is None or given.get("shifts") is not arg.value:
        raise NotApplicable("it is not known what is rolled")
    if dim is None and seen.dims != {1}:
        raise NotApplicable("all dimensions are rolled as one")
    if dim is not None and uses.kind(dim) is not int:
        raise NotApplicable("several dimensions are rolled")
    uses.widen(arg.value, number)
    shift, bare = "{places} - {n}", arg.value
    if isinstance(bare, cst.UnaryOperation) and isinstance(bare.operator, cst.Minus):
        shift, bare = "{places} + {n}", bare.expression
    parts = {"x": tensor, "d": dim or cst.Integer("0")}
    places = build_expression("torch.arange({x}.shape[{d}], device={x}.device)", **parts)
    shifted = build_expression(shift, places=places, n=bare)
    uses.write(
        call, build_expression("{x}.index_select({d}, {i} % {x}.shape[{d}])", i=shifted, **parts)
    )
    uses.imports.append("torch")


def _cast_beside_number(
    uses: UseEdits, call: cst.Call, arg: cst.Arg, number: Number, others: list[cst.BaseExpression]
) -> None:
    """Cast `n` in `torch.where(mask, n, 0.0)` to the dtype that two Python numbers would give.

    `others` are the positional arguments without `n`. Raises NotApplicable unless exactly one of
    them is a number.
    """
    kinds = [kind for one in others if (kind := uses.kind(one)) is not None]
    if len(kinds) != 1:
        raise NotApplicable(NEEDS.format(uses.document.code(call.func)))
    uses.cast(arg.value, number, torch.result_type(number.kind(1), kinds[0](1)))


def _rewrite_clamp(
    uses: UseEdits, call: cst.Call, arg: cst.Arg, number: Number, owner: cst.BaseExpression | None
) -> None:
    """Rewrite `x.clamp(n, 1)` to `x.clamp(min=n).clamp(max=1)`, since `n` is now a tensor.

    `owner` is `x`; None for the function `torch.clamp`. A clamp with one bound stays one call.
    """
    rest = [one for one in call.args if one is not arg]
    tensor = owner
    if tensor is None:
        tensor, rest = call.args[0].value, rest[1:]
    seen = uses.observed(tensor)
    if seen is None or tensor is arg.value:
        raise NotApplicable("it is not known what is clamped")
    uses.promote_with(arg.value, number, seen)
    rest = [one for one in rest if not _is_none(one.value)]
    if not rest:
        return
    if len(rest) > 1 or not isinstance(call.func, cst.Attribute):
        raise NotApplicable("there is more than two bounds")
    is_min = arg.keyword.value == "min" if arg.keyword is not None else call.args[-1] is not arg
    lower, upper = (arg.value, rest[0].value) if is_min else (rest[0].value, arg.value)
    name = call.func.attr.value.replace("clip", "clamp")
    new = f"{{x}}.{name}(min={{lower}}).{name}(max={{upper}})"
    uses.write(call, build_expression(new, x=tensor, lower=lower, upper=upper))


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _rewrite_alpha(
    uses: UseEdits, call: cst.Call, alpha: cst.Arg, other: cst.BaseExpression, number: Number
) -> None:
    """Rewrite `x.add_(y, alpha=n)` to `x.add_(y * n)`, where `other` is `y`.

    Raises NotApplicable if `y` was not observed to be a tensor.
    """
    seen = uses.observed(other)
    if seen is None or not seen.is_tensor:
        raise NotApplicable("`alpha=` must be a number")
    uses.promote_with(alpha.value, number, seen)
    args = [one for one in call.args if one is not alpha]
    place = next(n for n, one in enumerate(args) if one.value is other)
    product = build_expression("{other} * {n}", other=other, n=alpha.value)
    args[place] = args[place].with_changes(value=product)
    args[-1] = args[-1].with_changes(comma=alpha.comma)
    uses.write(call, call.with_changes(args=args))


def _rewrite_tensor_constructor(
    uses: UseEdits, call: cst.Call, arg: cst.Arg, number: Number
) -> None:
    """Rewrite `torch.tensor(n, dtype=d)` to `n.to(d)`, where `arg` is `n`, now a tensor.

    Raises NotApplicable for arguments other than `dtype` and `device`.
    """
    options = {one.keyword.value: one.value for one in call.args if one.keyword is not None}
    if arg.keyword is not None or options.keys() - {"dtype", "device"}:
        raise NotApplicable(f"`{uses.document.code(call.func)}` takes more than the number")
    if number.may_be_plain:
        raise NotApplicable("a plain number may stand there too")
    new = arg.value
    if options:
        moved = ", ".join(f"{key}={{{key}}}" for key in options)
        new = build_expression(f"{{n}}.to({moved})", n=new, **options)
    elif number.dtype is not (dtype := torch.tensor(number.kind(1)).dtype):
        uses.cast(arg.value, number, dtype)
    elif not number.owns_memory:
        new = build_expression("{n}.clone()", n=new)
    uses.write(call, new)


def _rewrite_max_or_min(
    uses: UseEdits, call: cst.Call, arg: cst.Arg, number: Number, called: str
) -> None:
    """Rewrite `max(n, 1)` to `n.clamp(min=1)`, where `arg` is `n`; `called` is "max" or "min".

    Where both arguments become tensors, `max(n, k)` is `torch.maximum(n, k)`.
    Raises NotApplicable if the other arguments are not known to be numbers.
    """
    others = [one.value for one in call.args if one is not arg]
    kinds = [uses.kind(one) for one in others]
    if arg.keyword is not None or not others or any(one.keyword for one in call.args):
        raise NotApplicable(f"`{called}` looks into a container")
    if call in uses.texts and number.may_be_plain:
        return  # the other argument is a tensor in any case
    if number.may_be_plain:
        raise NotApplicable("a plain number may stand there too")
    if None in kinds:
        raise NotApplicable(f"it is not known what else `{called}` is given")
    if number.kind is float and call.args[0] is not arg:
        uses.assume("the number is not NaN, which `max` and `min` may pass over")
    whole = number.kind is not float
    number = uses.widen(arg.value, number) if number.dtype is torch.bool else number
    bound = "min" if called == "max" else "max"
    parts = {f"o{n}": one for n, one in enumerate(others)}
    text = "{n}" + "".join(f".clamp({bound}={{{name}}})" for name in parts)
    if len(others) == 1 and others[0] in uses.tensors:
        text, parts = f"torch.{called}imum({{a}}, {{b}})", {"a": call.args[0].value}
        uses.write(call, build_expression(text, b=call.args[1].value, **parts), "torch")
    else:
        uses.write(call, build_expression(text, n=arg.value, **parts))
    is_int_or_float = whole != all(kind is not float for kind in kinds)
    kind = float if float in (number.kind, *kinds) else int
    dtype = torch.result_type(torch.empty((), dtype=number.dtype), kind(1))
    uses.propagate(
        call, Number(kind, dtype, is_computed=number.is_computed, is_int_or_float=is_int_or_float)
    )


def _rewrite_conversion(uses: UseEdits, call: cst.Call, number: Number, called: str) -> None:
    """Rewrite `float(n)` or `math.sqrt(n)`, where the number `n` becomes a tensor.

    `called` is "abs", "float", "int", "round" or a function of `math` such as "math.sqrt".
    """
    node, (module, _, name) = call.args[0].value, called.rpartition(".")
    name, complains = (
        _NUMPY_NAMES.get(name, name),
        "NumPy warns" if module == "numpy" else "Python raises",
    )
    if name == "abs":
        uses.propagate(call, replace(uses.widen(node, number), owns_memory=True))
        return
    if number.may_be_plain:
        raise NotApplicable("a plain number may stand there too")
    floating = number.dtype.is_floating_point
    if name == "float":
        dtype = number.dtype if floating else torch.float32
        uses.write(call, node)
        number = uses.cast(node, number, dtype)
        uses.propagate(call, replace(number, kind=float))
    elif name in ("int", "round", *_WHOLE):
        _rewrite_rounding(uses, call, number, {"int": "trunc"}.get(name, name))
    elif name in _TESTS:
        uses.write(call, build_expression(f"{{n}}.{name}()", n=node))
        uses.propagate(call, Number(bool, torch.bool))
    else:
        known = sign_of(uses.site, node)
        if name in _FROM_ZERO and not known:
            uses.assume(f"the number is not negative, for otherwise {complains}")
        elif name in _ABOVE_ZERO and known is not Sign.POSITIVE:
            uses.assume(f"the number is greater than zero, for otherwise {complains}")
        elif name in ("exp", "expm1") and module == "math":
            uses.assume("the number is small enough for `math.exp`, which raises on overflow")
        if number.dtype in HALF:
            number = uses.cast(node, number, torch.float32)
        new = build_expression(f"{{n}}.{'abs' if name == 'fabs' else name}()", n=node)
        uses.write(call, new)
        dtype = number.dtype if floating else torch.float32
        uses.propagate(call, Number(float, dtype, is_computed=True))


def _rewrite_rounding(uses: UseEdits, call: cst.Call, number: Number, name: str) -> None:
    """Rewrite `int(n)`, `round(n)` or `math.ceil(n)`, where the number `n` becomes a tensor.

    `name` is the tensor method that rounds: "trunc" for `int`, "round", "ceil".
    """
    node, floating = call.args[0].value, number.dtype.is_floating_point
    digits = call.args[1].value if len(call.args) > 1 else None
    if digits is not None:
        if name != "round" or len(call.args) > 2 or not isinstance(digits, cst.Integer):
            raise NotApplicable(f"`{name}` takes more than the number")
        uses.assume("numbers half way between two others may be rounded to the other one")
        uses.write(call, build_expression("{n}.round(decimals={d})", n=node, d=digits))
        uses.propagate(call, replace(number, owns_memory=True, is_computed=True))
        return
    if floating:
        uses.assume(FINITE)
        uses.write(call, build_expression(f"{{n}}.{name}()", n=node))
    else:
        uses.write(call, node)
    uses.propagate(call, replace(number, kind=int, owns_memory=number.owns_memory or floating))


def _propagate_to_parameter(
    uses: UseEdits, function: cst.FunctionDef, call: cst.Call, arg: cst.Arg, number: Number
) -> None:
    """Edit the uses of a parameter of `function` that gets a tensor as `arg`, not a number.

    Raises NotApplicable if it is unknown which parameter that is, or if it is changed in place.
    """
    everything = (*function.params.params, *function.params.kwonly_params)
    found = [one for one in everything if argument_for(function, call, one) is arg.value]
    if not found or function.decorators or any(one.star for one in call.args):
        raise NotApplicable(f"it is not known what `{function.name.value}` does with it")
    if found[0].name.value in names_mutated(function.body):
        raise NotApplicable(f"`{function.name.value}` changes it in place")
    others = len(uses.callers(function)) > 1
    uses.propagate_to_name(
        found[0].name,
        replace(number, owns_memory=False, may_be_plain=number.may_be_plain or others),
    )
