"""Devices of the roofline: peak flops by dtype, memory bandwidth and launch overhead.

The figures of this machine's CPU are measured once, and kept on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.lowering.disk import cache_folder, digest, write_file

CPU = "cpu"
"""Device name of this machine's CPU."""
_REPEATS = 3
_ELEMENTS = 4 << 20
_WIDTH = 384


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
    return _this_cpu() if key == CPU else published_devices()[key]


def check_device(name: str) -> None:
    """Raise FullgraphError if no device is called `name`; measure nothing."""
    if _normalize(name) not in (CPU, *published_devices()):
        known = ", ".join(published_devices())
        raise FullgraphError(f"There is no device {name!r}: give one of {CPU}, {known}.")


def _normalize(name: str) -> str:
    """Return a device name in lower case without separators: "rtx4090" for "RTX 4090"."""
    return "".join(character for character in name.lower() if character.isalnum())


def _this_cpu() -> Device:
    """Return this CPU with its figures from disk, or measure them in a child process.

    There is a file for each processor, number of threads and torch version. If it cannot be
    written, the next process measures again, which takes about a tenth of a second.
    """
    key = f"{_processor()} {torch.get_num_threads()} {torch.__version__}"
    file = cache_folder() / f"cpu-{digest(key)}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(file.read_text())
        flops = tuple((str(dtype), float(figure)) for dtype, figure in data["flops"])
        return Device(CPU, "this CPU", flops, float(data["bandwidth"]), float(data["launch"]))
    outcome = run_isolated(lambda emit: _measure(), objects=())
    device = outcome.value if isinstance(outcome.value, Device) else _measure()
    with contextlib.suppress(OSError):
        write_file(file, json.dumps(asdict(device)))
    return device


def _processor() -> str:
    """Return the model name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()} {os.cpu_count()}"
    return f"{platform.machine()} {platform.processor()} {os.cpu_count()}"


def _measure() -> Device:
    """Measure this CPU: the best times of a copy, of matrix products and of a tiny operator."""
    with torch.inference_mode():
        source = torch.ones(_ELEMENTS)
        target = torch.empty_like(source)
        copy = _best_seconds(lambda: target.copy_(source))
        flops = []
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            matrix = torch.ones(_WIDTH, _WIDTH, dtype=dtype)
            product = torch.empty_like(matrix)
            took = _best_seconds(lambda m=matrix, p=product: torch.mm(m, m, out=p))  # type: ignore[misc]
            flops.append((str(dtype).removeprefix("torch."), 2 * _WIDTH**3 / took))
        one = torch.ones(1)
        tiny = _best_seconds(lambda: [torch.add(one, one, out=one) for _ in range(100)])
    return Device(CPU, "this CPU", tuple(flops), 2 * source.nbytes / copy, tiny / 100)


def _best_seconds(run: Callable[[], object]) -> float:
    """Return the shortest time of a few runs, after a warm-up run."""
    run()
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)
