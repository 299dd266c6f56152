"""Time of a first call of torch.compile by stage, for any backend.

The stages are read off the stack of the main thread, which a second thread samples: no backend is
changed, and none has to know of it. Builds are seen by a compiler of the same name that stands in
front of the real one in `PATH` and keeps a log.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

STAGES = ("imports", "Dynamo", "AOTAutograd", "own Python", "compiler")
"""*Own Python* is the backend's, after AOTAutograd; *compiler* its processes, while one runs."""
INTERVAL = 0.002
_FOLDERS = {
    "importlib._bootstrap": "imports",
    "/compiler/lowering/prims/": "",  # decompositions, which AOTAutograd traces
    "/torch/_inductor/decomposition.py": "",
    "/torch/_inductor/codecache.py": "",  # AOTAutograd's key, too, is computed there
    "/compiler/lowering/": "own Python",
    "/torch/_inductor/": "own Python",
    "/torch/_functorch/": "AOTAutograd",
    "/torch/_dynamo/backends/": "AOTAutograd",
}
_WRAPPER = """\
#!/bin/bash
TIMEFORMAT="%U %S"
exec 3>&2 4>&1
begin=$EPOCHREALTIME
cpu=$( {{ time {compiler} "$@" 2>&3 >&4; }} 2>&1 ); code=$?
echo "$begin $EPOCHREALTIME $cpu" >> {log}
exit $code
"""


class StageTimes:
    """Context in which the time of the main thread is counted by stage.

    Seconds that are spent in none of the other stages are Dynamo's; these hold the first run of the
    compiled code, too.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._samples: list[tuple[float, float, float, str]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._stages: dict[str, str] = {}

    def __enter__(self) -> StageTimes:
        self._before = len(_read_log(self._log))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        clock = time.pthread_getcpuclockid(main)
        before, cpu_before = time.time(), time.clock_gettime(clock)
        while not self._ended.wait(INTERVAL):
            stage = self._stage_of(sys._current_frames()[main])
            now, cpu = time.time(), time.clock_gettime(clock)
            self._samples.append((before, now, cpu - cpu_before, stage))
            before, cpu_before = now, cpu

    def _stage_of(self, frame: Any) -> str:
        """Return the stage of the innermost frame that has one; an import counts from any."""
        found = ""
        while frame is not None:
            name = frame.f_code.co_filename
            stage = self._stages.get(name)
            if stage is None:
                stage = next((s for part, s in _FOLDERS.items() if part in name), "")
                self._stages[name] = stage
            if stage == "imports":
                return stage
            found = found or stage
            frame = frame.f_back
        return found or "Dynamo"

    def seconds(self) -> dict[str, dict[str, float]]:
        """Return the seconds of each stage: "wall" time, and "cpu" of this thread and of builds."""
        builds = _read_log(self._log)[self._before :]
        wall, cpu = dict.fromkeys(STAGES, 0.0), dict.fromkeys(STAGES, 0.0)
        for begin, end, used, stage in self._samples:
            built = sum(max(0.0, min(end, b) - max(begin, a)) for a, b in _join(builds))
            wall["compiler"] += built
            wall[stage] += end - begin - built
            cpu[stage] += used
        cpu["compiler"] = sum(used for _, _, used in builds)
        return {"wall": wall, "cpu": cpu}


def _read_log(log: Path) -> list[tuple[float, float, float]]:
    """Return begin, end and CPU time of each run of the compiler."""
    lines = log.read_text().splitlines() if log.exists() else []
    rows = [[float(part) for part in line.split()] for line in lines]
    return [(begin, end, sum(cpu)) for begin, end, *cpu in rows]


def _join(builds: list[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """Return the intervals in which at least one build runs."""
    joined: list[tuple[float, float]] = []
    for begin, end, _ in sorted(builds):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def log_compiler(folder: Path) -> dict[str, str]:
    """Return the environment in which each run of g++ is written to `folder`/builds."""
    compiler = shutil.which("g++")
    wrapper = folder / "bin" / "g++"
    wrapper.parent.mkdir()
    log = folder / "builds"
    wrapper.write_text(_WRAPPER.format(compiler=compiler, log=log))
    wrapper.chmod(0o755)
    return {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
