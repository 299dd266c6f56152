"""The file of each module, by dotted name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fullgraph.rewrites.check.sources import NEVER_READ, Digests, find_module, package_of


class ModuleFiles:
    """The checked files with their dotted names, and the files from which they import."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.digests = Digests()
        self.names: dict[Path, str] = {}
        """Dotted names of the checked files, by absolute path."""
        self._paths: dict[str, Path | None] = {}
        self._roots: dict[Path, set[str]] = {}
        """Top-level packages of the checked files, by the root folder that imports start from."""
        packages: dict[Path, tuple[Path, str]] = {}
        for file in files:
            path = file.absolute()
            if path.parent not in packages:
                packages[path.parent] = package_of(path.parent / "__init__.py")
            root, package = packages[path.parent]
            stem = "" if path.name == "__init__.py" else path.stem
            name = f"{package}.{stem}".strip(".")
            top = name.partition(".")[0]
            self.names[path] = name
            if top not in NEVER_READ:  # "torch" is not what "adapters/torch.py" defines
                self._roots.setdefault(root, set()).add(top)
                self._paths.setdefault(name, path)

    def find_as(self, other: ModuleFiles) -> None:
        """Find the files of modules as `other` does."""
        self._paths, self._roots = other._paths, other._roots

    def name_of(self, file: Path) -> str:
        """Return the dotted name of a checked file."""
        return self.names[file.absolute()]

    def locate(self, name: str) -> Path | None:
        """Return the file of a module by its dotted name; None if the project has no such file."""
        if name not in self._paths:
            self._paths[name] = find_module(name, self._roots)
        return self._paths[name]

    def digest(self, name: str) -> str:
        """Return the digest of a module's file by its dotted name; "" if there is no file."""
        path = self.locate(name)
        return self.digests.of(path) if path is not None else ""
