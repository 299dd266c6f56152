"""Devices of the roofline: peak flops by dtype, memory bandwidth and launch overhead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.lowering.cost.this_cpu import measure_this_cpu

CPU = "cpu"
"""Device name of this machine's CPU."""


@dataclass(frozen=True)
class Device:
    """Performance figures of one device: peak flops by dtype, bandwidth, launch overhead."""

    name: str
    """Name that the user gives: "h100"."""
    label: str
    """Name in reports: "H100 SXM"."""
    flops: tuple[tuple[str, float], ...]
    """(dtype, peak flops per second) pairs; a missing dtype has the figure of float32."""
    bandwidth: float
    """Memory bandwidth in bytes per second, for reads and writes together."""
    launch: float
    """Launch overhead of one kernel, in seconds."""

    def peak(self, dtype: str) -> float:
        """Return the peak flops per second for a dtype."""
        known = dict(self.flops)
        return known.get(dtype, known["float32"])

    def seconds(self, moved: int, flops: int, dtype: str) -> float:
        """Return the roofline time, in seconds, of a kernel that reads and writes `moved` bytes."""
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
    """Return the device called `name`; "cpu" is this machine, measured once.

    Raises FullgraphError for an unknown name.
    """
    check_device(name)
    key = _normalize(name)
    if key != CPU:
        return published_devices()[key]
    figures = measure_this_cpu()
    return Device(CPU, "this CPU", figures.flops, figures.bandwidth, figures.launch)


def check_device(name: str) -> None:
    """Raise FullgraphError if no device is called `name`; measure nothing."""
    if _normalize(name) not in (CPU, *published_devices()):
        known = ", ".join(published_devices())
        raise FullgraphError(f"There is no device {name!r}: give one of {CPU}, {known}.")


def _normalize(name: str) -> str:
    """Return a device name in lower case without separators: "rtx4090" for "RTX 4090"."""
    return "".join(character for character in name.lower() if character.isalnum())
