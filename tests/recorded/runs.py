"""The recorded runs of a test module: a run is looked up by its question, or made.

`tests/a/test_b.py` has its runs in `tests/a/recorded/b.json`, one on a line: the question, which
names a program and holds everything else that the answer depends on, and the answer as plain data.
A question without an answer runs for real: a test is right without any recording, and slower.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
import re
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from tests.recorded.executed import note_data
from tests.recorded.plain import Plain, decode, encode

T = TypeVar("T")


class Recording(enum.StrEnum):
    """Use of the recorded answers, as the pytest option `--recorded` has it."""

    REPLAY = "replay"
    """They answer."""
    SAMPLE = "sample"
    """They answer, and one program of each module runs for real and must give them."""
    CHECK = "check"
    """Every program runs for real and must give them."""
    WRITE = "write"
    """They answer, and what else is asked runs for real and is recorded."""


class RecordedRuns:
    """The recorded runs of one test module."""

    mode = Recording.REPLAY
    """Of all modules in this process."""

    def __init__(self, module: Path) -> None:
        self.path = module.parent / "recorded" / f"{module.stem.removeprefix('test_')}.json"
        self._asked = self.path.with_suffix(f".{os.getpid()}.asked")
        """The answers that this process and its children used, a line each, until `merge`."""

    @cached_property
    def answers(self) -> dict[str, Any]:
        """The recorded answers as plain data, by question."""
        return _read(self.path) if self.path.exists() else {}

    @cached_property
    def sample(self) -> str:
        """The program with the longest answers; "" if there is none."""
        sizes = Counter[str]()
        for question, answer in self.answers.items():
            sizes[question.partition(" ")[0]] += len(json.dumps(answer))
        return max(sizes, key=lambda program: (sizes[program], program), default="")

    def answer(
        self,
        program: str,
        question: str,
        run: Callable[[], T],
        rename: Mapping[str, str] | None = None,
    ) -> T:
        """Return the recorded answer to a question about a program, or else what `run` returns.

        `rename` maps texts that are others in each run, such as the path of a file, to names that
        the recording has in their place.
        """
        key, names = f"{program} {question}", rename or {}
        if key in self.answers and not self.runs_for_real(program):
            self.note(key, self.answers[key])
            old = {name: text for text, name in names.items()}
            answer: T = decode(_rename(self.answers[key], old))
            return answer
        value = run()
        plain = _rename(encode(value), names)
        self.compare(key, json.loads(_ADDRESS.sub("0x…", _compact(plain))), _without_names)
        return value

    def runs_for_real(self, program: str) -> bool:
        """Return whether recorded answers on this program are checked rather than used."""
        is_sample = self.mode is Recording.SAMPLE and program == self.sample
        return self.mode is Recording.CHECK or is_sample

    def compare(self, key: str, plain: Plain, facts: Callable[[Plain], object]) -> None:
        """Record the answer of a real run; raise AssertionError if the recorded one has other
        `facts`."""
        known = self.answers.get(key)
        if known is not None and facts(known) != facts(plain):
            raise AssertionError(
                f"{self.path.name} is out of date: `make record` records what now runs.\n"
                f"question: {key}\nrecorded: {_compact(known)}\nnow:      {_compact(plain)}"
            )
        self.note(key, plain)

    def note(self, key: str, plain: Any) -> None:
        """Write down an answer that was used, if answers are being recorded."""
        if self.mode is Recording.WRITE:
            self.path.parent.mkdir(exist_ok=True)
            line = f"{_compact([key, plain])}\n".encode()
            file = os.open(self._asked, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(file, line)
            os.close(file)


_ADDRESS = re.compile("0x[0-9a-fA-F]{9,}")
_OTHER_EACH_TIME = re.compile(r"\b\d{14,15}\b|[\w/.-]*fullgraph-test-\w+/\w+")
"""Addresses as ints, and the ends of the paths of temporary folders, which messages cut."""
_FOLDERS = {
    "{site-packages}": sysconfig.get_path("purelib"),
    "{stdlib}": sysconfig.get_path("stdlib"),
    "{project}": str(Path(__file__).parents[2]),
}
"""The folders of this machine by their names in the files, an inner one before its parent."""
_CURRENT: ContextVar[RecordedRuns] = ContextVar("_CURRENT")


@lru_cache
def runs_of(module: Path) -> RecordedRuns:
    """Return the recorded runs of a test module, the same object each time."""
    return RecordedRuns(module)


@contextmanager
def recorded_for(module: Path) -> Iterator[None]:
    """Inside the block, `current` returns the recorded runs of this test module."""
    token = _CURRENT.set(runs := runs_of(module))
    if runs.path.exists():
        note_data(runs.path)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current() -> RecordedRuns:
    """Return the recorded runs of the test module that runs."""
    return _CURRENT.get()


def merge(folder: Path, keep: bool) -> list[Path]:
    """Write the answers that the tests under `folder` used to their files; return the files.

    With `keep`, because only some tests ran, answers that were not used stay.
    """
    used: dict[Path, dict[str, Any]] = {}
    for path in sorted(folder.rglob("recorded/*.asked")):
        target = path.with_suffix("").with_suffix(".json")
        old = _read(target) if keep and target.exists() else {}
        answers = used.setdefault(target, old)
        answers |= dict(map(json.loads, path.read_text().splitlines()))
        path.unlink()
    for target, answers in used.items():
        lines = (f"{json.dumps(key)}: {_compact(answers[key])}" for key in sorted(answers))
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        for name, folder in _FOLDERS.items():
            text = text.replace(f"{folder}/", f"{name}/")
        target.write_text(text)
    return [*used]


def _read(path: Path) -> dict[str, Any]:
    text = path.read_text()
    for name, folder in _FOLDERS.items():
        text = text.replace(f"{name}/", f"{folder}/")
    answers: dict[str, Any] = json.loads(text)
    return answers


def digest_of(*values: Any) -> str:
    """Return a digest of values that is the same in every process: of tensors, by their bytes."""
    told = hashlib.sha256()
    for part in _parts_of(values):
        told.update(part)
    return told.hexdigest()[:12]


def _parts_of(value: Any) -> Iterable[bytes]:
    if isinstance(value, torch.Tensor):
        yield repr((value.dtype, value.shape, value.stride(), value.requires_grad)).encode()
        strided = value.layout is torch.strided and value.device.type == "cpu"
        if strided:
            plain = value.detach().resolve_conj().resolve_neg().contiguous().view(-1)
            yield plain.view(torch.uint8).numpy().tobytes()
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype, value.shape)).encode() + value.tobytes()
    elif isinstance(value, list | tuple):
        yield type(value).__name__.encode()
        for item in value:
            yield from _parts_of(item)
    elif isinstance(value, dict):
        yield from _parts_of([*value.items()])
    elif isinstance(value, torch.nn.Module):
        yield from _parts_of([str(value), value.state_dict()])
    elif isinstance(value, type) or hasattr(value, "__qualname__"):
        yield value.__qualname__.encode()
    elif type(value).__repr__ is object.__repr__:
        yield from _parts_of([type(value).__qualname__, vars(value)])
    else:
        yield repr(value).encode()


def _compact(plain: Plain) -> str:
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


def _without_names(plain: Plain) -> str:
    return _OTHER_EACH_TIME.sub("…", _compact(plain))


def _rename(plain: Plain, names: Mapping[str, str]) -> Plain:
    text = json.dumps(plain)
    for old, new in names.items():
        text = text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
    return json.loads(text)
