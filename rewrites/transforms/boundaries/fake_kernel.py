"""Fake kernel of a custom operator: code that makes empty results of the right kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.transforms.boundaries.arguments import (
    OperatorArgument,
    is_floating_dtype,
)
from fullgraph.rewrites.transforms.boundaries.origins import CPU, UNKNOWN
from fullgraph.rewrites.transforms.boundaries.results import OperatorResult

Sizes = tuple[frozenset[int] | None, ...]
"""Values of one size, or of a number, in the user's run and in each run on other sizes."""


@dataclass(frozen=True, order=True)
class _Candidate:
    """Argument, or size of an argument, that a size of a result was equal to in every run."""

    never_varied: bool
    level: int
    unlike: int
    """0 for the same dimension of a tensor with as many dimensions, 1 for an int, else 2."""
    code: str
    argument: str


class FakeKernel:
    """Writer of the results of a fake kernel: `x.new_empty((x.shape[0], size))`.

    Sizes are those of arguments where possible; others are unbacked ints.
    """

    def __init__(
        self,
        torch: str,
        arguments: Sequence[OperatorArgument],
        results: Sequence[OperatorResult],
        hosts: Collection[str],
        *,
        depends_on_data: bool,
    ) -> None:
        """`hosts` are the names of the arguments that must be on the CPU.

        `depends_on_data`: whether the code calls an operator such as `unique`.
        """
        self.torch = torch
        self.arguments = arguments
        self.hosts = hosts
        self.depends_on_data = depends_on_data
        self.unbacked: dict[str, Sizes] = {}
        """The unbacked ints by name, with their observed values."""
        self.assumes: list[str] = []
        self.ranks: dict[str, int] = {}
        """The numbers of dimensions that results rely on, by the names of tensors."""
        self.dtypes: dict[str, str] = {}
        """The dtypes that results rely on, by the names of tensors."""
        self._numbers: dict[str, OperatorResult] = {}
        for one in results:
            if not one.seen.is_tensor:
                self._numbers[self._unused(one.name, self._numbers)] = one
        self.texts = [self._result(one) for one in results]
        """Code that makes the results."""

    def _result(self, result: OperatorResult) -> str:
        """Return code for a result: an unbacked int, or an empty tensor of its metadata."""
        if not result.seen.is_tensor:
            name = next(name for name, one in self._numbers.items() if one is result)
            self.unbacked[name] = _values_of(result)
            return name
        (dims,) = result.seen.dims
        sizes = [self._size(result, index) for index in range(dims)]
        shape = f"({sizes[0]},)" if dims == 1 else f"({', '.join(sizes)})"
        whole = next((one for one in self.arguments if dims and sizes == _sizes_of(one)), None)
        if whole is not None:
            shape = f"{whole.name}.shape"
        if any(one not in self.unbacked for one in sizes):
            self.assumes.append(f"its result has the shape `{shape}` on all inputs")
        text = self._empty(result, shape, whole)
        for one in self.arguments if dims and whole is None else ():
            used = f"{one.name}." in text and (
                _rank_of(one) == dims or f"{one.name}.shape[" in text
            )
            if used and (rank := _rank_of(one)) is not None:
                self.ranks[one.name] = rank
        dtype = result.seen.tensors[0].dtype
        given = bool(result.origins) and all(o.is_cast or o.of_numbers for o in result.origins)
        if is_floating_dtype(dtype) and f"dtype={self.torch}.{dtype}" in text and not given:
            for one in self.arguments:  # it may be made of this tensor and of others
                if one.annotation == "torch.Tensor" and one.seen is None:
                    self.dtypes[one.name], self.ranks[one.name] = dtype, dims
                elif one.is_tensor and _dtypes_of(one) == {dtype}:
                    self.dtypes[one.name] = dtype
        return text

    def _empty(self, result: OperatorResult, shape: str, whole: OperatorArgument | None) -> str:
        """Return code for an empty tensor; `whole` is the argument whose shape it has, if any."""
        torch, dtype = self.torch, result.seen.tensors[0].dtype
        device, like = self._device(result)
        of_numbers = any(one.of_numbers for one in result.origins)
        fixed = of_numbers or any(one.is_cast for one in result.origins)
        if device == CPU:
            hosts = [one for one in self._tensors(result.levels) if one.name in self.hosts]
            hosts.sort(key=lambda one: one is not whole)
            if hosts and (hosts[0] is whole or not of_numbers):
                device, like = "", hosts[0]
        same = like is not None and like.seen is not None and like.seen.dtypes == {dtype}
        kind = f", dtype={torch}.{dtype}"
        if like is not None and same and not fixed:
            kind = ""
        elif like is None and not fixed and is_floating_dtype(dtype):
            alike = [one for one in self._tensors(result.levels) if _dtypes_of(one) == {dtype}]
            kind = f", dtype={alike[0].name}.dtype" if alike else kind
        where = f", device={device}" if device and (device != CPU or like is not None) else ""
        if whole is not None and not of_numbers and (like is whole or device == CPU):
            same = _dtypes_of(whole) == {dtype} and not fixed
            kind = "" if same else f", dtype={torch}.{dtype}"
            where = f", device={device}" if device else ""
            return f"{torch}.empty_like({whole.name}{kind}{where})"
        if like is not None:
            return f"{like.name}.new_empty({shape}{kind}{where})"
        return f"{torch}.empty({shape}{kind}{where})"

    def _device(self, result: OperatorResult) -> tuple[str, OperatorArgument | None]:
        """Return the source of the device of a result, and the argument whose device it is.

        The source is "" if there is such an argument.
        """
        observed = {one.device for one in result.seen.tensors}
        tensors = self._tensors(result.levels)
        found = {one.device for one in result.origins}
        device = found.pop() if len(found) == 1 else UNKNOWN
        like = next((one for one in tensors if f"{one.name}.device" == device), None)
        if like is not None and _devices_of(like) == observed:
            return "", like
        if device == CPU and observed == {"cpu"}:
            return CPU, None
        if device not in (CPU, UNKNOWN) and like is None:
            return device, None
        like = next((one for one in tensors if _devices_of(one) == observed), None)
        if like is not None:
            self.assumes.append(f"its result is on the device of `{like.name}`")
            return "", like
        device = min(observed)
        self.assumes.append(f"its result is on the device {device}")
        return f'"{device}"', None

    def _tensors(self, levels: Mapping[str, int]) -> list[OperatorArgument]:
        """Return the arguments that are tensors, first those that a result is made of."""
        found = [one for one in self.arguments if one.is_tensor]
        return sorted(found, key=lambda one: levels.get(one.code, len(levels)))

    def _size(self, result: OperatorResult, index: int) -> str:
        """Return code for one size of a result: that of an argument which it always equals.

        The size is an unbacked int if there is none, and so is the first one if it may depend on
        data: one observed value that an argument has too may be chance.
        """
        values = _values_of(result, index)
        chance = self.depends_on_data and index == 0 and _is_single(values)
        found = [] if chance else sorted(self._candidates(result, index, values))
        if not found:
            return self._unbacked_size(values, result.levels)
        first = found[0]
        others = {one.argument: one.code for one in found if one.argument != first.argument}
        if first.never_varied and others:
            codes = " or ".join(f"`{code}`" for code in others.values())
            self.assumes.append(
                f"`{first.code}` is a size of its result, and not the equal {codes}"
            )
        return first.code

    def _candidates(self, result: OperatorResult, index: int, values: Sizes) -> list[_Candidate]:
        """Return the arguments and their sizes that equal a size of a result in every run."""
        found = []
        for one in self.arguments:
            if one.seen is None:
                continue
            level = result.levels.get(one.code, len(result.levels))
            given: list[tuple[str, Sizes, int]] = []
            if one.annotation == "int":
                given = [(one.name, _values_of(one), 1)]
            elif one.is_tensor:
                dims = min(one.seen.dims)
                alike = one.seen.dims == result.seen.dims
                given = [
                    (
                        f"{one.name}.shape[{at}]",
                        _values_of(one, at),
                        0 if alike and at == index else 2,
                    )
                    for at in range(dims)
                ]
            for code, known, unlike in given:
                pairs = [(a, b) for a, b in zip(values, known, strict=False) if a and b]
                pairs = [(a, b) for a, b in pairs if b != {1} or a == b or unlike == 1]  # broadcast
                if not pairs or known[0] != values[0] or any(a != b for a, b in pairs):
                    continue
                varied = any(a != values[0] for a, _ in pairs)
                if varied or not unlike or values[0] != {1}:
                    found.append(_Candidate(not varied, level, unlike, code, one.name))
        return found

    def _unbacked_size(self, values: Sizes, levels: Mapping[str, int]) -> str:
        """Return the name of an unbacked int for a size of a result.

        `levels` are the names that the result is made of; if one of them is a number among the
        results that was always equal, the size is that number. Equal sizes are one unbacked int.
        """
        for name, one in self._numbers.items():
            if name in levels and _values_of(one) == values:
                self.unbacked[name] = values
                return name
        for name, known in self.unbacked.items():
            if name not in self._numbers and known == values:
                if _is_single(values):
                    self.assumes.append("the sizes of its results that data decide are equal")
                return name
        name = self._unused("size", {**self._numbers, **self.unbacked})
        self.unbacked[name] = values
        return name

    def _unused(self, name: str, used: Collection[str]) -> str:
        taken = {self.torch, *used, *(one.name for one in self.arguments)}
        names = (name, *(f"{name}_{number}" for number in range(2, 99)))
        return next(one for one in names if one not in taken)


