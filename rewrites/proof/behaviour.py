"""Observable behaviour of one run of a program, as plain data that can be compared."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import logging
import pickle
import random
import re
import sys
import time
import traceback
import types
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch

from fullgraph.compiler.private import tree_leaves
from fullgraph.compiler.program import CallArguments, Program

DEPTH, ITEMS = 6, 2000
"""Limits of `encode`: nesting depth, and items of a container."""
LARGE, SAMPLE = 1 << 18, 1 << 14
"""A tensor with at least LARGE elements is kept as a digest and about SAMPLE of its elements."""
_TORCHS = {
    "_modules",
    "_parameters",
    "_buffers",
    "_non_persistent_buffers_set",
    "_is_torch_compile",
    "_compiled_call_impl",
}
"""Attributes of modules that torch itself sets."""
_PROGRESS = re.compile(r"\n*\r[^\r\n]*(?:\n|\x1b\[A)*|[^\n]*━[^\n]*\n")
"""Text of progress bars, which tells the time."""
_CODE = types.FunctionType | types.MethodType | types.BuiltinFunctionType | types.ModuleType | type


@dataclass(frozen=True)
class TensorValue:
    """Value of a tensor: its elements, or of a large one a digest, and a sample with means."""

    dtype: str
    shape: tuple[int, ...]
    device: str
    requires_grad: bool
    layout: str
    content: bytes
    alias: str = ""
    """The name of the input or parameter whose memory it shares; "" if there is none."""
    digest: int | None = None
    """Digest of the elements of a large tensor, whose `content` is a sample; else None."""

    def value(self) -> torch.Tensor:
        """Return the elements as a dense CPU tensor; of a large one the sample, with one dimension.

        A sample ends with the least and the greatest element, NaN if there is one."""
        dtype = getattr(torch, self.dtype)
        if not self.content:
            return torch.empty(self.shape, dtype=dtype)
        found = torch.frombuffer(bytearray(self.content), dtype=dtype)
        return found if self.digest is not None else found.reshape(self.shape)


@dataclass(frozen=True)
class Behaviour:
    """Everything that a caller can observe about a run."""

    outputs: object
    """The outputs of all calls, tensors as `TensorValue`."""
    gradients: Mapping[str, object]
    """Gradients by the name of the parameter or input."""
    state: Mapping[str, object]
    """Inputs, buffers, attributes and globals after the run."""
    raised: str | None
    """The exception, such as "ValueError: text"; None if the run raised none."""
    text: str
    """Text printed to stdout and stderr, progress bars excluded."""
    records: tuple[str, ...]
    """Log records and warnings, in order."""
    randomness: str
    """Digest of the states of all random streams."""
    crashed: bool = False
    """Whether an operator raised, and not a `raise` or `assert` statement."""
    left: bool = False
    """Whether it had changed something before it raised; only of a run that was watched for it."""


def record_behaviour(
    subject: Program,
    function: Callable[..., object],
    calls: tuple[CallArguments, ...],
    *,
    backward: bool,
    seed: int = 0,
    watched: bool = False,
) -> Behaviour:
    """Run `calls` of `function` and record the behaviour, with `Behaviour.left` if `watched`.

    `function` is the target of the program, or what torch.compile made of it. With `backward`, each
    call is followed by a backward from the loss of the program or, without a loss, from the sum of
    the outputs that require a gradient. All random streams start from `seed`.
    """
    seed_all(seed)
    printed = io.StringIO()
    records: list[str] = []
    outputs: list[object] = []
    raised, crashed = None, False
    before = (_encode_state(subject, calls), _hash_random_states()) if watched else None
    memory = _names_by_address(subject, calls)
    streams = (contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed))
    with streams[0], streams[1], _capture_records(records):
        try:
            for call in calls:
                output = function(*call.args, **call.kwargs)
                outputs.append(encode(output, memory))
                if backward:
                    _run_backward(subject, output)
        except (Exception, SystemExit) as error:
            raised = f"{type(error).__name__}: {error}"
            last = traceback.extract_tb(error.__traceback__)[-1]
            by_statement = (last.line or "").lstrip().startswith(("raise", "assert"))
            crashed = not (by_statement or isinstance(error, SystemExit))
    state, randomness = _encode_state(subject, calls), _hash_random_states()
    return Behaviour(
        outputs,
        {name: encode(t.grad) for name, t in _named_leaves(subject, calls) if t.grad is not None},
        state,
        raised,
        _PROGRESS.sub("", printed.getvalue()),
        tuple(records),
        randomness,
        crashed,
        watched and raised is not None and (state, randomness) != before,
    )


@contextlib.contextmanager
def freeze_clocks() -> Iterator[None]:
    """Inside the block, `time.time()` and the like always return the time at its start.

    Two runs of a program that reads a clock can then be compared.
    """
    names = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
    clocks = {name + unit: getattr(time, name + unit) for name in names for unit in ("", "_ns")}
    try:
        for name, clock in clocks.items():
            setattr(time, name, itertools.repeat(clock()).__next__)
        yield
    finally:
        for name, clock in clocks.items():
            setattr(time, name, clock)


def encode(value: Any, memory: Mapping[int, str] | None = None, depth: int = DEPTH) -> object:
    """Return `value` as data that can be compared and pickled.

    Tensors become `TensorValue`, functions and classes their names, dataclasses their fields, and
    other objects the names of their classes. A container below `depth` levels also becomes the name
    of its class. `memory` names tensors by the address of their storage, for `TensorValue.alias`.
    """
    if isinstance(value, torch.Tensor):
        return _encode_tensor(value, memory or {})
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if isinstance(value, _CODE):
        return f"<{getattr(value, '__qualname__', getattr(value, '__name__', type(value)))}>"
    kind = type(value).__name__
    if depth == 0:
        return f"<{kind}>"
    if isinstance(value, Mapping):
        items = list(value.items())[:ITEMS]
        return kind, [(str(k), encode(v, memory, depth - 1)) for k, v in items]
    if isinstance(value, list | tuple | set | frozenset):
        found = [encode(item, memory, depth - 1) for item in list(value)[:ITEMS]]
        return kind, found if isinstance(value, list | tuple) else sorted(found, key=repr)
    if is_dataclass(value):
        named = [(f.name, getattr(value, f.name, None)) for f in fields(value)]
        return kind, [(name, encode(item, memory, depth - 1)) for name, item in named]
    if type(value).__module__ == "numpy":
        return kind, str(value.dtype), str(value.shape), value.tobytes()
    return f"<{kind}>"


def _encode_tensor(value: torch.Tensor, memory: Mapping[int, str]) -> TensorValue:
    """Return a tensor as a `TensorValue`: metadata, elements and alias.

    `memory` names tensors by the address of their storage.
    """
    dense = value.detach()
    alias = ""
    if value.layout is torch.strided and value.device.type != "meta":
        alias = memory.get(dense.untyped_storage().data_ptr(), "") if value.numel() else ""
    content, digest = b"", None
    if value.device.type != "meta":
        dense = dense.to_dense() if value.layout is not torch.strided else dense
        flat = dense.resolve_conj().resolve_neg().cpu().reshape(-1).contiguous()
        if flat.numel() >= LARGE:
            digest = _digest(flat)
            flat = _sample(flat)
        if flat.numel():
            content = flat.view(torch.uint8).numpy().tobytes()
    return TensorValue(
        str(value.dtype).removeprefix("torch."),
        tuple(value.shape),
        value.device.type,
        value.requires_grad,
        str(value.layout),
        content,
        alias,
        digest,
    )


def _digest(flat: torch.Tensor) -> int:
    """Return a checksum of the bytes of a contiguous tensor, which depends on their order."""
    return zlib.crc32(flat.view(torch.uint8).numpy().data)


def _sample(flat: torch.Tensor) -> torch.Tensor:
    """Return every n-th element and the last eight, and of floats the mean of each n elements.

    Last come, of floats, the least and the greatest element.
    """
    step = flat.numel() // SAMPLE | 1
    parts = [flat[::step], flat[-8:]]
    if flat.is_floating_point() and flat.itemsize > 1:
        whole = flat.numel() // step * step
        parts += [flat[:whole].view(-1, step).mean(1), flat[-step:].mean().reshape(1)]
        parts += [edge.reshape(1) for edge in torch.aminmax(flat)]
    return torch.cat(parts)


def _names_by_address(subject: Program, calls: tuple[CallArguments, ...]) -> dict[int, str]:
    """Return the names of inputs, parameters and buffers by the address of their storage."""
    found = {}
    for name, tensor in _named_tensors(subject, calls):
        if tensor.layout is torch.strided and tensor.numel() and tensor.device.type != "meta":
            found[tensor.untyped_storage().data_ptr()] = name
    return found


def _named_tensors(
    subject: Program, calls: tuple[CallArguments, ...]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of the calls, "input 0 of call 1", then parameters and buffers, by name."""
    for number, call in enumerate(calls):
        for i, leaf in enumerate(tree_leaves((call.args, dict(call.kwargs)))):
            if isinstance(leaf, torch.Tensor):
                yield f"input {i} of call {number}", leaf
    if isinstance(subject.target, torch.nn.Module):
        yield from subject.target.named_parameters()
        yield from subject.target.named_buffers()


