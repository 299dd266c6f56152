"""A program as text, in the parts a script is put together from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.numerics import SCALAR, Tolerance


class Unwritable(FullgraphError):
    """Something that no Python source gives again. The message says what, and why."""


@dataclass(frozen=True)
class Program:
    """What is compiled, and what it is called with."""

    function: str
    """The source that defines `target`, and whatever that needs."""
    inputs: str
    """Statements that assign what `arguments` name."""
    target: str = "f"
    """An expression for the callable: a function's name, `Model()`."""
    arguments: tuple[str, ...] = ()
    """As they stand in the call: "x", "mask=mask"."""
    imports: tuple[str, ...] = ()
    """Lines besides `import torch`."""
    prelude: str = ""
    """Statements that come before the inputs: a process group, a seed."""
    under: tuple[str, ...] = ()
    """Contexts around each call: "torch.no_grad()"."""
    outputs: int | None = None
    """How many things the callable returns: 1 when it returns a tensor itself, else the length of
    its tuple; None for anything else."""
    loss: str = (
        "sum(y.sum() for y in torch.utils._pytree.tree_leaves({}) "
        "if isinstance(y, torch.Tensor) and y.requires_grad)"
    )
    """What goes backward, in terms of the call's result; "" if nothing can."""
    mutates: bool = False
    """Whether a call changes its inputs, so that each needs its own."""
    places: Mapping[str, str] = field(default_factory=dict)
    """By "input[2]", as results name it, or "input" for all of them: the expression for it."""
    random: bool = False
    """Whether it draws random numbers, so that each call needs the same seed."""
    tolerance: Tolerance = SCALAR
    """For what it returns."""

    @property
    def callee(self) -> str:
        """The name it is called by."""
        return self.target if self.target.isidentifier() else "model"

    def place(self, where: str) -> str:
        """The expression for an input or what the model holds, by its name in results."""
        for name, place in self.places.items():
            if where == name or where.startswith(f"{name}["):
                return place + where[len(name) :]
        path, name, inside = _parted(where)
        owner = self._module(path)
        plain = f"{owner}.{name}" if name.isidentifier() else f'getattr({owner}, "{name}")'
        return plain + inside

    def holder(self, where: str) -> str:
        """The expression for what is there beside a thing: the containers of an input, the names
        in a module."""
        for name, place in self.places.items():
            if where.startswith(f"{name}["):
                return f"torch.utils._pytree.tree_structure({place})"
        path, name, inside = _parted(where)
        if inside:
            return f"torch.utils._pytree.tree_structure({self.place(where.removesuffix(inside))})"
        return f"sorted(vars({self._module(path)}))"

    def _module(self, path: str) -> str:
        """The expression for a module inside the model."""
        if path and not all(part.isidentifier() for part in path.split(".")):
            return f'{self.callee}.get_submodule("{path}")'
        return f"{self.callee}.{path}".rstrip(".")


def _parted(where: str) -> tuple[str, str, str]:
    """Of a thing that the model holds: its module's path, its name, and the way into it."""
    outside, bracket, inside = where.partition("[")
    path, _, name = outside.rpartition(".")
    return path, name, bracket + inside