def _values_of(value: OperatorResult | OperatorArgument, index: int | None = None) -> Sizes:
    """Return the values of an int, or the sizes of a tensor in one dimension, in all runs.

    Raises NotApplicable if the tensor had another number of dimensions in one of them.
    """
    seen = value.seen
    return tuple(_sizes_in(one, index) for one in (seen, *value.elsewhere))


def _sizes_in(seen: ValueSummary | None, index: int | None) -> frozenset[int] | None:
    if seen is None:
        return None
    if index is None:
        return frozenset(one for one in seen.values if isinstance(one, int))
    if any(len(shape) <= index for shape in seen.shapes):
        raise NotApplicable("the number of dimensions depends on the inputs")
    return frozenset(shape[index] for shape in seen.shapes)


def _is_single(values: Sizes) -> bool:
    """Whether a size had one value in all runs."""
    return len(frozenset().union(*filter(None, values))) == 1


def _sizes_of(argument: OperatorArgument) -> list[str] | None:
    """Return ["x.shape[0]", "x.shape[1]"] for a matrix `x`; None for anything else."""
    rank = _rank_of(argument)
    return None if rank is None else [f"{argument.name}.shape[{at}]" for at in range(rank)]


def _rank_of(argument: OperatorArgument) -> int | None:
    """Return the number of dimensions of a tensor; None if it varied, and for anything else."""
    if argument.seen is None or not argument.is_tensor or len(argument.seen.dims) != 1:
        return None
    return min(argument.seen.dims)


def _dtypes_of(argument: OperatorArgument) -> frozenset[str]:
    return argument.seen.dtypes if argument.seen is not None else frozenset()


def _devices_of(argument: OperatorArgument) -> set[str]:
    return {one.device for one in argument.seen.tensors} if argument.seen is not None else set()
