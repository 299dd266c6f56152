"""The value that `fix` returns: shows, writes and runs the accepted edits."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from fullgraph.compiler.display import mimebundle
from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.sources import Owner, cell_name, owner_of
from fullgraph.rewrites.fix.fix_report import plain, to_dict, verdict
from fullgraph.rewrites.fix.fix_view import view
from fullgraph.rewrites.fix.patched import patched
from fullgraph.rewrites.fix.results import FixResult
from fullgraph.rewrites.proof import override_program
from fullgraph.rewrites.source import write_files


class Fixes(FixResult):
    """Suggestions with their proofs, and the program before and after the accepted edits."""

    @property
    def verdict(self) -> str:
        """The result in one line."""
        return verdict(self)

    def apply(
        self,
        *,
        unsafe: bool = False,
        roots: Iterable[str | os.PathLike[str]] | None = None,
        force: bool = False,
    ) -> tuple[Path, ...]:
        """Write the edits to the files, all of them or none; return the files written.

        Only files under `roots` (default: the working directory) are written, and never those of
        installed packages: for these, use `diff` as a patch, or `active`. Raises FullgraphError
        if a file has changed since `fix` read it, if it has uncommitted changes (unless `force`),
        and for the cell of a notebook.
        """
        texts = self.changed_texts(unsafe=unsafe)
        if cells := [name for file in texts if (name := cell_name(file))]:
            raise FullgraphError(
                f"{cells[0]} is a cell of a notebook, not a file: copy the edit into it, or use "
                "`patched()`, which gives a copy that runs the edits."
            )
        texts = {file: text for file, text in texts.items() if owner_of(file) is Owner.USER}
        return write_files(self.originals, texts, roots=roots, force=force)

    @contextmanager
    def active(self, *, unsafe: bool = False) -> Iterator[None]:
        """Run the edited code, also that of installed packages, inside the block; write no file."""
        with override_program(self.subject, self.changed_texts(unsafe=unsafe)):
            yield

    @property
    def model(self) -> Any:
        """A copy of the module (parameters shared) or function that runs the safe edits."""
        return self.patched()

    def patched(self, *, unsafe: bool = False) -> Any:
        """Return a copy as `model` does; with `unsafe`, it also runs the unsafe edits."""
        return patched(self.subject, self.changed_texts(unsafe=unsafe))

    def to_dict(self) -> dict[str, object]:
        """Return this result as JSON-ready data, schema 1."""
        return to_dict(self)

    def __str__(self) -> str:
        return plain(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mimebundle(plain(self), view(self))


def source_files(model: Any) -> tuple[str, ...]:
    """Return the user's files that hold the code of a module and its submodules, or a function."""
    parts = model.modules() if isinstance(model, torch.nn.Module) else (model,)
    functions = (type(p).forward if isinstance(p, torch.nn.Module) else p for p in parts)
    codes = (getattr(inspect.unwrap(function), "__code__", None) for function in functions)
    files = dict.fromkeys(code.co_filename for code in codes if code is not None)
    return tuple(file for file in files if owner_of(file) is Owner.USER and Path(file).is_file())
