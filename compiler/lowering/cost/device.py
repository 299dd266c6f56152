"""Devices of the roofline: peak flops by dtype, memory bandwidth and launch overhead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.lowering.cost.this_cpu import measure_this_cpu

CPU = "cpu"
"""The name of the machine at hand."""


@dataclass(frozen=True)
class Device:
    """Figures of one device."""

    name: str
    """"h100": as the user names it."""
    label: str
    """"H100 SXM": as a report names it."""
    flops: tuple[tuple[str, float], ...]
    """Peak flops a second by dtype; dtypes that are missing count as float32."""
    bandwidth: float
    """Bytes a second that the memory reads or writes."""
    launch: float
    """Seconds that one launch takes beyond its work."""

    def peak(self, dtype: str) -> float:
        """Return the peak flops a second for a dtype."""
        known = dict(self.flops)
        return known.get(dtype, known["float32"])

    def seconds(self, moved: int, flops: int, dtype: str) -> float:
        """Return the roofline time of one kernel that moves `moved` bytes."""
        return self.launch + max(moved / self.bandwidth, flops / self.peak(dtype))


_LAUNCH = 5e-6


def _published(name: str, label: str, bandwidth: float, **teraflops: float) -> Device:
    flops = tuple((dtype, figure * 1e12) for dtype, figure in teraflops.items())
    return Device(name, label, flops, bandwidth * 1e9, _LAUNCH)


def published_devices() -> Mapping[str, Device]:
    """Return the devices with published figures, by name.

    Dense figures without sparsity, float32 without TF32, from NVIDIA's "A100 Tensor Core GPU" (SXM,
    80 GB), "H100 Tensor Core GPU" (SXM) and "H200 Tensor Core GPU" (SXM) data sheets and the "Ada
    GPU Architecture" paper (RTX 4090, tensor cores with float32 accumulation). The vendor
    publishes no launch overhead: 5 µs is assumed for all of them.
    """
    hopper = {
        "float64": 34.0, "float32": 67.0, "float16": 989.0, "bfloat16": 989.0,
        "float8_e4m3fn": 1979.0, "float8_e5m2": 1979.0, "int8": 1979.0,
    }  # fmt: skip
    ampere = {"float64": 9.7, "float32": 19.5, "float16": 312.0, "bfloat16": 312.0, "int8": 624.0}
    ada = {"float64": 1.29, "float32": 82.6, "float16": 165.2, "bfloat16": 165.2, "int8": 660.6}
    devices = (
        _published("a100", "A100 SXM", 2039.0, **ampere),
        _published("h100", "H100 SXM", 3350.0, **hopper),
        _published("h200", "H200 SXM", 4800.0, **hopper),
        _published("rtx4090", "RTX 4090", 1008.0, **ada),
    )
    return {device.name: device for device in devices}


def find_device(name: str = CPU) -> Device:
    """Return the device of a name; "cpu" is this machine, measured once.

    Raises FullgraphError for an unknown name.
    """
    check_device(name)
    key = _normalize(name)
    if key != CPU:
        return published_devices()[key]
    figures = measure_this_cpu()
    return Device(CPU, "this CPU", figures.flops, figures.bandwidth, figures.launch)


def check_device(name: str) -> None:
    """Raise FullgraphError unless a device has this name; measure nothing."""
    if _normalize(name) not in (CPU, *published_devices()):
        known = ", ".join(published_devices())
        raise FullgraphError(f"There is no device {name!r}: give one of {CPU}, {known}.")


def _normalize(name: str) -> str:
    """Return "rtx4090" for "RTX 4090"."""
    return "".join(character for character in name.lower() if character.isalnum())
