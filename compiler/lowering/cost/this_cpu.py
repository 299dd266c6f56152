"""Performance figures of this machine's CPU, measured once and kept in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from fullgraph.compiler.isolation import run_isolated

_REPEATS = 3
_ELEMENTS = 4 << 20
_WIDTH = 384


@dataclass(frozen=True)
class CpuFigures:
    """Measured flops per second by dtype, memory bandwidth and launch overhead of a CPU."""

    flops: tuple[tuple[str, float], ...]
    bandwidth: float
    launch: float


def measure_this_cpu() -> CpuFigures:
    """Return this CPU's figures from the cache file, or measure them in a child process.

    There is a cache file for each processor, number of threads and torch version. If it cannot be
    written, the next process measures again, which takes about a tenth of a second.
    """
    file = cache_file()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(file.read_text())
        flops = tuple((str(dtype), float(figure)) for dtype, figure in data["flops"])
        return CpuFigures(flops, float(data["bandwidth"]), float(data["launch"]))
    outcome = run_isolated(lambda emit: _measure(), objects=())
    figures = outcome.value if isinstance(outcome.value, CpuFigures) else _measure()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(figures)))
        partial.replace(file)
    return figures


def cache_file() -> Path:
    """Return the path of the cache file for this processor, number of threads and torch version."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    key = f"{_processor()} {torch.get_num_threads()} {torch.__version__}"
    name = f"cpu-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    return Path(folder) / "fullgraph" / name


def _processor() -> str:
    """Return the model name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()} {os.cpu_count()}"
    return f"{platform.machine()} {platform.processor()} {os.cpu_count()}"


def _measure() -> CpuFigures:
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
    return CpuFigures(tuple(flops), 2 * source.nbytes / copy, tiny / 100)


def _best_seconds(run: Callable[[], object]) -> float:
    """Return the shortest time of a few runs, after a warm-up run."""
    run()
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)