def _named_leaves(
    subject: Program, calls: tuple[CallArguments, ...]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the leaf tensors that require a gradient, by name."""
    for name, tensor in _named_tensors(subject, calls):
        if tensor.is_leaf and tensor.requires_grad:
            yield name, tensor


def _run_backward(subject: Program, output: object) -> None:
    """Run backward from the program's loss, or from the sum of all outputs."""
    if subject.loss:
        subject.backward(output)
        return
    values = output.values() if isinstance(output, Mapping) else tree_leaves(output)
    sums = [
        leaf.float().nansum() if leaf.is_floating_point() else leaf.abs().sum()
        for leaf in tree_leaves(list(values))
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.numel()
    ]
    if sums:
        torch.stack([one.double() for one in sums]).sum().backward()


def _encode_state(subject: Program, calls: tuple[CallArguments, ...]) -> dict[str, object]:
    """Encode what the calls may have mutated: arguments, attributes, parameters, globals."""
    found: dict[str, object] = {}
    for number, call in enumerate(calls):
        found[f"arguments of call {number}"] = encode((call.args, dict(call.kwargs)))
    target = subject.target
    if isinstance(target, torch.nn.Module):
        for path, module in target.named_modules():
            own = {k: v for k, v in vars(module).items() if k not in _TORCHS} | module._buffers
            found[f"self.{path}".rstrip(".")] = encode(dict(sorted(own.items())))
        found["parameters"] = encode(dict(target.named_parameters()))
    for name, value in _plain_globals(target):
        found[f"global {name}"] = encode(value)
    return found


def _plain_globals(target: object) -> Iterator[tuple[str, object]]:
    """Yield the numbers, strings, containers and tensors in the globals of the target's file."""
    function = type(target).forward if isinstance(target, torch.nn.Module) else target
    space = getattr(getattr(function, "__func__", function), "__globals__", {})
    for name, value in sorted(space.items()):
        if not name.startswith("_") and isinstance(
            value, bool | int | float | str | list | dict | set | torch.Tensor
        ):
            yield name, value


@contextlib.contextmanager
def _capture_records(found: list[str]) -> Iterator[None]:
    """Append log records and warnings inside the block to `found`, except those of torch.

    Log records of fullgraph and deprecation warnings are left out, too.
    """
    make = logging.getLogRecordFactory()

    def record_log(*args: object, **kwargs: object) -> logging.LogRecord:
        """Record a log record that is neither torch's nor ours."""
        record = make(*args, **kwargs)
        if not record.name.startswith(("torch", "fullgraph")):
            found.append(f"{record.name} {record.levelname}: {record.getMessage()}")
        return record

    def record_warning(
        message: object, category: type[Warning], filename: str, *rest: object, **more: object
    ) -> None:
        """Record a warning that is neither torch's nor a deprecation."""
        deprecated = issubclass(category, DeprecationWarning | FutureWarning)
        of_torch = "/torch/" in filename or "(Triggered internally at" in str(message)
        if not of_torch and not deprecated:
            found.append(f"{category.__name__}: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = record_warning
        logging.setLogRecordFactory(record_log)
        try:
            yield
        finally:
            logging.setLogRecordFactory(make)


def seed_all(seed: int) -> None:
    """Seed torch, Python's `random` and NumPy."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _hash_random_states() -> str:
    """Return a hash of all random states."""
    states: list[object] = [torch.get_rng_state().numpy().tobytes(), random.getstate()]
    if "numpy" in sys.modules:
        states.append(repr(sys.modules["numpy"].random.get_state()))
    return hashlib.sha256(pickle.dumps(states)).hexdigest()
