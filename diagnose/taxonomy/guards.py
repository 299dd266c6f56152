"""Failed guards as sentences about the user's variables, with advice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from fullgraph.diagnose.explanation_data import Advice

GuardAdvice = tuple[str, tuple[Advice, ...]]
"""A sentence about a failed guard, and what to do."""

_MARK = Advice(
    "Mark the dimension as dynamic before the first call.",
    "code",
    "compiled(x)",
    "torch._dynamo.mark_dynamic(x, 0)\ncompiled(x)",
    trap="It is an error if the code specialises the dimension after all.",
)
_DYNAMIC = Advice(
    "Compile with `dynamic=True`.",
    "config",
    trap="Every size becomes symbolic, and kernels less specialised; sizes 0 and 1 still get "
    "versions of their own.",
)
_AS_TENSOR = Advice(
    "Pass the number as a 0-d tensor.", "code", "compiled(x, 0.5)", "compiled(x, torch.tensor(0.5))"
)
EXPECT_ONE = Advice(
    "Expect one recompile: from its second value on an int is dynamic, unless Python needs it as a "
    "constant, as the index of a list or the length of a loop.",
    "code",
)
EACH_RECOMPILES = Advice(
    "Pass the number as a 0-d tensor, if the code only computes with it: Python needs it as a "
    "constant here, and each value recompiles.",
    "code",
)
_SAME = Advice("Pass the same value at every call, or compile one function for each value.", "code")
_STATE = {
    "grad_mode": "The grad mode",
    "num_threads": "The number of threads",
    "deterministic_algorithms": "`torch.use_deterministic_algorithms`",
    "default_dtype": "The default dtype",
    "torch_function": "The torch function mode",
    "allow_tf32": "The TF32 setting",
}


def describe_guard(guard: str) -> GuardAdvice:
    """Return one sentence that names the user's variable, and what to do about it.

    `guard` is one of the texts in `Recompile.guards`. If its form is unknown, the sentence quotes
    it.
    """
    guard = plain_names(" ".join(guard.split()))
    for pattern, describe in _FORMS:
        if found := re.search(pattern, guard):
            text, advice = describe(found)
            if _STACK.search(text):
                return _name_stack_values(text), (_REMOVE_BREAK,)
            if "``" not in text:  # a value without a name
                return text, advice
    if re.search(r"\A'\w+' object has no attribute", guard):  # an error of evaluating a guard
        return "A guard on its inputs no longer holds, and torch does not tell which one.", ()
    return f"`{guard}` no longer holds.", ()


_STACK = re.compile(r"`___stack\d+[^`]*`")
"""Dynamo's name for a value that was there when the graph broke."""
_REMOVE_BREAK = Advice("Remove the graph break that the value comes from.", "code")


def _name_stack_values(text: str) -> str:
    text = _STACK.sub("a value that came out of the graph break before it", text)
    return text[0].upper() + text[1:]


