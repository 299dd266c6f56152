"""What was found out, on disk at once, so that interrupted work goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from fullgraph.minifier.problem import Verdict


class Journal(MutableMapping[str, Verdict]):
    """Verdicts by the key of the candidate; each is in the file before it is used.

    The reducers are deterministic, so that with the same verdicts they come to the same candidate
    again: nothing but verdicts has to be kept. A line that a kill cut short is left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Verdict] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    key, verdict = json.loads(line)
                    self._known[key] = Verdict(verdict)
                except ValueError:
                    continue
        self.resumed = len(self._known)
        """How many verdicts were there already."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __getitem__(self, key: str) -> Verdict:
        return self._known[key]

    def __setitem__(self, key: str, verdict: Verdict) -> None:
        if self._known.get(key) == verdict:
            return
        self._known[key] = verdict
        os.write(self._file, f"\n{json.dumps([key, verdict])}\n".encode())

    def __delitem__(self, key: str) -> None:
        del self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def finish(self) -> None:
        """The work is done: nothing has to be gone on with."""
        os.close(self._file)
        self.path.unlink(missing_ok=True)
