"""Answers of the oracle in a file, from which an interrupted reduction resumes."""

from __future__ import annotations

import base64
import json
import os
import pickle
from pathlib import Path
from typing import Any

from fullgraph.compiler.errors import FullgraphError


class Journal:
    """File of the oracle's answers by key, each written before the answer is used.

    A run that resumes needs only the answers: reducers are deterministic, so with the same answers
    they reach the same candidates. A line that was cut short when the process was killed is
    skipped.
    """

    def __init__(self, path: Path, work: str) -> None:
        """`work` is the id of the reduction; the answers of another reduction are deleted."""
        self.path = path
        self.answers: dict[str, Any] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        if os.fstat(self._file).st_uid != os.getuid():
            raise FullgraphError(f"{path} belongs to somebody else: take it away, or choose --out.")
        with os.fdopen(os.dup(self._file)) as file:
            lines = file.read().split("\n")
        if json.dumps({"work": work}) in lines:
            self._read(lines)
        else:
            os.truncate(self._file, 0)
            self._append({"work": work})

    def _read(self, lines: list[str]) -> None:
        """Read the answers of an interrupted run; skip damaged lines."""
        for line in lines:
            try:
                entry = json.loads(line)
                if "answer" in entry:
                    self.answers[entry["key"]] = pickle.loads(base64.b64decode(entry["answer"]))
            except Exception:  # cut short, or of another version
                continue

    def _append(self, entry: dict[str, str]) -> None:
        os.write(self._file, f"\n{json.dumps(entry)}\n".encode())

    def note(self, key: str, answer: object) -> None:
        """Write the answer to the question `key`."""
        self.answers[key] = answer
        text = base64.b64encode(pickle.dumps(answer)).decode()
        self._append({"key": key, "answer": text})

    def close(self) -> None:
        """Close the file and keep it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def finish(self) -> None:
        """Delete the file: the reduction is complete."""
        self.close()
        self.path.unlink(missing_ok=True)