def plain_names(guard: str) -> str:
    """Return the guard with names as in the user's source: `layers[0].n` for `_modules['0'].n`."""
    guard = re.sub(r"\b[LG]\[['\"](\w+)['\"]\]", r"\1", guard)
    guard = re.sub(r"\._(?:modules|parameters|buffers)\['(\d+)'\]", r"[\1]", guard)
    guard = re.sub(r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1", guard)
    return re.sub(r"\.__dict__\['(\w+)'\]", r".\1", guard)


def _describe_size(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed size of a dimension."""
    name, dimension, old, new = found.groups()
    what = f"{old} rows" if dimension == "0" else f"size {old} in dimension {dimension}"
    text = f"`{name}` had {what}, now {new}."
    if {old, new} & {"0", "1"}:
        text += " Sizes 0 and 1 always get a version of their own."
        return text, ()
    if not name.isidentifier():
        return text, (_MARK, _DYNAMIC)
    before, mark = f"compiled({name})", f"torch._dynamo.mark_dynamic({name}, {dimension})"
    how = f"Call `{mark}` before the first call."
    if dimension == "0" and int(new) < int(old):
        how += " A smaller last batch of a DataLoader: give it `drop_last=True`."
    return text, (replace(_MARK, text=how, before=before, after=f"{mark}\n{before}"), _DYNAMIC)


def _describe_rank(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed number of dimensions."""
    name, old, new = found.groups()
    advice = Advice("Give it the same number of dimensions at every call.", "code")
    return f"`{name}` had {old} dimensions, now {new}.", (advice,)


def _describe_tensor(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed property of a tensor, such as its dtype or stride."""
    name, what, old, new = found.groups()
    advice = Advice(f"Give it the same {what} at every call.", "code")
    if what == "stride":
        text = f"`{name}` has another memory layout (stride {old}, now {new})."
        return text, (Advice("Call `.contiguous()` before the compiled function.", "code"),)
    return f"`{name}` had {what} {old}, now {new}.", (advice,)


def _describe_dispatch_keys(found: re.Match[str]) -> GuardAdvice:
    """Describe changed dispatch keys of a tensor."""
    advice = Advice(
        "Write buffers in place instead of assigning new tensors to them.",
        "code",
        "self.buffer = value",
        "self.buffer.copy_(value)",
        trap="What still holds the old tensor then sees the new values.",
    )
    return f"`{found[1]}` is a tensor of another kind than before.", (advice,)


def _describe_requires_grad(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed `requires_grad`."""
    now = "now it does" if found[2] in ("0", "False") else "now it does not"
    before = "did not require grad" if found[2] in ("0", "False") else "required grad"
    advice = Advice("Expect a version with and one without grad, or detach before.", "code")
    return f"`{found[1]}` {before}, {now}.", (advice,)


def _describe_global_state(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed global state, such as grad mode."""
    what = next((text for key, text in _STATE.items() if key in found[1]), None)
    text = f"{what} changed." if what else f"The global state changed: {found[1]}."
    if "autocast" in found[1]:
        text = "Autocast was switched on or off."
    if "grad_mode" in found[1]:
        told = "Expect one version with gradients and one without."
    else:
        told = "Set it once, before the first call, and leave it."
    return text, (Advice(told, "code"),)


def _describe_training_mode(found: re.Match[str]) -> GuardAdvice:
    """Describe a switch between train and eval mode."""
    now = "is not" if found[2] == "True" else "is"
    was = "was" if found[2] == "True" else "was not"
    advice = Advice("Expect one version for training and one for evaluation.", "code")
    return f"`{found[1]}` {was} in training mode, now it {now}.", (advice,)


def _describe_break_value(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed value that came out of an earlier graph break."""
    text = f"A value that was {found[1]} came out of the graph break before it."
    return text, (_REMOVE_BREAK,)


def _describe_length(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed length of a container."""
    name, old = found.groups()
    return f"`{name}` had length {old}, now another.", (_SAME,)


def _describe_emptiness(found: re.Match[str]) -> GuardAdvice:
    return f"`{found[1]}` was empty, now it is not.", (_SAME,)


def _describe_value(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed Python value."""
    name, old = found.groups()
    text = f"`{name}` was {old}, now another value."
    if re.fullmatch(r"-?\d+", old) and name.startswith("self."):
        return _describe_attribute(found)
    if re.fullmatch(r"-?\d+", old):
        return text, (EXPECT_ONE, _SAME)
    if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", old):
        return text, (_AS_TENSOR, _SAME)
    return text, (_SAME,)


def _describe_computed(found: re.Match[str]) -> GuardAdvice:
    """Describe a number that is computed from an int and must be constant where it is used."""
    text = (
        f"`{found[1]}` was {found[2]}, now another value: Python needs the number where it is used."
    )
    return text, ()


def _describe_attribute(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed int attribute of a module."""
    name, old = found.groups()
    last = name.rpartition(".")[2]
    buffer = f'self.register_buffer("{last}", torch.tensor({old}), persistent=False)'
    text = f"`{name}` was {old}, now another value: Dynamo takes an int of a module as a constant."
    return text, (
        Advice(
            f"Make it a buffer in `__init__`, `{buffer}`, or count outside `forward`.",
            "code",
            f"self.{last} = {old}",
            buffer,
            trap="It is a tensor then: a branch on it breaks the graph, and after `+=` the "
            f"backward may use the new value: write `{name} = {name} + 1`.",
        ),
        Advice(
            "Set `torch._dynamo.config.allow_unspec_int_on_nn_module = True`: one recompile, then "
            f"`{last}` is dynamic.",
            "config",
            trap="Integers of modules become symbolic, also those that should be constants.",
        ),
    )


def _describe_freed(found: re.Match[str]) -> GuardAdvice:
    """Describe an object that a version was compiled for and that no longer lives."""
    if found[1].startswith("___stack"):
        return "A value that came out of the graph break before it was freed.", (_REMOVE_BREAK,)
    advice = Advice("Keep the object alive, and pass the same one at every call.", "code")
    return f"The `{found[1]}` of the version before was freed.", (advice,)


def _describe_size_range(found: re.Match[str]) -> GuardAdvice:
    """Describe a size that left the range for which a graph was compiled."""
    low, name, dimension, high = found.groups()
    bounds = f"between {low} and {high}" if high else f"at least {low}"
    text = f"The code holds only while size {dimension} of `{name}` is {bounds}."
    return text, (Advice("Avoid tests on the size inside the compiled function.", "code"),)


def _describe_fixed_size(found: re.Match[str]) -> GuardAdvice:
    """Describe a size that the graph requires to have one value."""
    name, dimension, old = found.groups()
    text = f"The code holds only while size {dimension} of `{name}` is {old}."
    return text, (Advice("Avoid tests on the size inside the compiled function.", "code"),)


def _describe_identity(found: re.Match[str]) -> GuardAdvice:
    """Describe an object that was replaced by another one."""
    name = found[1].removesuffix(".__code__").removesuffix(".__func__")
    advice = Advice("Pass the same object at every call; make functions once, not at each.", "code")
    return f"`{name}` is another object than before.", (advice,)


def _describe_type(found: re.Match[str]) -> GuardAdvice:
    """Describe a changed type."""
    name, old = found.groups()
    advice = Advice("Pass the same type at every call.", "code")
    return f"`{name}` was of type {old.rpartition('.')[2]}, now of another.", (advice,)


def _describe_lost_tensor(found: re.Match[str]) -> GuardAdvice:
    """Describe a value that was a tensor and now has another type."""
    advice = Advice("Pass the same type at every call.", "code")
    return f"`{found[1]}` was a tensor, now it is of type {found[2].rpartition('.')[2]}.", (advice,)


def _describe_new_alias(found: re.Match[str]) -> GuardAdvice:
    """Describe arguments that are now the same tensor."""
    advice = Advice("Pass different tensors, or the same, at every call.", "code")
    names = " and ".join(f"`{name}`" for name in sorted(re.findall(r'"([^"]+)"', found[0])))
    return f"{names or 'Two arguments'} are now the same tensor.", (advice,)


def _describe_late_value(found: re.Match[str]) -> GuardAdvice:
    """Describe a value that was None before its first use."""
    advice = Advice("Make it before the first compiled call.", "code")
    return f"`{found[1]}` was None, now it is not.", (advice,)


def _describe_late_attribute(found: re.Match[str]) -> GuardAdvice:
    """Describe an attribute that did not exist before its first assignment."""
    owner, name = found.group("owner", "name")
    advice = Advice("Make it in `__init__`, before the first compiled call.", "code")
    return f"`{owner}.{name}` did not exist, now it does.", (advice,)


def _describe_lost_alias(found: re.Match[str]) -> GuardAdvice:
    """Describe arguments that were the same object and no longer are."""
    advice = Advice("Pass different tensors, or the same, at every call.", "code")
    return f"`{found[1]}` and `{found[2]}` were the same object, now they are not.", (advice,)


_NAME = r"(?:type\([\w.]+\))?[\w.\[\]'\"]+?"
_FORMS: tuple[tuple[str, Callable[[re.Match[str]], GuardAdvice]], ...] = (
    (r"tensor '(.+?)' size mismatch at index (\d+)\. expected (\d+), actual (\d+)", _describe_size),
    (r"tensor '(.+?)' rank mismatch\. expected (\d+), actual (\d+)", _describe_rank),
    (
        r"tensor '(.+?)' requires_grad mismatch\. expected requires_grad=(\w+)",
        _describe_requires_grad,
    ),
    (r"tensor '(.+?)' dispatch key set mismatch", _describe_dispatch_keys),
    (
        r"tensor '(.+?)' (dtype|stride|device).*? mismatch.*?expected (.+?), actual (.+)",
        _describe_tensor,
    ),
    (r"GLOBAL_STATE changed: (\S+)", _describe_global_state),
    (r"Duplicate tensors found.*", _describe_new_alias),
    (
        r"expected type of '(.+?)' to be a?.*tensor.*but found <class '(.+?)'>",
        _describe_lost_tensor,
    ),
    (
        r"expected type of '(.+?)' to be .*[pP]arameter.*but found <class '(.+?)'>",
        _describe_lost_tensor,
    ),
    (rf"^({_NAME})\.training == (True|False)$", _describe_training_mode),
    (r"^___stack\d+ == (\S+)$", _describe_break_value),
    (rf"\b({_NAME}) got deallocated", _describe_freed),
    (rf"^len\(({_NAME})\) (?:==|!=) (\d+)$", _describe_length),
    (rf"^not ({_NAME})$", _describe_emptiness),
    (rf"^({_NAME}) is None$", _describe_late_value),
    (
        rf"^not hasattr\((?P<owner>{_NAME}), ['\"](?P<name>\w+)['\"]\)",
        _describe_late_attribute,
    ),
    (
        rf"^not ___dict_contains\(['\"](?P<name>\w+)['\"], (?P<owner>{_NAME})\.__dict__\)",
        _describe_late_attribute,
    ),
    (rf"^({_NAME}) is ({_NAME})$", _describe_lost_alias),
    (rf"^(\d+) <= ({_NAME})\.size\(\)\[(\d+)\](?: <= (\d+))?$", _describe_size_range),
    (rf"^({_NAME})\.size\(\)\[(\d+)\] == (\d+)$", _describe_fixed_size),
    (rf"^___check_obj_id\(({_NAME}), ", _describe_identity),
    (rf"^___check_type_id\(({_NAME}), \d+\)?.*<class '(.+?)'>", _describe_type),
    (rf"^({_NAME}) == ([^=<>]+)$", _describe_value),
    (rf"^\(({_NAME} (?://|[-+*%]) \d+)\) == (-?\d+)$", _describe_computed),
)
