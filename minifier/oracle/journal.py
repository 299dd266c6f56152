"""What was found out, on disk at once, so that interrupted work goes on where it was."""

from __future__ import annotations

import base64
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fullgraph.compiler.errors import FullgraphError

T = TypeVar("T")


class Journal:
    """Answers by the key of the question; each is in the file before it is used.

    The reducers are deterministic, so that with the same answers they come to the same candidate
    again: nothing but answers has to be kept. A line that a kill cut short is left out.
    """

    def __init__(self, path: Path, work: str) -> None:
        """`work` names what is done: what is known of other work is forgotten."""
        self.path = path
        self.answers: dict[str, Any] = {}
        self.recalled = 0
        """How often an answer was known."""
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
        self.resumed = len(self.answers)
        """How many answers were there already."""

    def _read(self, lines: list[str]) -> None:
        for line in lines:
            try:
                entry = json.loads(line)
                if "answer" in entry:
                    self.answers[entry["key"]] = pickle.loads(base64.b64decode(entry["answer"]))
            except Exception:  # cut short, or of another version
                continue

    def _append(self, entry: dict[str, str]) -> None:
        os.write(self._file, f"\n{json.dumps(entry)}\n".encode())

    def answer(self, key: str) -> Any:
        """What was noted, perhaps when this work was begun before; None if nothing was."""
        self.recalled += key in self.answers
        return self.answers.get(key)

    def note(self, key: str, answer: object) -> None:
        """Keep an answer that is not None."""
        self.answers[key] = answer
        text = base64.b64encode(pickle.dumps(answer)).decode()
        self._append({"key": key, "answer": text})

    def once(self, key: str, ask: Callable[[], T]) -> T:
        """What `ask` answers, or answered when this work was begun before."""
        found: T | None = self.answer(key)
        if found is None:
            found = ask()
            self.note(key, found)
        return found

    def close(self) -> None:
        """What was found out stays in the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def finish(self) -> None:
        """The work is done: nothing has to be gone on with."""
        self.close()
        self.path.unlink(missing_ok=True)
